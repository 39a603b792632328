/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/host/harden.h"

#include <string.h>
#include <thrift/c_glib/processor/thrift_multiplexed_processor.h>
#include <thrift/c_glib/thrift_application_exception.h>

#include "plugin/host/protocol.h"
#include "plugin/host/transcode.h"
#include "plugin/host/transport.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

typedef struct
{
  ThriftProcessor parent;
  ThriftProcessor *inner;
  ThriftMultiplexedProcessor *multiplexed; /* `inner`, if this object routes its calls; borrowed */
  TpsScannerOptions limits;                /* `bodies` has a reference */
  guint max_elements;
  atomic_uint n_calls;
} TpsHardenedProcessor;

typedef struct
{
  ThriftProcessorClass parent;
} TpsHardenedProcessorClass;

G_DEFINE_TYPE (TpsHardenedProcessor, tps_hardened_processor, THRIFT_TYPE_PROCESSOR)

/* ---- receiving ------------------------------------------------------------------------------ */

/* Receives a call. Returns the protocol from which the call must be read; the caller owns it. */
static ThriftProtocol *
receive (TpsHardenedProcessor *processor, ThriftProtocol *in, TpsMessage **message, GError **error)
{
  g_autofree gchar *name = NULL;
  g_autoptr (GObject) transport = NULL;
  ThriftMessageType type;
  gint32 seqid;

  if (TPS_IS_HOST_PROTOCOL (in))
    {
      if (thrift_protocol_read_message_begin (in, &name, &type, &seqid, error) < 0)
        return NULL;
      *message = tps_host_protocol_steal_message (TPS_HOST_PROTOCOL (in));
      return g_object_ref (in);
    }
  *message = tps_transcode_read (in, &processor->limits, error);
  if (*message == NULL)
    {
      tps_transcode_abandon (in);
      return NULL;
    }
  transport = (GObject *) tps_transcode_dup_transport (in);
  return tps_host_protocol_new ((ThriftTransport *) transport);
}

/* ---- routing -------------------------------------------------------------------------------- */

/* Returns the processor for the message, borrowed; NULL = there is none. Removes the name of the
 * service from the name of the message. */
static ThriftProcessor *
route (const TpsHardenedProcessor *processor, TpsMessage *message)
{
  const ThriftMultiplexedProcessor *multiplexed = processor->multiplexed;
  g_autofree gchar *service = NULL;
  gchar *colon = strchr (message->name, ':');
  ThriftProcessor *target;

  if (multiplexed == NULL)
    return processor->inner;
  if (colon == NULL)
    {
      if (multiplexed->default_processor_name == NULL)
        return NULL;
      return g_hash_table_lookup (multiplexed->multiplexed_services,
                                  multiplexed->default_processor_name);
    }
  service = g_strndup (message->name, (gsize) (colon - message->name));
  target = g_hash_table_lookup (multiplexed->multiplexed_services, service);
  if (target != NULL)
    memmove (message->name, colon + 1, strlen (colon));
  return target;
}

static gboolean
refuse_unknown_service (ThriftProtocol *out, const TpsMessage *message, GError **error)
{
  g_autoptr (GObject) transport = (GObject *) tps_transcode_dup_transport (out);
  g_autofree gchar *text = g_strdup_printf ("no service for \"%s\" is known here", message->name);
  g_autoptr (GObject) exception = g_object_new (THRIFT_TYPE_APPLICATION_EXCEPTION, "type",
                                                THRIFT_APPLICATION_EXCEPTION_ERROR_UNKNOWN_METHOD,
                                                "message", text, NULL);

  return thrift_protocol_write_message_begin (out, message->name, T_EXCEPTION, message->seqid,
                                              error)
             >= 0
         && thrift_struct_write (THRIFT_STRUCT (exception), out, error) >= 0
         && thrift_protocol_write_message_end (out, error) >= 0 && transport != NULL
         && thrift_transport_write_end (THRIFT_TRANSPORT (transport), error)
         && thrift_transport_flush (THRIFT_TRANSPORT (transport), error);
}

/* ---- processing ----------------------------------------------------------------------------- */

/* Runs the processor of the application. Takes ownership of `message`. */
static gboolean
run (TpsHardenedProcessor *processor, ThriftProcessor *target, TpsMessage *message,
     ThriftProtocol *in, ThriftProtocol *out, GError **error)
{
  GError *failure = NULL;
  gboolean ok;
  guint n;

  tps_host_protocol_give_message (TPS_HOST_PROTOCOL (in), message, processor->max_elements);
  ok = thrift_processor_process (target, in, out, &failure);
  /* Calls may register new types, for example on the first use of a struct. They are repaired after
   * calls 1, 2, 4, 8, ..., because a search for them after every call would be too slow. */
  n = atomic_fetch_add_explicit (&processor->n_calls, 1, memory_order_relaxed) + 1;
  if ((n & (n - 1)) == 0)
    tps_repair_library ();
  if (ok)
    {
      g_clear_error (&failure);
      return TRUE;
    }
  if (failure == NULL)
    g_set_error_literal (&failure, TPS_ERROR, TPS_ERROR_INTERNAL,
                         "the host's processor failed without an error");
  g_propagate_error (error, failure);
  return FALSE;
}

static ThriftProtocol *
sink_new (void)
{
  ThriftTransport *transport = tps_host_transport_new_sink ();
  ThriftProtocol *sink = tps_host_protocol_new (transport);

  g_object_unref (transport);
  return sink;
}

static gboolean
handle (TpsHardenedProcessor *processor, TpsMessage *message, ThriftProtocol *in,
        ThriftProtocol *out, GError **error)
{
  g_autoptr (GObject) answers = NULL; /* the protocol to which the reply is written */
  g_autoptr (TpsMessage) call = message;
  ThriftProcessor *target;

  if (call->kind != TPS_MESSAGE_CALL && call->kind != TPS_MESSAGE_ONEWAY)
    return tps_fail (error, TPS_ERROR_PROTOCOL,
                     "message type %d is neither a call (1) nor oneway (4)", (gint) call->kind);
  answers = G_OBJECT (call->kind == TPS_MESSAGE_ONEWAY ? sink_new () : g_object_ref (out));
  target = route (processor, call);
  if (target == NULL)
    return refuse_unknown_service (THRIFT_PROTOCOL (answers), call, error);
  return run (processor, target, g_steal_pointer (&call), in, THRIFT_PROTOCOL (answers), error);
}

static gboolean
tps_hardened_processor_process (ThriftProcessor *base, ThriftProtocol *in, ThriftProtocol *out,
                                GError **error)
{
  TpsHardenedProcessor *processor = (TpsHardenedProcessor *) base;
  g_autoptr (GObject) reading = NULL;
  TpsMessage *message = NULL;
  GError *failure = NULL;

  reading = (GObject *) receive (processor, in, &message, &failure);
  if (reading != NULL && handle (processor, message, THRIFT_PROTOCOL (reading), out, &failure))
    return TRUE;
  if (error != NULL)
    g_clear_error (error);
  g_propagate_error (error, failure);
  return FALSE;
}

/* ---- class ---------------------------------------------------------------------------------- */

static void
tps_hardened_processor_finalize (GObject *object)
{
  TpsHardenedProcessor *processor = (TpsHardenedProcessor *) object;

  g_clear_object (&processor->inner);
  G_OBJECT_CLASS (tps_hardened_processor_parent_class)->finalize (object);
}

static void
tps_hardened_processor_init (TpsHardenedProcessor *processor)
{
}

static void
tps_hardened_processor_class_init (TpsHardenedProcessorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tps_hardened_processor_finalize;
  THRIFT_PROCESSOR_CLASS (klass)->process = tps_hardened_processor_process;
}

static void
repair_service (gpointer name, gpointer processor, gpointer user_data)
{
  tps_repair_processor_class (processor);
}

/* Returns the processor whose calls are routed here, or NULL. A subclass of
 * ThriftMultiplexedProcessor that overrides the routing routes its calls itself. */
static ThriftMultiplexedProcessor *
find_multiplexed (ThriftProcessor *processor)
{
  ThriftProcessorClass *stock;

  if (!THRIFT_IS_MULTIPLEXED_PROCESSOR (processor))
    return NULL;
  stock = g_type_class_peek (THRIFT_TYPE_MULTIPLEXED_PROCESSOR);
  return THRIFT_PROCESSOR_GET_CLASS (processor)->process == stock->process
             ? THRIFT_MULTIPLEXED_PROCESSOR (processor)
             : NULL;
}

ThriftProcessor *
tps_harden_processor (ThriftProcessor *processor, const TpsHostOptions *options)
{
  TpsHardenedProcessor *hardened = g_object_new (TPS_TYPE_HARDENED_PROCESSOR, NULL);

  tps_repair_library ();
  tps_repair_processor_class (processor);
  hardened->inner = g_object_ref (processor);
  hardened->multiplexed = find_multiplexed (processor);
  if (hardened->multiplexed != NULL)
    g_hash_table_foreach (hardened->multiplexed->multiplexed_services, repair_service, NULL);
  tps_host_options_get_limits (options, &hardened->limits);
  hardened->max_elements = tps_host_options_get_max_elements (options);
  return THRIFT_PROCESSOR (hardened);
}

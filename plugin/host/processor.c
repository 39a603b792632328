/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A call has three steps:
 *
 *   receive   The message is taken from a TpsHostProtocol, or transcoded from any other protocol.
 *   dispatch  The handler runs on this thread, which then waits for a reply from any thread.
 *   send      The reply is passed to a TpsHostTransport, or transcoded to any other protocol. */

#include "plugin/host/processor.h"

#include "plugin/host/library.h"
#include "plugin/host/protocol.h"
#include "plugin/host/transcode.h"
#include "plugin/host/transport.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

struct TpsProcessor
{
  ThriftProcessor parent;
  TpsDispatcher *dispatcher;
  TpsHostKind kind;
  TpsScannerOptions limits; /* `bodies` has a reference */
};

typedef struct
{
  ThriftProcessorClass parent;
} TpsProcessorClass;

G_DEFINE_TYPE (TpsProcessor, tps_processor, THRIFT_TYPE_PROCESSOR)

/* A call that a thread of the application carries. */
typedef struct
{
  const TpsProcessor *processor;
  TpsMutex lock;
  TpsCond answered;
  gboolean is_answered; /* guarded by the lock */
  TpsWriter *reply;     /* guarded by the lock */
} CarriedCall;

/* ---- receiving ------------------------------------------------------------------------------ */

/* Takes the message from a TpsHostProtocol. `in` may be a decorator that changes the name of the
 * message. */
static TpsMessage *
steal_message (ThriftProtocol *in, TpsHostProtocol *base, GError **error)
{
  g_autofree gchar *name = NULL;
  ThriftMessageType type;
  gint32 seqid;
  TpsMessage *message;

  if (thrift_protocol_read_message_begin (in, &name, &type, &seqid, error) < 0)
    return NULL;
  message = tps_host_protocol_steal_message (base);
  if (message == NULL)
    return tps_fail_null (error, TPS_ERROR_INTERNAL, "a call began without a message");
  tps_message_set_name (message, name);
  return message;
}

TpsMessage *
tps_processor_receive (TpsProcessor *processor, ThriftProtocol *in, GError **error)
{
  ThriftProtocol *base = tps_transcode_undecorate (in);
  TpsMessage *message;

  if (TPS_IS_HOST_PROTOCOL (base))
    return steal_message (in, TPS_HOST_PROTOCOL (base), error);
  message = tps_transcode_read (in, &processor->limits, error);
  if (message == NULL)
    tps_transcode_abandon (in);
  return message;
}

/* ---- dispatching ---------------------------------------------------------------------------- */

static gboolean
may_wait (gpointer carried)
{
  const CarriedCall *call = carried;

  return call->processor->kind == TPS_HOST_THREADED;
}

static void
run_here (gpointer carried, TpsLane lane, TpsJobFunc func, TpsJobFunc cancel, gpointer user_data)
{
  func (user_data);
}

static void
finish (gpointer carried, TpsWriter *reply)
{
  CarriedCall *call = carried;

  TPS_LOCK_SCOPE (&call->lock);
  call->reply = reply;
  call->is_answered = TRUE;
  tps_cond_signal (&call->answered);
}

static const TpsCarrierOps carrier_ops = {
  .may_wait = may_wait,
  .run_on_worker = run_here,
  .finish = finish,
};

TpsWriter *
tps_processor_call (TpsProcessor *processor, TpsMessage *message)
{
  CarriedCall call = { .processor = processor };
  /* An application's processor that TpsServer serves may call the services itself. The grant of the
   * call that it processes then applies, so that its caller gets no additional rights. */
  const TpsCaller caller = { .grant = tps_grant_get_current () };

  tps_mutex_init (&call.lock);
  tps_cond_init (&call.answered);
  tps_dispatcher_handle (processor->dispatcher, message, &caller, NULL, &carrier_ops, &call);
  tps_mutex_lock (&call.lock);
  while (!call.is_answered)
    tps_cond_wait (&call.answered, &call.lock);
  tps_mutex_unlock (&call.lock);
  tps_cond_clear (&call.answered);
  tps_mutex_clear (&call.lock);
  return call.reply;
}

/* ---- sending -------------------------------------------------------------------------------- */

/* Sends the reply; NULL = the call was oneway. Takes ownership of `reply`. */
static gboolean
send_reply (TpsWriter *reply, ThriftProtocol *out, TpsHostTransport *transport, GError **error)
{
  gboolean ok;

  if (reply == NULL)
    return TRUE;
  if (transport != NULL)
    return tps_host_transport_take_reply (transport, reply, error)
           && thrift_transport_flush (THRIFT_TRANSPORT (transport), error);
  ok = tps_transcode_write (reply, out, error);
  tps_writer_free (reply);
  return ok;
}

static gboolean
tps_processor_process (ThriftProcessor *base, ThriftProtocol *in, ThriftProtocol *out,
                       GError **error)
{
  TpsProcessor *processor = TPS_PROCESSOR (base);
  ThriftTransport *given = tps_transcode_undecorate (out)->transport;
  TpsHostTransport *transport = given != NULL && TPS_IS_HOST_TRANSPORT (given)
                                    ? TPS_HOST_TRANSPORT (given)
                                    : NULL;
  GError *failure = NULL;
  TpsMessage *message = tps_processor_receive (processor, in, &failure);
  TpsWriterForm form = { .protocol = TPS_PROTOCOL_BINARY };

  if (message != NULL)
    {
      /* The form of the reply is that of the protocol that sends it. */
      if (transport != NULL)
        tps_host_transport_get_form (transport, &form);
      message->protocol = form.protocol;
      message->framed = form.framed;
      message->has_header = form.has_header;
      message->header_seqid = form.header_seqid;
      if (send_reply (tps_processor_call (processor, message), out, transport, &failure))
        return TRUE;
    }
  /* Callers in the library may pass an error that is already set. */
  if (error != NULL)
    g_clear_error (error);
  g_propagate_error (error, failure);
  return FALSE;
}

/* ---- class ---------------------------------------------------------------------------------- */

static void
tps_processor_finalize (GObject *object)
{
  TpsProcessor *processor = TPS_PROCESSOR (object);

  g_clear_pointer (&processor->dispatcher, tps_dispatcher_unref);
  G_OBJECT_CLASS (tps_processor_parent_class)->finalize (object);
}

static void
tps_processor_init (TpsProcessor *processor)
{
}

static void
tps_processor_class_init (TpsProcessorClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = tps_processor_finalize;
  THRIFT_PROCESSOR_CLASS (klass)->process = tps_processor_process;
}

ThriftProcessor *
tps_processor_new (TpsDispatcher *dispatcher, TpsHostKind kind, const TpsHostOptions *options)
{
  TpsProcessor *processor = g_object_new (TPS_TYPE_PROCESSOR, NULL);

  tps_repair_library ();
  processor->dispatcher = tps_dispatcher_ref (dispatcher);
  processor->kind = kind;
  tps_host_options_get_limits (options, &processor->limits);
  return THRIFT_PROCESSOR (processor);
}

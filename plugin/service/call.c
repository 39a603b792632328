/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call.h"

#include <string.h>

#include "plugin/service/call_internal.h"
#include "plugin/wire/wire_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/trace.h"

/* One name, two levels: a caller's mistake is its own business, a failure of this server is ours. */
static TpsTraceEvent request_failed = TPS_TRACE_EVENT ("request_failed", TPS_TRACE_INFO);
static TpsTraceEvent request_failed_here = TPS_TRACE_EVENT ("request_failed", TPS_TRACE_ERROR);

/* Replies of this size leave whatever else their connection has not read: a command that took effect must not look refused. */
#define MAX_SMALL_BYTES 4096

struct TpsCall
{
  TpsMessage *message;
  const TpsCarrierOps *ops;
  gpointer carried;
  const TpsRpc *rpc;             /* NULL: a method of another contract, or none */
  const TpsCallContext *context; /* borrowed */
  gboolean copies_shared;

  /* What tps_call_run_on_worker() was asked for. */
  void (*work) (TpsCall *call, gpointer user_data);
  gpointer work_data;
  GDestroyNotify release_work; /* may be NULL */
};

static TpsDepot depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine magazine;

TpsCall *
tps_call_new (TpsMessage *message, const TpsRpc *rpc, const TpsCarrierOps *ops, gpointer carried,
              const TpsCallContext *context)
{
  TpsCall *call = tps_magazine_take (&magazine, &depot);

  if (call == NULL)
    call = g_new (TpsCall, 1);
  *call = (TpsCall) {
    .message = message, .rpc = rpc, .ops = ops, .carried = carried, .context = context
  };
  return call;
}

void
tps_call_copy_shared (TpsCall *call)
{
  call->copies_shared = TRUE;
}

/* The end of the call. Its bodies go before the carrier hears of it, so that what it then reads finds room. */
static void
finish (TpsCall *call, TpsWriter *reply)
{
  tps_message_free (call->message);
  call->ops->finish (call->carried, reply);
  tps_magazine_put (&magazine, &depot, call);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* `code` is the wire's; 0 = a TApplicationException, which has no name. */
static void
trace_failure (TpsCall *call, gint code, const gchar *text)
{
  TpsTraceEvent *event = code == TPS_ERROR_INTERNAL - TPS_ERROR_WIRE_BASE ? &request_failed_here
                                                                          : &request_failed;
  const gchar *name = code != 0 ? tps_error_code_name (code + TPS_ERROR_WIRE_BASE)
                                : "TApplicationException";

  tps_counter_add (call->context->failed[code], 1);
  tps_trace (event, tps_field_text ("method", call->message->name),
             tps_field_text ("peer", tps_call_get_peer (call)), tps_field_text ("code", name),
             tps_field_text ("message", text));
}

/* ---- writing answers ------------------------------------------------------------------------ */

static gboolean
wants_answer (TpsCall *call)
{
  if (call->message->kind == TPS_MESSAGE_ONEWAY)
    return FALSE;
  return call->ops->is_wanted == NULL || call->ops->is_wanted (call->carried);
}

/* The name without its service, as Thrift's multiplexed processors hand it on and answer with. */
static const gchar *
get_method_name (const TpsMessage *message)
{
  const gchar *colon = strchr (message->name, ':');

  return colon != NULL ? colon + 1 : message->name;
}

static TpsWriter *
begin_answer (const TpsMessage *message, TpsMessageKind kind)
{
  TpsWriter *out = tps_writer_new (message->protocol, message->framed);

  tps_writer_message_begin (out, get_method_name (message), kind, message->seqid);
  tps_writer_struct_begin (out);
  return out;
}

/* FALSE with an error when the answer is longer than a message can be. What comes in a transfer is answered in one. */
static gboolean
end_answer (const TpsMessage *message, TpsWriter *out, GError **error)
{
  tps_writer_struct_end (out);
  return message->transferred ? tps_writer_message_end_transferred (out, error)
                              : tps_writer_message_end (out, error);
}

static TpsBudget *
get_reply_budget (TpsCall *call)
{
  return call->ops->get_reply_budget != NULL ? call->ops->get_reply_budget (call->carried) : NULL;
}

/* Errors must leave when there is no memory for anything else: they are charged if there is room. A connection that does not
 * take them is not read (plugin/net). */
static TpsWriter *
end_error (TpsCall *call, TpsWriter *out)
{
  end_answer (call->message, out, NULL);
  tps_writer_set_budget (out, get_reply_budget (call));
  return out;
}

static TpsWriter *
write_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text)
{
  TpsApplicationException exception = { (gchar *) (gsize) text, (gint32) kind };
  TpsWriter *out = begin_answer (call->message, TPS_MESSAGE_EXCEPTION);

  tps_application_exception_write (out, &exception);
  return end_error (call, out);
}

/* A failure in another contract, which does not have our ServiceError. */
static TpsWriter *
write_foreign_error (TpsCall *call, const GError *failure)
{
  TpsExceptionKind kind = g_error_matches (failure, TPS_ERROR, TPS_ERROR_PROTOCOL)
                              ? TPS_EXCEPTION_PROTOCOL_ERROR
                              : TPS_EXCEPTION_INTERNAL_ERROR;
  gint code = failure->domain == TPS_ERROR ? failure->code : TPS_ERROR_INTERNAL;
  g_autofree gchar *text = g_strdup_printf ("%s: %s", tps_error_code_name (code), failure->message);

  return write_exception (call, kind, text);
}

/* `transfer` may be NULL. */
static TpsWriter *
write_service_error (TpsCall *call, const GError *failure, const gchar *transfer)
{
  TpsWriter *out = begin_answer (call->message, TPS_MESSAGE_REPLY);
  gint retry_after_ms = failure->domain == TPS_ERROR ? tps_error_get_retry_after_ms (failure) : -1;
  TpsServiceError value = {
    .code = tps_error_to_wire_code (failure),
    .message = failure->message,
    .has_retry_after_ms = retry_after_ms >= 0,
    .retry_after_ms = retry_after_ms,
    .transfer = (gchar *) (gsize) transfer,
  };

  tps_field_write (&tps_failure_field, out, &value);
  return end_error (call, out);
}

static TpsWriter *
write_failure (TpsCall *call, const GError *failure)
{
  return call->rpc != NULL ? write_service_error (call, failure, NULL)
                           : write_foreign_error (call, failure);
}

/* Where large tensors of the answer may lie; NULL: nowhere but in the answer. */
static TpsSharing *
find_place (TpsCall *call)
{
  TpsSegmentRegistry *segments = tps_call_get_segments (call, NULL);

  return segments != NULL ? tps_segment_registry_answer (segments) : NULL;
}

/* Has an answer that no frame can hold wait for its client, and tells it where. Takes over `out`. */
static TpsWriter *
keep_answer (TpsCall *call, TpsWriter *out, const GError *too_long)
{
  const TpsService *keeper = call->context->keeper;
  g_autoptr (TpsWriter) answer = out;
  g_autofree gchar *name = NULL;
  g_autoptr (GError) error = NULL;

  if (keeper == NULL)
    {
      trace_failure (call, tps_error_to_wire_code (too_long), too_long->message);
      return write_service_error (call, too_long, NULL);
    }
  if (!tps_writer_message_end_transferred (answer, &error)
      || !keeper->keep_answer (keeper->object, answer, &name, &error))
    {
      trace_failure (call, tps_error_to_wire_code (error), error->message);
      return write_service_error (call, error, NULL);
    }
  g_steal_pointer (&answer); /* the keeper's now */
  return write_service_error (call, too_long, name);
}

/* The answer; with an error where it is longer than a message can be, or there is no memory for it. */
static TpsWriter *
write_to (TpsCall *call, TpsSharing *place, TpsWriteResult write, gconstpointer user_data,
          GError **error)
{
  TpsWriter *out = begin_answer (call->message, TPS_MESSAGE_REPLY);

  tps_writer_set_budget (out, get_reply_budget (call));
  tps_writer_set_sharing (out, place);
  if (write != NULL)
    write (out, user_data);
  end_answer (call->message, out, error);
  return out;
}

static gboolean
has_room (TpsCall *call, TpsWriter *out)
{
  guint n_pieces;
  gsize n_bytes;

  tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  return n_bytes <= MAX_SMALL_BYTES || call->ops->has_room == NULL
         || call->ops->has_room (call->carried, n_bytes);
}

/* Takes over `out`, for which there is no room among the replies that have not been read. */
static TpsWriter *
refuse_unread (TpsCall *call, TpsWriter *out)
{
  g_autoptr (GError)
      error = g_error_new_literal (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                                   "no room for the reply: too many replies have not been read");

  tps_error_set_retry_after_ms (error, TPS_RETRY_AFTER_MS);
  tps_writer_free (out);
  trace_failure (call, tps_error_to_wire_code (error), error->message);
  return write_failure (call, error);
}

static TpsWriter *
write_result (TpsCall *call, TpsWriteResult write, gconstpointer user_data)
{
  g_autoptr (TpsSharing) place = write != NULL ? find_place (call) : NULL;
  g_autoptr (GError) too_long = NULL;
  TpsWriter *out = write_to (call, place, write, user_data, &too_long);

  if (too_long == NULL)
    {
      if (!has_room (call, out))
        return refuse_unread (call, out);
      if (place != NULL)
        tps_segment_registry_commit (place);
      return out;
    }
  if (place != NULL) /* what waits cannot lie in memory that the next answer needs */
    {
      g_clear_error (&too_long);
      tps_writer_free (out);
      g_clear_pointer (&place, tps_sharing_unref);
      out = write_to (call, NULL, write, user_data, &too_long);
    }
  return too_long == NULL ? out : keep_answer (call, out, too_long);
}

/* ---- for handlers --------------------------------------------------------------------------- */

void
tps_call_get_arguments (TpsCall *call, TpsReader *in)
{
  tps_reader_init (in, call->message);
}

gboolean
tps_call_read_arguments (TpsCall *call, gpointer arguments, GError **error)
{
  TpsReader in;

  tps_call_get_arguments (call, &in);
  in.copies_shared = call->copies_shared;
  return tps_rpc_read_arguments (call->rpc, &in, arguments, error);
}

gboolean
tps_call_charge (TpsCall *call, gsize n_bytes, GError **error)
{
  return tps_message_charge (call->message, n_bytes, error);
}

gboolean
tps_call_may_wait (TpsCall *call)
{
  return call->ops->may_wait (call->carried);
}

const gchar *
tps_call_get_peer (TpsCall *call)
{
  return call->ops->get_peer != NULL ? call->ops->get_peer (call->carried) : NULL;
}

TpsSegmentRegistry *
tps_call_get_segments (TpsCall *call, GError **error)
{
  if (call->ops->get_segments != NULL)
    return call->ops->get_segments (call->carried, error);
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "shared memory is not offered here: this server only carries messages");
  return NULL;
}

gconstpointer
tps_call_get_connection (TpsCall *call)
{
  return call->ops->get_connection != NULL ? call->ops->get_connection (call->carried) : NULL;
}

/* The connection of a cancelled call is closed: no reply is sent. */
static void
cancel (TpsCall *call)
{
  tps_counter_add (call->context->cancelled, 1);
  finish (call, NULL);
}

static void
run_work (gpointer data)
{
  TpsCall *call = data;

  call->work (call, call->work_data);
}

static void
cancel_work (gpointer data)
{
  TpsCall *call = data;

  if (call->release_work != NULL)
    call->release_work (call->work_data);
  cancel (call);
}

void
tps_call_run_on_worker (TpsCall *call, TpsLane lane,
                        void (*func) (TpsCall *call, gpointer user_data), gpointer user_data,
                        GDestroyNotify release)
{
  call->work = func;
  call->work_data = user_data;
  call->release_work = release;
  call->ops->run_on_worker (call->carried, lane, run_work, cancel_work, call);
}

void
tps_call_run_shared_on_worker (TpsCall *call, TpsLane lane,
                               void (*func) (TpsCall *call, gpointer user_data), gpointer user_data)
{
  call->work = func;
  call->work_data = user_data;
  call->ops->run_on_worker (call->carried, lane, run_work, NULL, call);
}

void
tps_call_reply (TpsCall *call, TpsWriteResult write, gconstpointer user_data)
{
  TpsWriter *out = wants_answer (call) ? write_result (call, write, user_data) : NULL;

  finish (call, out);
}

typedef struct
{
  const TpsRpc *rpc;
  gconstpointer value;
  const TpsLender *lender; /* NULL: the result borrows from nobody */
} Result;

/* May run twice for one call: the reference belongs to the writer. */
static void
write_value (TpsWriter *out, gconstpointer data)
{
  const Result *result = data;
  const TpsLender *lender = result->lender;

  tps_rpc_write_result (result->rpc, out, result->value);
  if (lender != NULL)
    tps_writer_set_released (out, lender->unref, lender->ref (lender->object));
}

void
tps_call_reply_value (TpsCall *call, gconstpointer value)
{
  tps_call_reply_value_of (call, value, NULL);
}

void
tps_call_reply_value_of (TpsCall *call, gconstpointer value, const TpsLender *lender)
{
  Result result = { call->rpc, value, lender };

  tps_call_reply (call, write_value, &result);
}

void
tps_call_reply_error (TpsCall *call, const GError *error)
{
  gboolean is_wanted = wants_answer (call);

  if (!is_wanted && g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    {
      cancel (call);
      return;
    }
  trace_failure (call, tps_error_to_wire_code (error), error->message);
  finish (call, is_wanted ? write_failure (call, error) : NULL);
}

void
tps_call_reply_done (TpsCall *call, const GError *error)
{
  if (error == NULL)
    tps_call_reply (call, NULL, NULL);
  else
    tps_call_reply_error (call, error);
}

void
tps_call_reply_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text)
{
  trace_failure (call, 0, text);
  finish (call, wants_answer (call) ? write_exception (call, kind, text) : NULL);
}

/* ---- calls of other contracts --------------------------------------------------------------- */

TpsMessage *
tps_call_take_message (TpsCall *call)
{
  TpsMessage *message = call->message;
  TpsMessage *rest = tps_message_new ();

  rest->kind = message->kind;
  rest->protocol = message->protocol;
  rest->framed = message->framed;
  rest->transferred = message->transferred;
  rest->seqid = message->seqid;
  tps_message_set_name (rest, message->name);
  call->message = rest;
  tps_message_set_name (message, get_method_name (rest));
  return message;
}

void
tps_call_get_reply_form (TpsCall *call, TpsWriterForm *form)
{
  *form = (TpsWriterForm) { .protocol = call->message->protocol,
                            .framed = call->message->framed,
                            .budget = get_reply_budget (call) };
}

void
tps_call_reply_message (TpsCall *call, TpsWriter *reply)
{
  if (reply != NULL && !wants_answer (call))
    g_clear_pointer (&reply, tps_writer_free);
  if (reply != NULL && call->message->transferred)
    tps_writer_message_end_transferred (reply, NULL);
  if (reply != NULL && !has_room (call, reply))
    reply = refuse_unread (call, reply);
  finish (call, reply);
}

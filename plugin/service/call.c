/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call.h"

#include <stddef.h>
#include <string.h>

#include "plugin/service/dispatch.h"
#include "plugin/wire/contract.h"
#include "plugin/wire/wire_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"

/* Returns FALSE if a reply would not be sent: the call is oneway, or its connection has closed. */
static gboolean
wants_reply (TpsCall *call)
{
  return call->message->kind != TPS_MESSAGE_ONEWAY && tps_call_is_connected (call);
}

/* Returns the budget for replies, borrowed; NULL = no limit. */
static TpsBudget *
get_reply_budget (const TpsCall *call)
{
  return call->ops->get_reply_budget != NULL ? call->ops->get_reply_budget (call->carried) : NULL;
}

/* ---- identity ------------------------------------------------------------------------------- */

const gchar *
tps_call_get_peer (TpsCall *call)
{
  return call->ops->get_peer != NULL ? call->ops->get_peer (call->carried) : NULL;
}

const TpsPrincipal *
tps_call_get_principal (TpsCall *call)
{
  if (call->grant != NULL)
    return call->grant->principal;
  return call->ops->get_principal != NULL ? call->ops->get_principal (call->carried)
                                          : tps_principal_get_anonymous ();
}

gboolean
tps_call_authenticate (TpsCall *call, const gchar *token, GError **error)
{
  if (call->ops->authenticate != NULL)
    return call->ops->authenticate (call->carried, token, error);
  return tps_fail (error, TPS_ERROR_UNAVAILABLE,
                   "this server accepts no tokens: only a TpsServer does");
}

/* ---- connection ----------------------------------------------------------------------------- */

gboolean
tps_call_set_context (TpsCall *call, GHashTable *context, GError **error)
{
  if (call->ops->set_context == NULL)
    return tps_fail (error, TPS_ERROR_UNAVAILABLE,
                     "this server keeps no contexts: only a TpsServer does");
  call->ops->set_context (call->carried, context);
  return TRUE;
}

TpsSegmentRegistry *
tps_call_get_segments (TpsCall *call, GError **error)
{
  if (call->ops->get_segments != NULL)
    return call->ops->get_segments (call->carried, error);
  return tps_fail_null (error, TPS_ERROR_UNAVAILABLE,
                        "this server offers no shared memory: only a TpsServer does");
}

gconstpointer
tps_call_get_connection (TpsCall *call)
{
  return call->ops->get_connection != NULL ? call->ops->get_connection (call->carried) : NULL;
}

gboolean
tps_call_is_connected (TpsCall *call)
{
  return call->ops->is_wanted == NULL || call->ops->is_wanted (call->carried);
}

gboolean
tps_call_may_wait (TpsCall *call)
{
  return call->ops->may_wait (call->carried);
}

gboolean
tps_call_is_alone (TpsCall *call)
{
  return call->ops->is_alone != NULL && call->ops->is_alone (call->carried);
}

/* ---- tenant --------------------------------------------------------------------------------- */

/* The largest login that is not charged to a tenant: a token, and the headers of a message. A
 * larger call could carry many uncharged bytes. */
#define MAX_LOGIN_BYTES ((gsize) 4 * TPS_TOKEN_MAX_BYTES)

static gsize
count_message (const TpsMessage *message)
{
  return message->head->len + message->n_bytes_refused + message->n_bytes_bodies;
}

void
tps_call_throttle (TpsCall *call, gint wait_ms)
{
  if (call->ops->throttle != NULL)
    call->ops->throttle (call->carried, wait_ms);
}

/* Limits the rate at which a peer can repeat a refused call. */
static void
throttle (TpsCall *call, const GError *refusal)
{
  tps_call_throttle (call, tps_error_get_retry_after_ms (refusal));
}

static gboolean
may_log_in (TpsCall *call)
{
  return call->ops->may_log_in != NULL && count_message (call->message) <= MAX_LOGIN_BYTES
         && call->ops->may_log_in (call->carried);
}

/* A message that came in a transfer is not charged, because the calls that carried its chunks have
 * been charged. */
gboolean
tps_call_admit (TpsCall *call, gboolean is_login, GError **error)
{
  if (call->tenant == NULL || call->message->transferred || (is_login && may_log_in (call)))
    return TRUE;
  call->is_admitted = tps_tenant_begin_call (call->tenant, count_message (call->message),
                                             call->arrived_ns, error);
  if (!call->is_admitted)
    throttle (call, *error);
  return call->is_admitted;
}

const gchar *
tps_call_get_tenant_name (TpsCall *call)
{
  return call->tenant != NULL ? tps_tenant_get_name (call->tenant) : NULL;
}

/* A call that has waited for a worker has begun later than it arrived, so its time of arrival is
 * not passed on. */
gboolean
tps_call_add_rows (TpsCall *call, guint64 n_rows, GError **error)
{
  gint64 begun_ns = call->work == NULL ? call->arrived_ns : 0;
  g_autoptr (GError) refusal = NULL;

  if (call->tenant == NULL || tps_tenant_add_rows (call->tenant, n_rows, begun_ns, &refusal))
    return TRUE;
  throttle (call, refusal);
  g_propagate_error (error, g_steal_pointer (&refusal));
  return FALSE;
}

/* ---- records -------------------------------------------------------------------------------- */

/* One event with two levels. Errors of callers concern mainly the callers, internal errors concern
 * the operator. */
static TpsTraceEvent request_failed = TPS_TRACE_EVENT ("request_failed", TPS_TRACE_INFO);
static TpsTraceEvent request_failed_here = TPS_TRACE_EVENT ("request_failed", TPS_TRACE_ERROR);

static const gchar *
get_code_name (gint code)
{
  return code > 0   ? tps_error_code_name (code + TPS_ERROR_WIRE_BASE)
         : code < 0 ? "OK"
                    : "TApplicationException";
}

static const gchar *
get_header (const TpsCall *call, const gchar *name)
{
  return tps_message_get_header (call->message, name);
}

/* ---- audit ---------------------------------------------------------------------------------- */

/* The audit of calls without a grant, whose principals have no separate log rates. */
static TpsAudit common_audit = { TPS_TRACE_EVENT ("admin_call", TPS_TRACE_INFO),
                                 TPS_TRACE_EVENT ("access_refused", TPS_TRACE_WARNING) };

static TpsAudit *
get_audit (TpsCall *call)
{
  return call->grant != NULL ? call->grant->audit : &common_audit;
}

static void
audit (TpsCall *call, TpsTraceEvent *event, const gchar *object, const gchar *outcome)
{
  tps_trace (event,
             tps_field_text ("principal", tps_principal_get_name (tps_call_get_principal (call))),
             tps_field_text ("peer", tps_call_get_peer (call)),
             tps_field_text ("method", call->message->name), tps_field_text ("object", object),
             tps_field_text ("outcome", outcome));
}

/* Counts and logs that the caller lacks a right. `object` is the table; NULL = the method. */
static void
record_refusal (TpsCall *call, const gchar *object, const GError *error)
{
  tps_counter_add (get_audit (call)->refused, 1);
  audit (call, &get_audit (call)->access_refused, object, tps_error_code_name (error->code));
}

/* ---- metrics -------------------------------------------------------------------------------- */

gint64
tps_call_get_began_ns (const TpsCall *call)
{
  return call->metrics != NULL ? call->arrived_ns : 0;
}

/* ---- traces --------------------------------------------------------------------------------- */

void
tps_call_begin_span (TpsCall *call)
{
  call->span = tps_tracer_begin (call->context->tracer, get_header (call, TPS_TRACEPARENT),
                                 call->arrived_ns, &call->own_span);
}

/* Returns the id of the trace of the call in hexadecimal, in `text`; NULL = the call has none. */
static const gchar *
find_trace_id (TpsCall *call, gchar text[TPS_TRACE_ID_TEXT])
{
  gboolean has_span = call->span != NULL && call->span->has_context;
  const TpsTraceContext *context = has_span ? &call->span->context : NULL;
  TpsTraceContext sent;

  if (context == NULL && tps_trace_context_parse (get_header (call, TPS_TRACEPARENT), &sent))
    context = &sent;
  if (context == NULL)
    return NULL;
  tps_trace_id_format (context->trace_id, text);
  return text;
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Records a failure in the log, the metrics and the span. `code` is the code on the wire; 0 = a
 * TApplicationException, which has no code. */
static void
record_failure (TpsCall *call, gint code, const gchar *text)
{
  TpsTraceEvent *event = code == TPS_ERROR_INTERNAL - TPS_ERROR_WIRE_BASE ? &request_failed_here
                                                                          : &request_failed;
  const TpsPrincipal *principal = tps_call_get_principal (call);
  gchar trace_id[TPS_TRACE_ID_TEXT];

  call->code = code;
  if (call->span != NULL)
    call->span->code = get_code_name (code);
  if (call->metrics != NULL)
    tps_method_metrics_fail (call->metrics, code);
  tps_trace (event, tps_field_text ("method", call->message->name),
             tps_field_text ("peer", tps_call_get_peer (call)),
             tps_field_text ("principal", principal != tps_principal_get_anonymous ()
                                              ? tps_principal_get_name (principal)
                                              : NULL),
             tps_field_text ("code", get_code_name (code)), tps_field_text ("message", text),
             tps_field_text ("trace_id", find_trace_id (call, trace_id)));
}

static void
record_error (TpsCall *call, const GError *error)
{
  record_failure (call, tps_error_to_wire_code (error), error->message);
}

/* Completes the records when the call ends. `reply` NULL = there is no reply. Returns the time
 * of the end; 0 = no record needed the time. */
static gint64
end_records (TpsCall *call, TpsWriter *reply)
{
  gint64 now_ns = call->metrics != NULL || call->span != NULL ? tps_clock_now_ns () : 0;

  if (call->metrics != NULL)
    {
      TpsHistogram *durations = call->grant != NULL ? call->grant->audit->durations : NULL;

      tps_method_metrics_end (call->metrics, now_ns - call->arrived_ns, durations, reply);
      if (call->span != NULL && call->span->is_sampled) /* before the end of the span */
        {
          TpsExemplar exemplar = { .duration_ns = now_ns - call->arrived_ns,
                                   .time_ms = g_get_real_time () / 1000 };

          G_STATIC_ASSERT (sizeof exemplar.trace_id == TPS_TRACE_ID_TEXT);
          tps_trace_id_format (call->span->context.trace_id, exemplar.trace_id);
          tps_histogram_add_exemplar (call->metrics->durations, &exemplar);
        }
    }
  if (call->span != NULL && tps_tracer_wants (call->context->tracer, call->span, now_ns))
    {
      const TpsCallFacts facts = {
        .method = call->message->name,
        .peer = tps_call_get_peer (call),
        .principal = tps_principal_get_name (tps_call_get_principal (call)),
        .tracestate = get_header (call, TPS_TRACESTATE),
      };

      tps_tracer_end (call->context->tracer, call->span, &facts, now_ns);
    }
  if (call->is_admin)
    {
      tps_counter_add (call->context->admin, 1);
      audit (call, &get_audit (call)->admin_call, call->object, get_code_name (call->code));
      g_free (call->object);
    }
  return now_ns;
}

/* ---- replies -------------------------------------------------------------------------------- */

/* Replies up to this size are sent even if their connection has too many unread replies. Otherwise,
 * a command that has had its effect would be answered with a refusal. */
#define MAX_SMALL_BYTES 4096

/* Returns the name of the method without its service, as Thrift's multiplexed processors pass it
 * on and use it in replies. Borrowed. */
static const gchar *
get_method_name (const TpsCall *call)
{
  const gchar *colon = strchr (call->message->name, ':');

  return colon != NULL ? colon + 1 : call->message->name;
}

static TpsWriter *
begin_reply (const TpsCall *call, TpsMessageKind kind)
{
  const TpsMessage *message = call->message;
  TpsWriter *out = tps_writer_new (message->protocol, message->framed);

  if (message->has_header)
    tps_writer_set_header (out, message->header_seqid);
  tps_writer_message_begin (out, get_method_name (call), kind, message->seqid);
  tps_writer_struct_begin (out);
  return out;
}

/* Ends the reply. Returns FALSE with an error if the reply is larger than a message can be. The
 * reply to a message that came in a transfer may be larger, because it is fetched in a transfer. */
static gboolean
end_reply (const TpsCall *call, TpsWriter *out, GError **error)
{
  tps_writer_struct_end (out);
  return call->message->transferred ? tps_writer_message_end_transferred (out, error)
                                    : tps_writer_message_end (out, error);
}

/* ---- replies with errors -------------------------------------------------------------------- */

/* Ends a reply with an error. Errors must be sent even if no memory is free, so the budget is
 * charged only as far as it has room. If a peer does not read errors, its connection is not read
 * (plugin/net). */
static TpsWriter *
end_error (TpsCall *call, TpsWriter *out)
{
  end_reply (call, out, NULL);
  tps_writer_set_budget (out, get_reply_budget (call));
  return out;
}

static TpsWriter *
write_exception (TpsCall *call, TpsExceptionKind kind, const gchar *text)
{
  TpsApplicationException exception = { (gchar *) (gsize) text, (gint32) kind };
  TpsWriter *out = begin_reply (call, TPS_MESSAGE_EXCEPTION);

  tps_application_exception_write (out, &exception);
  return end_error (call, out);
}

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

/* Writes a ServiceError. `transfer` is the name under which the client can fetch the reply; NULL =
 * there is none. */
static TpsWriter *
write_service_error (TpsCall *call, const GError *failure, const gchar *transfer)
{
  TpsWriter *out = begin_reply (call, TPS_MESSAGE_REPLY);
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

/* Returns TRUE if the contract has the service in `name`, or the method if `name` contains no
 * service. */
static gboolean
is_of_contract (const gchar *name)
{
  const gchar *colon = strchr (name, ':');
  gsize n_bytes = colon != NULL ? (gsize) (colon - name) : 0;

  for (const TpsRpc *const *rpc = tps_contract; *rpc != NULL; rpc++)
    if (colon != NULL
            ? strlen ((*rpc)->service) == n_bytes && memcmp ((*rpc)->service, name, n_bytes) == 0
            : strcmp ((*rpc)->name, name) == 0)
      return TRUE;
  return FALSE;
}

/* Creates the reply to a failed call: a ServiceError, or a TApplicationException if the method
 * belongs to a different contract. The caller owns the reply. A failure must not reveal to callers
 * without rights whether a method of the contract exists. */
static TpsWriter *
write_failure (TpsCall *call, const GError *failure)
{
  return call->rpc != NULL || is_of_contract (call->message->name)
             ? write_service_error (call, failure, NULL)
             : write_foreign_error (call, failure);
}

/* ---- replies with results ------------------------------------------------------------------- */

/* Returns TRUE if the connection has room for the reply `out` in addition to its unread replies. */
static gboolean
has_room (TpsCall *call, TpsWriter *out)
{
  guint n_pieces;
  gsize n_bytes;

  tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  return n_bytes <= MAX_SMALL_BYTES || call->ops->has_room == NULL
         || call->ops->has_room (call->carried, n_bytes);
}

/* Replaces `out`, for which there is no room, by a failure, which is recorded. Takes over `out`;
 * the caller owns the result. */
static TpsWriter *
refuse_unread (TpsCall *call, TpsWriter *out)
{
  g_autoptr (GError)
      error = g_error_new_literal (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                                   "no room for the reply: the client must first read the earlier "
                                   "replies on this connection");

  tps_error_set_retry_after_ms (error, TPS_RETRY_AFTER_MS);
  tps_writer_free (out);
  record_error (call, error);
  return write_failure (call, error);
}

/* Returns the shared memory for large tensors of the reply; NULL = they are sent in the reply. The
 * caller owns it. */
static TpsSharing *
find_place (TpsCall *call)
{
  TpsSegmentRegistry *segments = tps_call_get_segments (call, NULL);

  if (call->place != NULL)
    return g_steal_pointer (&call->place);
  return segments != NULL ? tps_segment_registry_answer (segments) : NULL;
}

TpsBuffer *
tps_call_reserve (TpsCall *call, TpsDevice *device, gsize n_bytes)
{
  g_autoptr (TpsSharing) place = call->place == NULL ? find_place (call) : NULL;
  TpsBuffer *buffer = place != NULL ? tps_segment_registry_reserve (place, device, n_bytes) : NULL;

  if (buffer != NULL)
    call->place = g_steal_pointer (&place);
  return buffer;
}

/* Keeps a reply that is too large for a frame. Returns the error `too_long` with the name under
 * which the client can fetch the reply. Takes ownership of `out`. */
static TpsWriter *
keep_reply (TpsCall *call, TpsWriter *out, const GError *too_long)
{
  const TpsService *keeper = call->context->keeper;
  g_autoptr (TpsWriter) reply = out;
  g_autofree gchar *name = NULL;
  g_autoptr (GError) error = NULL;

  if (keeper == NULL)
    {
      record_error (call, too_long);
      return write_service_error (call, too_long, NULL);
    }
  if (!tps_writer_message_end_transferred (reply, &error)
      || !keeper->hooks->keep_answer (keeper->object, call, reply, &name, &error))
    {
      record_error (call, error);
      return write_service_error (call, error, NULL);
    }
  g_steal_pointer (&reply); /* the keeper owns it now */
  return write_service_error (call, too_long, name);
}

/* Returns the reply, which the caller owns, even with an error. Errors: the reply is larger than a
 * message can be, or there is no memory for it. */
static TpsWriter *
write_to (TpsCall *call, TpsSharing *place, TpsWriteResult write, gconstpointer user_data,
          GError **error)
{
  TpsWriter *out = begin_reply (call, TPS_MESSAGE_REPLY);

  tps_writer_set_budget (out, get_reply_budget (call));
  tps_writer_set_sharing (out, place);
  if (write != NULL)
    write (out, user_data);
  end_reply (call, out, error);
  return out;
}

/* Creates a reply with the result that `write` writes (NULL = void). If the result is too long,
 * or there is no room for it, the reply is a failure, which is recorded, or refers to a
 * transfer. The caller owns the reply. */
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
  /* A reply that is kept must not occupy shared memory that later replies need. */
  if (place != NULL)
    {
      g_clear_error (&too_long);
      tps_writer_free (out);
      g_clear_pointer (&place, tps_sharing_unref);
      out = write_to (call, NULL, write, user_data, &too_long);
    }
  return too_long == NULL ? out : keep_reply (call, out, too_long);
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static TpsDepot depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine magazine;

TpsCall *
tps_call_new (TpsMessage *message, const TpsRpc *rpc, const TpsCarrierOps *ops, gpointer carried,
              const TpsCallContext *context)
{
  TpsCall *call = tps_magazine_take (&magazine, &depot);

  if (call == NULL)
    call = g_new (TpsCall, 1);
  memset (call, 0, offsetof (TpsCall, own_span));
  call->message = message;
  call->rpc = rpc;
  call->ops = ops;
  call->carried = carried;
  call->context = context;
  call->code = -1;
  call->arrived_ns = message->received_ns != 0 ? message->received_ns : tps_clock_now_ns ();
  return call;
}

/* Ends and frees the call. Takes over and sends `reply`; NULL = there is no reply. The bodies
 * of the request must be freed before finish(), after which the carrier may read the next
 * request. */
static void
end_call (TpsCall *call, TpsWriter *reply)
{
  gint64 now_ns = end_records (call, reply);
  gsize n_bytes = 0;
  guint n_pieces;

  if (call->is_admitted && reply != NULL)
    tps_writer_get_pieces (reply, &n_pieces, &n_bytes);
  if (call->is_admitted)
    tps_tenant_end_call (call->tenant, n_bytes, now_ns);
  tps_message_free (call->message);
  g_clear_pointer (&call->place, tps_sharing_unref);
  call->ops->finish (call->carried, reply);
  tps_magazine_put (&magazine, &depot, call);
}

/* Ends a call without a reply, because its connection is closed. */
static void
cancel (TpsCall *call)
{
  if (call->metrics != NULL)
    tps_counter_add (call->metrics->cancelled, 1);
  end_call (call, NULL);
}

/* ---- phases --------------------------------------------------------------------------------- */

TpsPhases *
tps_call_get_phases (TpsCall *call)
{
  return call->span != NULL ? &call->span->phases : NULL;
}

/* Records the beginning of a short phase. Without a tracer, calls have no span, and only a few
 * spans are timed in detail. */
static void
note_phase (TpsCall *call, TpsPhase phase)
{
  if (call->span != NULL && call->span->phases.is_detailed)
    tps_phases_enter (&call->span->phases, phase);
}

void
tps_call_enter_phase (TpsCall *call, TpsPhase phase)
{
  tps_phases_enter_long (tps_call_get_phases (call), phase);
}

/* ---- arguments ------------------------------------------------------------------------------ */

gboolean
tps_call_read_arguments (TpsCall *call, gpointer arguments, GError **error)
{
  TpsReader in;

  tps_reader_init (&in, call->message);
  in.copies_shared = call->copies_shared;
  call->has_arguments = TRUE;
  if (!tps_rpc_read_arguments (call->rpc, &in, arguments, error))
    return FALSE;
  note_phase (call, TPS_PHASE_APPLY);
  return TRUE;
}

gboolean
tps_call_charge (TpsCall *call, gsize n_bytes, GError **error)
{
  return tps_message_charge (call->message, n_bytes, error);
}

/* ---- workers -------------------------------------------------------------------------------- */

static void
run_work (gpointer data)
{
  TpsCall *call = data;

  tps_call_enter_phase (call, call->has_arguments ? TPS_PHASE_APPLY : TPS_PHASE_DECODE);
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
  tps_call_enter_phase (call, TPS_PHASE_QUEUE);
  call->ops->run_on_worker (call->carried, lane, run_work, cancel_work, call);
}

void
tps_call_run_shared_on_worker (TpsCall *call, TpsLane lane,
                               void (*func) (TpsCall *call, gpointer user_data), gpointer user_data)
{
  call->work = func;
  call->work_data = user_data;
  tps_call_enter_phase (call, TPS_PHASE_QUEUE);
  call->ops->run_on_worker (call->carried, lane, run_work, NULL, call);
}

/* ---- replying ------------------------------------------------------------------------------- */

void
tps_call_reply (TpsCall *call, TpsWriteResult write, gconstpointer user_data)
{
  note_phase (call, TPS_PHASE_REPLY);
  end_call (call, wants_reply (call) ? write_result (call, write, user_data) : NULL);
}

typedef struct
{
  const TpsRpc *rpc;
  gconstpointer value;
  const TpsLender *lender; /* NULL = the result borrows nothing */
} Result;

/* May be called twice for one call. Each writer gets its own reference. */
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
  gboolean is_wanted = wants_reply (call);

  note_phase (call, TPS_PHASE_REPLY);
  if (!is_wanted && g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    {
      cancel (call);
      return;
    }
  record_error (call, error);
  end_call (call, is_wanted ? write_failure (call, error) : NULL);
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
  note_phase (call, TPS_PHASE_REPLY);
  record_failure (call, 0, text);
  end_call (call, wants_reply (call) ? write_exception (call, kind, text) : NULL);
}

/* ---- calls of other contracts --------------------------------------------------------------- */

TpsMessage *
tps_call_take_message (TpsCall *call)
{
  TpsMessage *message = call->message;

  call->has_arguments = TRUE;
  note_phase (call, TPS_PHASE_APPLY);
  call->message = tps_message_new_like (message);
  tps_message_set_name (message, get_method_name (call));
  return message;
}

void
tps_call_get_reply_form (TpsCall *call, TpsWriterForm *form)
{
  *form = (TpsWriterForm) { .protocol = call->message->protocol,
                            .framed = call->message->framed,
                            .has_header = call->message->has_header,
                            .header_seqid = call->message->header_seqid,
                            .budget = get_reply_budget (call) };
}

void
tps_call_reply_message (TpsCall *call, TpsWriter *reply)
{
  gboolean is_wanted = wants_reply (call);

  if (reply == NULL && is_wanted)
    {
      tps_call_reply_exception (call, TPS_EXCEPTION_INTERNAL_ERROR,
                                "the service has written no reply: is the method oneway?");
      return;
    }
  note_phase (call, TPS_PHASE_REPLY);
  if (reply != NULL && !is_wanted)
    g_clear_pointer (&reply, tps_writer_free);
  if (reply != NULL && call->message->transferred)
    tps_writer_message_end_transferred (reply, NULL);
  if (reply != NULL && !has_room (call, reply))
    reply = refuse_unread (call, reply);
  end_call (call, reply);
}

/* ---- rights --------------------------------------------------------------------------------- */

gboolean
tps_call_may_see_table (TpsCall *call, const gchar *table, TpsRight right)
{
  return call->grant == NULL || tps_grant_allows_table (call->grant, call->method, table, right);
}

gboolean
tps_call_check_table (TpsCall *call, const gchar *table, TpsRight right, GError **error)
{
  g_autoptr (GError) refusal = NULL;

  if (call->span != NULL && call->span->table[0] == '\0')
    tps_call_text_set (call->span->table, table);
  if (call->is_admin && call->object == NULL)
    call->object = g_strdup (table);
  if (call->grant == NULL
      || tps_grant_check_table (call->grant, call->method, table, right, &refusal))
    return TRUE;
  record_refusal (call, table, refusal);
  g_propagate_error (error, g_steal_pointer (&refusal));
  return FALSE;
}

void
tps_call_refuse (TpsCall *call, const GError *error)
{
  record_refusal (call, NULL, error);
  call->is_admin = FALSE; /* the refusal has been logged */
  record_error (call, error);
  if (!wants_reply (call))
    end_call (call, NULL);
  else if (is_of_contract (call->message->name))
    end_call (call, write_service_error (call, error, NULL));
  else
    end_call (call, write_foreign_error (call, error));
}

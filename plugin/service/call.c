/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call.h"

#include <string.h>

#include "plugin/service/call_internal.h"
#include "plugin/wire/contract.h"
#include "plugin/wire/wire_failure.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/trace.h"

/* One name, two levels: a caller's mistake is its own business, a failure of this server is
 * ours. */
static TpsTraceEvent request_failed = TPS_TRACE_EVENT ("request_failed", TPS_TRACE_INFO);
static TpsTraceEvent request_failed_here = TPS_TRACE_EVENT ("request_failed", TPS_TRACE_ERROR);

/* Replies of this size leave whatever else their connection has not read: a command that took
 * effect must not look refused. */
#define MAX_SMALL_BYTES 4096

struct TpsCall
{
  TpsMessage *message;
  const TpsCarrierOps *ops;
  gpointer carried;
  const TpsRpc *rpc;              /* NULL: a method of another contract, or none */
  const TpsCallContext *context;  /* borrowed */
  const TpsGuardedMethod *method; /* of the dispatcher; NULL = not known yet */
  const TpsGrant *grant;          /* borrowed from the carrier; NULL = everything is allowed */
  TpsMethodMetrics *metrics;      /* borrowed; NULL = the call is not counted */
  gint64 began_ns;                /* with metrics, else 0 */
  gboolean copies_shared;
  gboolean is_admin;      /* the end is to be logged, with: */
  gint code;              /* the wire's code of the failure; -1 = none */
  gchar *object;          /* that it was about; NULL = none */
  gboolean is_admitted;   /* the tenant counts the call until it ends */
  TpsTenant *tenant;      /* borrowed; NULL = none */
  gboolean has_arguments; /* they have been read */
  TpsCallSpan *span;      /* NULL: the call is not traced */

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
    .message = message, .rpc = rpc, .ops = ops, .carried = carried, .context = context, .code = -1
  };
  if (ops->get_grant != NULL)
    call->grant = ops->get_grant (carried);
  return call;
}

void
tps_call_set_metrics (TpsCall *call, TpsMethodMetrics *metrics)
{
  call->metrics = metrics;
  if (metrics != NULL)
    call->began_ns = tps_method_metrics_begin (metrics, call->message);
}

void
tps_call_copy_shared (TpsCall *call)
{
  call->copies_shared = TRUE;
}

static const gchar *
get_code_name (gint code)
{
  return code > 0   ? tps_error_code_name (code + TPS_ERROR_WIRE_BASE)
         : code < 0 ? "OK"
                    : "TApplicationException";
}

/* ---- the audit ------------------------------------------------------------------------------ */

/* Where there are no principals with rates of their own. */
static TpsAudit common_audit = { TPS_TRACE_EVENT ("admin_call", TPS_TRACE_INFO),
                                 TPS_TRACE_EVENT ("access_refused", TPS_TRACE_WARNING) };

static TpsAudit *
get_audit (TpsCall *call)
{
  return call->grant != NULL ? tps_grant_get_audit (call->grant) : &common_audit;
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

static void
audit_refusal (TpsCall *call, const gchar *object, const GError *error)
{
  tps_counter_add (get_audit (call)->refused, 1);
  audit (call, &get_audit (call)->access_refused, object, tps_error_code_name (error->code));
}

/* ---- limits --------------------------------------------------------------------------------- */

static gsize
count_message (const TpsMessage *message)
{
  gsize n_bytes = message->head->len + message->n_bytes_refused;

  for (guint i = 0; i < message->bodies->len; i++)
    n_bytes += g_array_index (message->bodies, TpsBody, i).n_bytes;
  return n_bytes;
}

/* A peer that ignores the refusal must not have it repeated as fast as it can send. */
static void
throttle (TpsCall *call, const GError *refusal)
{
  if (call->ops->throttle != NULL)
    call->ops->throttle (call->carried, tps_error_get_retry_after_ms (refusal));
}

static gboolean
may_log_in (TpsCall *call)
{
  return call->ops->may_log_in != NULL && call->ops->may_log_in (call->carried);
}

/* What came in chunks has been charged as the calls that carried it, and its answer will be. */
gboolean
tps_call_admit (TpsCall *call, gboolean is_login, GError **error)
{
  call->tenant = call->ops->get_tenant != NULL ? call->ops->get_tenant (call->carried) : NULL;
  if (call->tenant == NULL || call->message->transferred || (is_login && may_log_in (call)))
    return TRUE;
  call->is_admitted = tps_tenant_begin_call (call->tenant, count_message (call->message), error);
  if (!call->is_admitted)
    throttle (call, *error);
  return call->is_admitted;
}

static void
leave_tenant (TpsCall *call, TpsWriter *reply)
{
  gsize n_bytes = 0;
  guint n_pieces;

  if (reply != NULL)
    tps_writer_get_pieces (reply, &n_pieces, &n_bytes);
  tps_tenant_end_call (call->tenant, n_bytes);
}

static void
add_exemplar (TpsCall *call, gint64 elapsed_ns)
{
  TpsExemplar exemplar = { .duration_ns = elapsed_ns, .time_ms = g_get_real_time () / 1000 };

  G_STATIC_ASSERT (sizeof exemplar.trace_id == TPS_TRACE_ID_TEXT);
  tps_trace_id_format (tps_call_span_get_context (call->span)->trace_id, exemplar.trace_id);
  tps_method_metrics_add_exemplar (call->metrics, &exemplar);
}

/* Before the span ends. */
static void
end_metrics (TpsCall *call, TpsWriter *reply)
{
  gint64 elapsed_ns = tps_method_metrics_end (call->metrics, call->began_ns, reply);

  if (call->grant != NULL)
    tps_histogram_record (tps_grant_get_audit (call->grant)->durations, elapsed_ns);
  if (tps_call_span_is_sampled (call->span))
    add_exemplar (call, elapsed_ns);
}

/* ---- traces --------------------------------------------------------------------------------- */

static const gchar *
get_header (const TpsCall *call, const gchar *name)
{
  return tps_message_get_header (call->message, name);
}

void
tps_call_begin_span (TpsCall *call)
{
  call->span = tps_tracer_begin (call->context->tracer, get_header (call, TPS_TRACEPARENT));
}

static void
end_span (TpsCall *call)
{
  const TpsCallFacts facts = {
    .method = call->message->name,
    .peer = tps_call_get_peer (call),
    .principal = tps_principal_get_name (tps_call_get_principal (call)),
    .tracestate = get_header (call, TPS_TRACESTATE),
  };

  tps_tracer_end (call->context->tracer, call->span, &facts);
}

/* The end of the call. Its bodies go before the carrier hears of it, so that what it then reads
 * finds room. */
static void
finish (TpsCall *call, TpsWriter *reply)
{
  if (call->metrics != NULL)
    end_metrics (call, reply);
  if (call->span != NULL)
    end_span (call);
  if (call->is_admin)
    {
      tps_counter_add (call->context->admin, 1);
      audit (call, &get_audit (call)->admin_call, call->object, get_code_name (call->code));
      g_free (call->object);
    }
  if (call->is_admitted)
    leave_tenant (call, reply);
  tps_message_free (call->message);
  call->ops->finish (call->carried, reply);
  tps_magazine_put (&magazine, &depot, call);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* The id of the trace that the call belongs to, in hex; NULL = none. */
static const gchar *
find_trace_id (TpsCall *call, gchar text[TPS_TRACE_ID_TEXT])
{
  const TpsTraceContext *context = tps_call_span_get_context (call->span);
  TpsTraceContext sent;

  if (context == NULL && tps_trace_context_parse (get_header (call, TPS_TRACEPARENT), &sent))
    context = &sent;
  if (context == NULL)
    return NULL;
  tps_trace_id_format (context->trace_id, text);
  return text;
}

/* `code` is the wire's; 0 = a TApplicationException, which has no name. */
static void
trace_failure (TpsCall *call, gint code, const gchar *text)
{
  TpsTraceEvent *event = code == TPS_ERROR_INTERNAL - TPS_ERROR_WIRE_BASE ? &request_failed_here
                                                                          : &request_failed;
  gchar trace_id[TPS_TRACE_ID_TEXT];

  call->code = code;
  tps_call_span_set_code (call->span, get_code_name (code));
  if (call->metrics != NULL)
    tps_method_metrics_fail (call->metrics, code);
  tps_trace (event, tps_field_text ("method", call->message->name),
             tps_field_text ("peer", tps_call_get_peer (call)),
             tps_field_text ("code", get_code_name (code)), tps_field_text ("message", text),
             tps_field_text ("trace_id", find_trace_id (call, trace_id)));
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

  if (message->has_header)
    tps_writer_set_header (out, message->header_seqid);
  tps_writer_message_begin (out, get_method_name (message), kind, message->seqid);
  tps_writer_struct_begin (out);
  return out;
}

/* FALSE with an error when the answer is longer than a message can be. What comes in a transfer is
 * answered in one. */
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

/* Errors must leave when there is no memory for anything else: they are charged if there is room. A
 * connection that does not take them is not read (plugin/net). */
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

/* Has an answer that no frame can hold wait for its client, and tells it where. Takes over
 * `out`. */
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
      || !keeper->keep_answer (keeper->object, call, answer, &name, &error))
    {
      trace_failure (call, tps_error_to_wire_code (error), error->message);
      return write_service_error (call, error, NULL);
    }
  g_steal_pointer (&answer); /* the keeper's now */
  return write_service_error (call, too_long, name);
}

/* The answer; with an error where it is longer than a message can be, or there is no memory for
 * it. */
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
  call->has_arguments = TRUE;
  if (!tps_rpc_read_arguments (call->rpc, &in, arguments, error))
    return FALSE;
  tps_phases_enter (tps_call_get_phases (call), TPS_PHASE_APPLY);
  return TRUE;
}

gboolean
tps_call_charge (TpsCall *call, gsize n_bytes, GError **error)
{
  return tps_message_charge (call->message, n_bytes, error);
}

TpsTenant *
tps_call_get_tenant (TpsCall *call)
{
  return call->tenant;
}

gboolean
tps_call_add_rows (TpsCall *call, guint64 n_rows, GError **error)
{
  g_autoptr (GError) refusal = NULL;

  if (call->tenant == NULL || tps_tenant_add_rows (call->tenant, n_rows, &refusal))
    return TRUE;
  throttle (call, refusal);
  g_propagate_error (error, g_steal_pointer (&refusal));
  return FALSE;
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

const TpsPrincipal *
tps_call_get_principal (TpsCall *call)
{
  if (call->grant != NULL)
    return tps_grant_get_principal (call->grant);
  return call->ops->get_principal != NULL ? call->ops->get_principal (call->carried)
                                          : tps_principal_get_anonymous ();
}

const TpsGrant *
tps_call_get_grant (TpsCall *call)
{
  return call->grant;
}

gint64
tps_call_get_began_ns (const TpsCall *call)
{
  return call->began_ns;
}

gboolean
tps_call_may_see_table (TpsCall *call, const gchar *table)
{
  return call->grant == NULL
         || tps_grant_allows_table (call->grant, call->method, table, TPS_RIGHT_READ);
}

gboolean
tps_call_check_table (TpsCall *call, const gchar *table, TpsRight right, GError **error)
{
  g_autoptr (GError) refusal = NULL;

  tps_call_span_set_table (call->span, table);
  if (call->is_admin && call->object == NULL)
    call->object = g_strdup (table);
  if (call->grant == NULL
      || tps_grant_check_table (call->grant, call->method, table, right, &refusal))
    return TRUE;
  audit_refusal (call, table, refusal);
  g_propagate_error (error, g_steal_pointer (&refusal));
  return FALSE;
}

gboolean
tps_call_authenticate (TpsCall *call, const gchar *token, GError **error)
{
  if (call->ops->authenticate != NULL)
    return call->ops->authenticate (call->carried, token, error);
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                       "tokens are not taken here: this server only carries messages");
  return FALSE;
}

gboolean
tps_call_set_context (TpsCall *call, GHashTable *context, GError **error)
{
  if (call->ops->set_context == NULL)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                           "contexts are not kept here: this server only carries messages");
      return FALSE;
    }
  call->ops->set_context (call->carried, context);
  return TRUE;
}

TpsPhases *
tps_call_get_phases (TpsCall *call)
{
  return tps_call_span_get_phases (call->span);
}

void
tps_call_enter_phase (TpsCall *call, TpsPhase phase)
{
  tps_phases_enter_long (tps_call_get_phases (call), phase);
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
  if (call->metrics != NULL)
    tps_method_metrics_cancel (call->metrics);
  finish (call, NULL);
}

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

void
tps_call_reply (TpsCall *call, TpsWriteResult write, gconstpointer user_data)
{
  tps_phases_enter (tps_call_get_phases (call), TPS_PHASE_REPLY);
  finish (call, wants_answer (call) ? write_result (call, write, user_data) : NULL);
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

  tps_phases_enter (tps_call_get_phases (call), TPS_PHASE_REPLY);
  if (!is_wanted && g_error_matches (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST))
    {
      cancel (call);
      return;
    }
  trace_failure (call, tps_error_to_wire_code (error), error->message);
  finish (call, is_wanted ? write_failure (call, error) : NULL);
}

void
tps_call_set_method (TpsCall *call, const TpsGuardedMethod *method)
{
  call->method = method;
  call->is_admin = method->right == TPS_RIGHT_ADMIN;
}

/* Whether the contract has the service of that name, or a method of it where there is no
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

void
tps_call_refuse (TpsCall *call, const GError *error)
{
  TpsWriter *reply = NULL;

  audit_refusal (call, NULL, error);
  call->is_admin = FALSE; /* one line is enough */
  trace_failure (call, tps_error_to_wire_code (error), error->message);
  if (wants_answer (call))
    reply = is_of_contract (call->message->name) ? write_service_error (call, error, NULL)
                                                 : write_foreign_error (call, error);
  finish (call, reply);
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
  tps_phases_enter (tps_call_get_phases (call), TPS_PHASE_REPLY);
  trace_failure (call, 0, text);
  finish (call, wants_answer (call) ? write_exception (call, kind, text) : NULL);
}

/* ---- calls of other contracts --------------------------------------------------------------- */

TpsMessage *
tps_call_take_message (TpsCall *call)
{
  TpsMessage *message = call->message;
  TpsMessage *rest = tps_message_new_like (message);

  call->has_arguments = TRUE;
  tps_phases_enter (tps_call_get_phases (call), TPS_PHASE_APPLY);
  call->message = rest;
  tps_message_set_name (message, get_method_name (rest));
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
  tps_phases_enter (tps_call_get_phases (call), TPS_PHASE_REPLY);
  if (reply != NULL && !wants_answer (call))
    g_clear_pointer (&reply, tps_writer_free);
  if (reply != NULL && call->message->transferred)
    tps_writer_message_end_transferred (reply, NULL);
  if (reply != NULL && !has_room (call, reply))
    reply = refuse_unread (call, reply);
  finish (call, reply);
}

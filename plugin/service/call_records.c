/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/call_private.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"

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

void
tps_call_record_refusal (TpsCall *call, const gchar *object, const GError *error)
{
  tps_counter_add (get_audit (call)->refused, 1);
  audit (call, &get_audit (call)->access_refused, object, tps_error_code_name (error->code));
}

static void
end_audit (TpsCall *call)
{
  tps_counter_add (call->context->admin, 1);
  audit (call, &get_audit (call)->admin_call, call->object, get_code_name (call->code));
  g_free (call->object);
}

/* ---- metrics -------------------------------------------------------------------------------- */

void
tps_call_set_metrics (TpsCall *call, TpsMethodMetrics *metrics)
{
  call->metrics = metrics;
  if (metrics != NULL)
    tps_method_metrics_begin (metrics, call->message);
}

gint64
tps_call_get_began_ns (const TpsCall *call)
{
  return call->metrics != NULL ? call->arrived_ns : 0;
}

static void
add_exemplar (TpsCall *call, gint64 elapsed_ns)
{
  TpsExemplar exemplar = { .duration_ns = elapsed_ns, .time_ms = g_get_real_time () / 1000 };

  G_STATIC_ASSERT (sizeof exemplar.trace_id == TPS_TRACE_ID_TEXT);
  tps_trace_id_format (tps_call_span_get_context (call->span)->trace_id, exemplar.trace_id);
  tps_method_metrics_add_exemplar (call->metrics, &exemplar);
}

/* Must be called before the end of the span, from which an exemplar is made. */
static void
end_metrics (TpsCall *call, TpsWriter *reply, gint64 now_ns)
{
  gint64 elapsed_ns = now_ns - call->arrived_ns;
  TpsHistogram *durations = call->grant != NULL ? tps_grant_get_audit (call->grant)->durations
                                                : NULL;

  tps_method_metrics_end (call->metrics, elapsed_ns, durations, reply);
  if (tps_call_span_is_sampled (call->span))
    add_exemplar (call, elapsed_ns);
}

/* ---- traces --------------------------------------------------------------------------------- */

void
tps_call_begin_span (TpsCall *call)
{
  call->span = tps_tracer_begin (call->context->tracer, get_header (call, TPS_TRACEPARENT),
                                 call->arrived_ns, &call->own_span);
}

static void
end_span (TpsCall *call, gint64 now_ns)
{
  const TpsCallFacts facts = {
    .method = call->message->name,
    .peer = tps_call_get_peer (call),
    .principal = tps_principal_get_name (tps_call_get_principal (call)),
    .tracestate = get_header (call, TPS_TRACESTATE),
  };

  tps_tracer_end (call->context->tracer, call->span, &facts, now_ns);
}

/* Returns the id of the trace of the call in hexadecimal, in `text`; NULL = the call has none. */
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

/* ---- failures ------------------------------------------------------------------------------- */

/* Returns the name of the principal; NULL = the caller is anonymous. */
static const gchar *
find_principal (TpsCall *call)
{
  const TpsPrincipal *principal = tps_call_get_principal (call);

  return principal != tps_principal_get_anonymous () ? tps_principal_get_name (principal) : NULL;
}

void
tps_call_record_failure (TpsCall *call, gint code, const gchar *text)
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
             tps_field_text ("principal", find_principal (call)),
             tps_field_text ("code", get_code_name (code)), tps_field_text ("message", text),
             tps_field_text ("trace_id", find_trace_id (call, trace_id)));
}

void
tps_call_record_error (TpsCall *call, const GError *error)
{
  tps_call_record_failure (call, tps_error_to_wire_code (error), error->message);
}

gint64
tps_call_end_records (TpsCall *call, TpsWriter *reply)
{
  gint64 now_ns = call->metrics != NULL || call->span != NULL ? tps_clock_now_ns () : 0;

  if (call->metrics != NULL)
    end_metrics (call, reply, now_ns);
  if (call->span != NULL && tps_tracer_wants (call->context->tracer, call->span, now_ns))
    end_span (call, now_ns);
  if (call->is_admin)
    end_audit (call);
  return now_ns;
}

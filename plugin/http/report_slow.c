/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/reports.h"
#include "runtime/base/sync.h"

#define MAX_CALLS 256

static const gchar *
text_or_null (const gchar *text)
{
  return text[0] != '\0' ? text : NULL;
}

static void
add_phases (TpsJsonWriter *json, const TpsSlowCall *call)
{
  tps_json_open (json, "phases", '{');
  for (guint i = 0; i < TPS_N_PHASES; i++)
    {
      g_autofree gchar *name = g_strconcat (tps_phase_name ((TpsPhase) i), "_ms", NULL);

      tps_json_add_real (json, name, (gdouble) call->phases_ns[i] / 1e6, 3);
    }
  tps_json_close (json, '}');
  tps_json_add_text (json, "phase", tps_phase_name (tps_slow_call_find_phase (call)));
}

/* `since_us` is the difference between wall-clock time and the monotonic clock. */
static void
add_call (TpsJsonWriter *json, const TpsSlowCall *call, gint64 since_us)
{
  tps_json_open (json, NULL, '{');
  tps_json_add_time (json, "time_s", since_us + call->began_ns / 1000);
  tps_json_add_text (json, "method", call->method);
  tps_json_add_text (json, "table", text_or_null (call->table));
  tps_json_add_text (json, "peer", text_or_null (call->peer));
  tps_json_add_text (json, "principal", text_or_null (call->principal));
  tps_json_add_real (json, "duration_ms", (gdouble) call->total_ns / 1e6, 3);
  add_phases (json, call);
  tps_json_add_text (json, "code", call->code);
  tps_json_add_text (json, "trace_id", text_or_null (call->trace_id));
  tps_json_close (json, '}');
}

void
tps_report_slow (TpsHttpRequest *request, gpointer data)
{
  TpsTracer *tracer = ((TpsReports *) data)->tracer;
  g_autofree TpsSlowCall *calls = g_new (TpsSlowCall, MAX_CALLS);
  guint n_calls = tps_tracer_list_slow (tracer, calls, MAX_CALLS);
  gint64 since_us = g_get_real_time () - tps_clock_now_ns () / 1000;
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_bool (&json, "is_enabled", tps_tracer_keeps_slow (tracer));
  tps_json_open (&json, "calls", '[');
  for (guint i = 0; i < n_calls; i++)
    add_call (&json, &calls[i], since_us);
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, 200, &json);
}

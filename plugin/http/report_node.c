/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <unistd.h>

#include "plugin/http/readings.h"
#include "plugin/http/reports.h"
#include "runtime/base/trace.h"
#include "runtime/base/version.h"

/* Checks the threads of the server in the same way as the watchdog of a service manager. */
void
tps_report_healthz (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  g_autofree gchar *missing = NULL;
  gboolean is_alive = reports->server == NULL
                      || tps_server_check_threads (reports->server, reports->stuck_ns, &missing);
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_text (&json, "status", is_alive ? "alive" : "stuck");
  if (missing != NULL)
    tps_json_add_text (&json, "missing", missing);
  else
    tps_json_add_null (&json, "missing");
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, is_alive ? 200 : 503, &json);
}

void
tps_report_readyz (TpsHttpRequest *request, gpointer data)
{
  TpsJsonWriter json;
  gboolean is_ready;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  is_ready = tps_reports_add_state (data, &json, "status");
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, is_ready ? 200 : 503, &json);
}

/* ---- /version ------------------------------------------------------------------------------- */

static void
add_identity (const TpsReports *reports, TpsJsonWriter *json)
{
  tps_json_add_time (json, "time_s", g_get_real_time ());
  tps_json_add_time (json, "start_time_s", reports->started_us);
  tps_json_add_text (json, "name", tps_plugin_get_name (reports->plugin));
  tps_json_add_text (json, "version", TPS_VERSION);
}

void
tps_report_version (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  const gchar *const *device = tps_plugin_get_device_names (reports->plugin);
  guint n_services;
  const TpsService *services = tps_plugin_get_services (reports->plugin, &n_services);
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  add_identity (reports, &json);
  tps_json_add_int (&json, "pid", getpid ());
  tps_json_open (&json, "services", '[');
  for (guint i = 0; i < n_services; i++)
    tps_json_add_text (&json, NULL, services[i].name);
  tps_json_close (&json, ']');
  tps_json_open (&json, "devices", '[');
  for (; *device != NULL; device++)
    tps_json_add_text (&json, NULL, *device);
  tps_json_close (&json, ']');
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, 200, &json);
}

/* ---- /status -------------------------------------------------------------------------------- */

static void
add_totals (const TpsReports *reports, TpsJsonWriter *json)
{
  TpsReading *reading = tps_counters_read (
      tps_metrics_get_counters (tps_plugin_get_metrics (reports->plugin)));
  TpsServerStatus status = { 0 };

  if (reports->server != NULL)
    tps_server_get_status (reports->server, &status);
  tps_json_open (json, "totals", '{');
  tps_json_add_uint (json, "connections", status.n_connections);
  tps_json_add_uint (json, "max_connections", status.max_connections);
  tps_json_add_uint (json, "in_flight", status.n_calls);
  tps_json_add_uint (json, "accepted", tps_readings_sum (reading, "connections_accepted_total"));
  tps_json_add_uint (json, "refused", tps_readings_sum (reading, "connections_refused_total"));
  tps_json_add_uint (json, "requests", tps_readings_sum (reading, "requests_total"));
  tps_json_add_uint (json, "failures", tps_readings_sum (reading, "requests_failed_total"));
  tps_json_add_uint (json, "cancelled", tps_readings_sum (reading, "requests_cancelled_total"));
  tps_json_add_uint (json, "received_bytes", tps_readings_sum (reading, "received_bytes_total"));
  tps_json_add_uint (json, "sent_bytes", tps_readings_sum (reading, "sent_bytes_total"));
  tps_json_close (json, '}');
  tps_json_add_uint (json, "io_threads", status.n_io_threads);
  tps_reading_free (reading);
}

/* Called with the lock of the budget tree held. Charges that fit do not take this lock. */
static void
add_budget (TpsBudget *budget, gpointer data)
{
  TpsJsonWriter *json = data;
  TpsBudget *parent = tps_budget_get_parent (budget);
  gsize max_bytes = tps_budget_get_max (budget);

  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "name", tps_reports_get_budget_name (budget));
  tps_json_add_text (json, "parent", parent != NULL ? tps_reports_get_budget_name (parent) : NULL);
  tps_json_add_uint (json, "held_bytes", tps_budget_get_held (budget));
  tps_json_add_uint (json, "peak_bytes", tps_budget_get_peak (budget));
  if (max_bytes != G_MAXSIZE)
    tps_json_add_uint (json, "max_bytes", max_bytes);
  else
    tps_json_add_null (json, "max_bytes");
  tps_json_close (json, '}');
}

static void
add_workers (const TpsReports *reports, TpsJsonWriter *json)
{
  TpsWorkerPool *workers = tps_plugin_get_workers (reports->plugin);
  TpsWorkerLoad load;

  tps_worker_pool_get_load (workers, &load);
  tps_json_open (json, "workers", '{');
  tps_json_add_uint (json, "threads", tps_worker_pool_get_n_threads (workers));
  tps_json_add_uint (json, "running", load.n_running);
  tps_json_add_uint (json, "queued", tps_worker_pool_get_n_queued (workers, TPS_LANE_SHORT));
  tps_json_add_uint (json, "queued_long", tps_worker_pool_get_n_queued (workers, TPS_LANE_LONG));
  tps_json_close (json, '}');
}

static void
add_http (const TpsReports *reports, TpsJsonWriter *json)
{
  TpsHttpConnectionCounts counts;

  tps_http_connections_get_counts (reports->connections, &counts);
  tps_json_open (json, "http", '{');
  tps_json_add_uint (json, "connections", counts.n_connections);
  tps_json_add_uint (json, "streams", counts.n_streams);
  tps_json_add_uint (json, "requests", counts.n_accepted);
  tps_json_add_uint (json, "refused", counts.n_refused);
  tps_json_close (json, '}');
}

/* Adds the log levels, which Node.set_log_level can change. */
static void
add_log_levels (TpsJsonWriter *json)
{
  g_autofree gchar *levels = tps_trace_dup_levels ();

  tps_json_add_text (json, "log_levels", levels);
}

void
tps_report_status (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  add_identity (reports, &json);
  tps_reports_add_state (reports, &json, "state");
  add_log_levels (&json);
  add_totals (reports, &json);
  tps_json_open (&json, "budgets", '[');
  tps_budget_visit (tps_plugin_get_budgets (reports->plugin)->process, add_budget, &json);
  tps_json_close (&json, ']');
  add_workers (reports, &json);
  tps_reports_add_durability (reports, &json, FALSE);
  tps_reports_add_quotas (reports, &json);
  add_http (reports, &json);
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, 200, &json);
}

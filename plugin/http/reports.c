/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/reports.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/exposition.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"
#include "runtime/server/quota/quotas.h"

/* -- numbers in a reading -- */

const TpsFamilyReading *
tps_readings_find (const TpsReading *reading, const gchar *name)
{
  guint n_families;
  const TpsFamilyReading *families = tps_reading_get_families (reading, &n_families);

  for (guint i = 0; i < n_families; i++)
    if (g_str_equal (families[i].family->name, name))
      return &families[i];
  return NULL;
}

const TpsCountName tps_method_counts[TPS_N_METHOD_COUNTS] = {
  [TPS_COUNT_CALLS] = { "requests_total", "calls" },
  [TPS_COUNT_FAILURES] = { "requests_failed_total", "failures" },
};

const TpsCountName tps_table_counts[TPS_N_TABLE_COUNTS] = {
  [TPS_COUNT_LOOKUPS] = { "table_lookups_total", "lookups" },
  [TPS_COUNT_LOOKUP_ROWS] = { "table_lookup_rows_total", "lookup_rows" },
  [TPS_COUNT_PUSHES] = { "table_pushes_total", "pushes" },
  [TPS_COUNT_PUSH_ROWS] = { "table_push_rows_total", "push_rows" },
};

/* Returns a table from the values of the first label of a family to TpsSample, for families with a
 * single label. The caller owns the table (g_hash_table_unref()); its contents are borrowed from
 * `reading`. NULL = the reading has no such family. */
static GHashTable *
index_readings (const TpsReading *reading, const gchar *name)
{
  const TpsFamilyReading *family = tps_readings_find (reading, name);
  GHashTable *index;

  if (family == NULL)
    return NULL;
  index = g_hash_table_new (g_str_hash, g_str_equal);
  for (guint i = 0; i < family->samples->len; i++)
    {
      TpsSample *sample = &g_array_index (family->samples, TpsSample, i);

      if (sample->values[0] != NULL)
        g_hash_table_insert (index, (gpointer) (gsize) sample->values[0], sample);
    }
  return index;
}

guint64
tps_readings_sum (const TpsReading *reading, const gchar *name)
{
  const TpsFamilyReading *family = tps_readings_find (reading, name);
  gint64 sum = 0;

  for (guint i = 0; family != NULL && i < family->samples->len; i++)
    sum += g_array_index (family->samples, TpsSample, i).number;
  return (guint64) MAX (sum, 0);
}

/* ---- parts that several reports share ------------------------------------------------------- */

typedef struct
{
  const gchar *reasons[4];
  const gchar *warnings[2];
  guint n_reasons, n_warnings;
} State;

/* Adds the phase of the data directory as a reason or a warning, unless it is LIVE. */
static void
add_durable_state (TpsDurable *durable, State *state)
{
  TpsDurableStatus status;
  const gchar *name;

  tps_durable_get_status (durable, &status);
  name = tps_durable_phase_name (status.phase);
  if (status.phase == TPS_DURABLE_RECOVERING || status.phase == TPS_DURABLE_FAILED)
    state->reasons[state->n_reasons++] = name;
  else if (status.phase != TPS_DURABLE_LIVE)
    state->warnings[state->n_warnings++] = name;
}

static void
add_known (TpsJsonWriter *json, const gchar *name, gboolean is_known, gint64 number)
{
  if (is_known)
    tps_json_add_int (json, name, number);
  else
    tps_json_add_null (json, name);
}

static void
add_texts (TpsJsonWriter *json, const gchar *name, const gchar *const *texts, guint n_texts)
{
  tps_json_open (json, name, '[');
  for (guint i = 0; i < n_texts; i++)
    tps_json_add_text (json, NULL, texts[i]);
  tps_json_close (json, ']');
}

gboolean
tps_reports_add_state (const TpsReports *reports, TpsJsonWriter *json, const gchar *name)
{
  TpsDurable *durable = reports->plugin->durable;
  State state = { .n_reasons = 0 };

  if (reports->server != NULL)
    {
      TpsServerStatus status;

      tps_server_get_status (reports->server, &status);
      if (!status.is_running)
        state.reasons[state.n_reasons++] = "starting";
      if (status.is_draining)
        state.reasons[state.n_reasons++] = "draining";
    }
  if (durable != NULL)
    add_durable_state (durable, &state);
  tps_json_add_text (json, name, state.n_reasons == 0 ? "ready" : "not ready");
  add_texts (json, "reasons", state.reasons, state.n_reasons);
  add_texts (json, "warnings", state.warnings, state.n_warnings);
  return state.n_reasons == 0;
}

static void
add_snapshot (TpsJsonWriter *json, TpsDurable *durable)
{
  TpsSnapshotInfo info;
  gboolean is_writing;

  tps_durable_get_snapshot (durable, &info, &is_writing);
  if (info.name[0] != '\0')
    {
      tps_json_open (json, "snapshot", '{');
      tps_json_add_text (json, "name", info.name);
      tps_json_add_int (json, "lsn", info.lsn);
      tps_json_add_uint (json, "bytes", info.n_bytes);
      tps_json_add_uint (json, "tables", info.n_tables);
      tps_json_add_uint (json, "increments", info.n_increments);
      tps_json_close (json, '}');
    }
  else
    tps_json_add_null (json, "snapshot");
  tps_json_add_bool (json, "is_writing_snapshot", is_writing);
}

void
tps_reports_add_durability (const TpsReports *reports, TpsJsonWriter *json, gboolean is_brief)
{
  TpsDurable *durable = reports->plugin->durable;
  TpsDurableStatus status;

  if (durable == NULL)
    {
      tps_json_add_null (json, "durability");
      return;
    }
  tps_durable_get_status (durable, &status);
  tps_json_open (json, "durability", '{');
  tps_json_add_text (json, "phase", tps_durable_phase_name (status.phase));
  tps_json_add_int (json, "lsn", status.lsn);
  tps_json_add_int (json, "end_lsn", status.end_lsn);
  tps_json_add_int (json, "log_bytes", status.n_bytes_done);
  if (!is_brief)
    {
      tps_json_add_text (json, "reason", status.reason[0] != '\0' ? status.reason : NULL);
      tps_json_add_text (json, "log", tps_durable_get_log_id (durable));
      add_known (json, "recovery_bytes", status.n_bytes > 0, status.n_bytes);
      tps_json_add_real (json, "recovery_remaining_s",
                         status.remaining_ms >= 0 ? (gdouble) status.remaining_ms / 1e3 : NAN, 3);
      add_snapshot (json, durable);
    }
  tps_json_close (json, '}');
}

const gchar *
tps_reports_get_budget_name (TpsBudget *budget)
{
  return tps_budget_get_parent (budget) != NULL ? tps_budget_get_name (budget) : "process";
}

TpsRoundsReport *
tps_reports_get_rounds (const TpsReports *reports)
{
  TpsParameterServer *averaging = reports->plugin->parameter_servers.averaging;
  TpsModelServer *model = reports->plugin->parameter_servers.updating;
  TpsRoundsReport *report = g_new0 (TpsRoundsReport, 1);

  report->has_averaging = averaging != NULL;
  if (averaging != NULL)
    tps_parameter_server_get_status (averaging, &report->averaging, report->rounds,
                                     TPS_REPORTS_MAX_ROUNDS);
  report->has_model = model != NULL;
  if (model != NULL)
    tps_model_server_get_status (model, &report->model);
  return report;
}

/* ---- quotas --------------------------------------------------------------------------------- */

#define MAX_TENANTS 1000

static void
add_limit (TpsJsonWriter *json, TpsQuotaKind kind, gint64 used, guint64 max)
{
  if (max == 0)
    return;
  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "kind", tps_quota_kind_name (kind));
  tps_json_add_int (json, "used", used);
  tps_json_add_uint (json, "max", max);
  tps_json_close (json, '}');
}

/* For a rate, "used" is the number of tokens that the bucket lacks until it is full. */
static void
add_limits (TpsJsonWriter *json, const TpsTenantStatus *status)
{
  const TpsTenantLimits *limits = &status->limits;

  tps_json_open (json, "limits", '[');
  for (guint i = 0; i < TPS_N_RATES; i++)
    {
      const TpsRateLimit *rate = &limits->rates[i];
      guint64 burst = rate->burst > 0 ? rate->burst : rate->per_s;

      add_limit (json, (TpsQuotaKind) i, (gint64) burst - status->levels[i],
                 rate->per_s > 0 ? burst : 0);
    }
  add_limit (json, TPS_QUOTA_CALLS_IN_FLIGHT, (gint64) status->n_calls_in_flight,
             limits->calls_in_flight);
  add_limit (json, TPS_QUOTA_TABLE_BYTES, (gint64) status->n_table_bytes, limits->table_bytes);
  tps_json_close (json, ']');
}

static void
add_quotas (const TpsReports *reports, TpsJsonWriter *json)
{
  TpsQuotas *quotas = reports->plugin->quotas;
  g_autoptr (GArray) tenants = quotas != NULL ? tps_quotas_list (quotas) : NULL;

  tps_json_open (json, "quotas", '[');
  for (guint i = 0; tenants != NULL && i < tenants->len && i < MAX_TENANTS; i++)
    {
      const TpsTenantStatus *status = &g_array_index (tenants, TpsTenantStatus, i);
      guint64 n_refused = 0;

      for (guint quota = 0; quota < TPS_N_QUOTAS; quota++)
        n_refused += status->n_refused[quota];
      tps_json_open (json, NULL, '{');
      tps_json_add_text (json, "tenant", status->name);
      tps_json_add_uint (json, "in_flight", status->n_calls_in_flight);
      tps_json_add_uint (json, "table_bytes", status->n_table_bytes);
      tps_json_add_uint (json, "refused", n_refused);
      tps_json_add_real (json, "throttled_s", (gdouble) status->throttled_ms / 1e3, 3);
      add_limits (json, status);
      tps_json_close (json, '}');
    }
  tps_json_close (json, ']');
}

/* ---- /healthz, /readyz ---------------------------------------------------------------------- */

/* Checks the threads of the server in the same way as the watchdog of a service manager. */
static void
handle_healthz (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  g_autofree gchar *missing = NULL;
  gboolean is_alive = reports->server == NULL
                      || tps_server_check_threads (reports->server, reports->stuck_ns, &missing);
  TpsJsonWriter json;

  tps_http_json_begin (&json);
  tps_json_add_text (&json, "status", is_alive ? "alive" : "stuck");
  tps_json_add_text (&json, "missing", missing);
  tps_http_request_reply_json (request, is_alive ? 200 : 503, &json);
}

static void
handle_readyz (TpsHttpRequest *request, gpointer data)
{
  TpsJsonWriter json;
  gboolean is_ready;

  tps_http_json_begin (&json);
  is_ready = tps_reports_add_state (data, &json, "status");
  tps_http_request_reply_json (request, is_ready ? 200 : 503, &json);
}

/* ---- /version ------------------------------------------------------------------------------- */

static void
add_identity (const TpsReports *reports, TpsJsonWriter *json)
{
  tps_json_add_time (json, "time_s", g_get_real_time ());
  tps_json_add_time (json, "start_time_s", reports->started_us);
  tps_json_add_text (json, "name", reports->plugin->name);
  tps_json_add_text (json, "version", TPS_VERSION);
}

static void
handle_version (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  const gchar *const *device = reports->plugin->node.devices;
  guint n_services;
  const TpsService *services = tps_plugin_get_services (reports->plugin, &n_services);
  TpsJsonWriter json;

  tps_http_json_begin (&json);
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
  tps_http_request_reply_json (request, 200, &json);
}

/* ---- /status -------------------------------------------------------------------------------- */

static void
add_totals (const TpsReports *reports, TpsJsonWriter *json)
{
  TpsReading *reading = tps_counters_read (tps_metrics_get_counters (reports->plugin->metrics));
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
  add_known (json, "max_bytes", max_bytes != G_MAXSIZE, (gint64) max_bytes);
  tps_json_close (json, '}');
}

static void
add_workers (const TpsReports *reports, TpsJsonWriter *json)
{
  TpsWorkerPool *workers = reports->plugin->workers;
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
handle_status (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  g_autofree gchar *levels = NULL;
  TpsHttpConnectionCounts counts;
  TpsJsonWriter json;

  tps_http_json_begin (&json);
  add_identity (reports, &json);
  tps_reports_add_state (reports, &json, "state");
  levels = tps_trace_dup_levels ();
  tps_json_add_text (&json, "log_levels", levels);
  add_totals (reports, &json);
  tps_json_open (&json, "budgets", '[');
  tps_budget_visit (reports->plugin->budgets->process, add_budget, &json);
  tps_json_close (&json, ']');
  add_workers (reports, &json);
  tps_reports_add_durability (reports, &json, FALSE);
  add_quotas (reports, &json);
  tps_http_connections_get_counts (reports->connections, &counts);
  tps_json_open (&json, "http", '{');
  tps_json_add_uint (&json, "connections", counts.n_connections);
  tps_json_add_uint (&json, "streams", counts.n_streams);
  tps_json_add_uint (&json, "requests", counts.n_accepted);
  tps_json_add_uint (&json, "refused", counts.n_refused);
  tps_json_close (&json, '}');
  tps_http_request_reply_json (request, 200, &json);
}

/* Reports that are lists, which are sent in pages. */

#define DEFAULT_LIMIT 1000
#define MAX_LIMIT 10000

/* ---- /connections --------------------------------------------------------------------------- */

static void
add_connection (TpsJsonWriter *json, const TpsConnectionInfo *info)
{
  tps_json_open (json, NULL, '{');
  tps_json_add_uint (json, "id", info->id);
  tps_json_add_text (json, "peer", info->peer);
  tps_json_add_text (json, "transport", info->is_unix ? "unix" : "tcp");
  tps_json_add_bool (json, "is_encrypted", info->is_encrypted);
  tps_json_add_text (json, "protocol", info->protocol);
  tps_json_add_bool (json, "is_framed", info->is_framed);
  tps_json_add_text (json, "principal", tps_principal_get_name (info->principal));
  tps_json_add_text (json, "principal_kind",
                     tps_principal_kind_to_string (tps_principal_get_kind (info->principal)));
  tps_json_add_text (json, "tenant", tps_principal_get_tenant (info->principal));
  tps_json_add_seconds (json, "age_s", info->age_ns);
  tps_json_add_uint (json, "calls", info->n_calls);
  tps_json_add_uint (json, "in_flight", info->n_in_flight);
  tps_json_add_uint (json, "received_bytes", info->n_received_bytes);
  tps_json_add_uint (json, "sent_bytes", info->n_sent_bytes);
  tps_json_add_uint (json, "queued_bytes", info->n_queued_bytes);
  tps_json_add_uint (json, "shared_bytes", info->n_shared_bytes);
  tps_json_add_bool (json, "is_half_closed", info->is_half_closed);
  tps_json_close (json, '}');
}

static void
handle_connections (TpsHttpRequest *request, gpointer data)
{
  TpsServer *server = ((TpsReports *) data)->server;
  g_autoptr (GArray) infos = NULL;
  guint64 limit, after;
  TpsJsonWriter json;

  if (!tps_http_request_get_number (request, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT, &limit)
      || !tps_http_request_get_number (request, "after", 0, G_MAXUINT64, 0, &after))
    return;
  infos = server != NULL ? tps_server_list_connections (server, after, (guint) limit)
                         : g_array_new (FALSE, FALSE, sizeof (TpsConnectionInfo));
  tps_http_json_begin (&json);
  tps_json_add_time (&json, "time_s", g_get_real_time ());
  tps_json_add_uint (&json, "total", server != NULL ? tps_server_get_n_connections (server) : 0);
  if (infos->len > 0 && infos->len == limit)
    tps_json_add_uint (&json, "next", g_array_index (infos, TpsConnectionInfo, infos->len - 1).id);
  else
    tps_json_add_null (&json, "next");
  tps_json_open (&json, "connections", '[');
  for (guint i = 0; i < infos->len; i++)
    add_connection (&json, &g_array_index (infos, TpsConnectionInfo, i));
  tps_json_close (&json, ']');
  tps_http_request_reply_json (request, 200, &json);
}

/* ---- /tables -------------------------------------------------------------------------------- */

/* The traffic of tables. */
typedef struct
{
  TpsReading *reading;
  GHashTable *by_name[TPS_N_TABLE_COUNTS]; /* by table; NULL = not counted */
} Traffic;

static void
add_table (TpsJsonWriter *json, const TpsTableSpec *spec, const Traffic *traffic)
{
  static const gchar *const kinds[] = {
    [TPS_SHARD_WHOLE] = "whole", [TPS_SHARD_RANGE] = "range", [TPS_SHARD_HASH] = "hash"
  };
  g_autofree gchar *place = tps_table_place_to_string (&spec->place);
  const TpsShard *shard = &spec->shard;

  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "name", spec->name);
  tps_json_add_int (json, "rows", spec->shard.rows);
  tps_json_add_int (json, "local_rows", spec->shard.n_rows);
  tps_json_add_int (json, "dim", spec->dim);
  tps_json_add_text (json, "dtype", tps_dtype_name (spec->dtype));
  tps_json_add_text (json, "optimizer", tps_optimizer_kind_name (spec->optimizer.kind));
  tps_json_open (json, "shard", '{');
  tps_json_add_text (json, "kind", kinds[shard->kind]);
  add_known (json, "first_row", shard->kind == TPS_SHARD_RANGE, shard->first_row);
  add_known (json, "index", shard->kind == TPS_SHARD_HASH, shard->index);
  add_known (json, "count", shard->kind == TPS_SHARD_HASH, shard->count);
  tps_json_close (json, '}');
  tps_json_add_text (json, "place", place);
  tps_json_add_text (json, "durability",
                     spec->durability != 0 ? tps_durability_name (spec->durability) : NULL);
  tps_json_add_int (json, "bytes", spec->bytes);
  for (guint i = 0; i < TPS_N_TABLE_COUNTS; i++)
    {
      GHashTable *by_name = traffic->by_name[i];
      const TpsSample *sample = by_name != NULL ? g_hash_table_lookup (by_name, spec->name) : NULL;

      add_known (json, tps_table_counts[i].member, sample != NULL,
                 sample != NULL ? sample->number : 0);
    }
  tps_json_close (json, '}');
}

static void
add_tables (const TpsReports *reports, TpsJsonWriter *json, const TpsTableSpecs *specs, guint begin,
            guint limit)
{
  guint end = specs->n_specs - begin > limit ? begin + limit : specs->n_specs;
  Traffic traffic;

  tps_json_add_uint (json, "total", specs->n_specs);
  tps_json_add_text (json, "next", end < specs->n_specs ? specs->specs[end - 1].name : NULL);
  tps_json_open (json, "tables", '[');
  traffic.reading = tps_counters_read (tps_metrics_get_counters (reports->plugin->metrics));
  for (guint i = 0; i < TPS_N_TABLE_COUNTS; i++)
    traffic.by_name[i] = index_readings (traffic.reading, tps_table_counts[i].family);
  for (guint i = begin; i < end; i++)
    add_table (json, &specs->specs[i], &traffic);
  for (guint i = 0; i < TPS_N_TABLE_COUNTS; i++)
    g_clear_pointer (&traffic.by_name[i], g_hash_table_unref);
  tps_reading_free (traffic.reading);
  tps_json_close (json, ']');
}

static void
handle_tables (TpsHttpRequest *request, gpointer data)
{
  TpsTableStore *store = (((TpsReports *) data)->plugin)->tables;
  g_auto (TpsTableSpecs) specs = { 0 };
  g_autoptr (GError) error = NULL;
  const gchar *after = tps_http_request_get_parameter (request, "after");
  guint64 limit;
  guint first = 0;
  TpsJsonWriter json;

  if (!tps_http_request_get_number (request, "limit", 1, MAX_LIMIT, DEFAULT_LIMIT, &limit))
    return;
  if (store != NULL && !tps_table_store_list (store, &specs, &error))
    {
      tps_http_request_fail (request, 503, "%s", error->message);
      return;
    }
  tps_http_json_begin (&json);
  tps_json_add_time (&json, "time_s", g_get_real_time ());
  tps_json_add_uint (&json, "bytes", store != NULL ? tps_budget_get_held (store->budget) : 0);
  tps_json_add_uint (&json, "device_bytes",
                     store != NULL ? tps_budget_get_held (store->device_budget) : 0);
  tps_json_add_uint (&json, "max_bytes", store != NULL ? tps_budget_get_max (store->budget) : 0);
  /* The tables are sorted by name. */
  while (after != NULL && first < specs.n_specs && strcmp (specs.specs[first].name, after) <= 0)
    first++;
  add_tables (data, &json, &specs, first, (guint) limit);
  tps_http_request_reply_json (request, 200, &json);
}

/* ---- /rounds -------------------------------------------------------------------------------- */

#define MAX_STRAGGLERS 100

/* A trainer whose contribution is missing in open rounds. */
typedef struct
{
  gint32 trainer;
  guint n_rounds;
  gint64 longest_ns;
} Straggler;

static void
add_round (TpsJsonWriter *json, const TpsOpenRound *round)
{
  tps_json_add_uint (json, "arrived", round->n_arrived);
  tps_json_open (json, "missing", '[');
  for (guint i = 0; i < round->n_missing; i++)
    tps_json_add_int (json, NULL, round->missing[i]);
  tps_json_close (json, ']');
  tps_json_add_seconds (json, "age_s", round->age_ns);
  tps_json_add_seconds (json, "remaining_s", round->remaining_ns);
}

static void
add_averaging (TpsJsonWriter *json, const TpsRoundsReport *report)
{
  const TpsAveragingStatus *status = &report->averaging;
  guint64 n_waiting = 0;

  tps_json_open (json, "averaging", '{');
  tps_json_add_uint (json, "trainers", status->n_trainers);
  tps_json_add_seconds (json, "timeout_s", status->round_timeout_ns);
  add_known (json, "batch", status->batch >= 0, status->batch);
  tps_json_add_uint (json, "open", status->n_open);
  tps_json_open (json, "rounds", '[');
  for (guint i = 0; i < status->n_listed; i++)
    {
      tps_json_open (json, NULL, '{');
      tps_json_add_int (json, "batch", report->rounds[i].batch);
      tps_json_add_int (json, "param_loc", report->rounds[i].param_loc);
      add_round (json, &report->rounds[i]);
      tps_json_close (json, '}');
      n_waiting += report->rounds[i].n_arrived;
    }
  tps_json_close (json, ']');
  tps_json_add_uint (json, "waiting", n_waiting);
  tps_json_close (json, '}');
}

static void
add_model (TpsJsonWriter *json, const TpsUpdatingStatus *status)
{
  tps_json_open (json, "model", '{');
  tps_json_add_uint (json, "trainers", status->n_trainers);
  tps_json_add_uint (json, "min_trainers", status->min_trainers);
  tps_json_add_seconds (json, "timeout_s", status->round_timeout_ns);
  tps_json_add_int (json, "version", status->version);
  tps_json_add_bool (json, "is_updating", status->is_updating);
  if (status->has_round)
    {
      tps_json_open (json, "round", '{');
      add_round (json, &status->round);
      tps_json_close (json, '}');
    }
  else
    tps_json_add_null (json, "round");
  tps_json_close (json, '}');
}

static void
note_missing (GHashTable *by_trainer, const TpsOpenRound *round)
{
  for (guint i = 0; i < round->n_missing; i++)
    {
      gpointer key = GINT_TO_POINTER (round->missing[i]);
      Straggler *straggler = g_hash_table_lookup (by_trainer, key);

      if (straggler == NULL)
        {
          straggler = g_new0 (Straggler, 1);
          straggler->trainer = round->missing[i];
          g_hash_table_insert (by_trainer, key, straggler);
        }
      straggler->n_rounds++;
      straggler->longest_ns = MAX (straggler->longest_ns, round->age_ns);
    }
}

static gint
compare_stragglers (gconstpointer a, gconstpointer b)
{
  const Straggler *left = *(const Straggler *const *) a;
  const Straggler *right = *(const Straggler *const *) b;

  if (left->longest_ns != right->longest_ns)
    return left->longest_ns > right->longest_ns ? -1 : 1;
  return left->trainer < right->trainer ? -1 : left->trainer > right->trainer;
}

static void
add_stragglers (TpsJsonWriter *json, const TpsRoundsReport *report)
{
  g_autoptr (GHashTable) by_trainer = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  g_autoptr (GPtrArray) sorted = g_ptr_array_new ();
  GHashTableIter iter;
  gpointer value;

  for (guint i = 0; i < report->averaging.n_listed; i++)
    note_missing (by_trainer, &report->rounds[i]);
  if (report->model.has_round)
    note_missing (by_trainer, &report->model.round);
  g_hash_table_iter_init (&iter, by_trainer);
  while (g_hash_table_iter_next (&iter, NULL, &value))
    g_ptr_array_add (sorted, value);
  g_ptr_array_sort (sorted, compare_stragglers);
  tps_json_open (json, "stragglers", '[');
  for (guint i = 0; i < sorted->len && i < MAX_STRAGGLERS; i++)
    {
      const Straggler *straggler = sorted->pdata[i];

      tps_json_open (json, NULL, '{');
      tps_json_add_int (json, "trainer", straggler->trainer);
      tps_json_add_uint (json, "rounds", straggler->n_rounds);
      tps_json_add_seconds (json, "longest_s", straggler->longest_ns);
      tps_json_close (json, '}');
    }
  tps_json_close (json, ']');
}

static void
handle_rounds (TpsHttpRequest *request, gpointer data)
{
  g_autofree TpsRoundsReport *report = tps_reports_get_rounds (data);
  TpsJsonWriter json;

  tps_http_json_begin (&json);
  tps_json_add_time (&json, "time_s", g_get_real_time ());
  if (report->has_averaging)
    add_averaging (&json, report);
  else
    tps_json_add_null (&json, "averaging");
  if (report->has_model)
    add_model (&json, &report->model);
  else
    tps_json_add_null (&json, "model");
  add_stragglers (&json, report);
  tps_http_request_reply_json (request, 200, &json);
}

/* ---- /slow ---------------------------------------------------------------------------------- */

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

static void
handle_slow (TpsHttpRequest *request, gpointer data)
{
  TpsTracer *tracer = ((TpsReports *) data)->tracer;
  g_autofree TpsSlowCall *calls = g_new (TpsSlowCall, MAX_CALLS);
  guint n_calls = tps_tracer_list_slow (tracer, calls, MAX_CALLS);
  gint64 since_us = g_get_real_time () - tps_clock_now_ns () / 1000;
  TpsJsonWriter json;

  tps_http_json_begin (&json);
  tps_json_add_bool (&json, "is_enabled", tps_tracer_keeps_slow (tracer));
  tps_json_open (&json, "calls", '[');
  for (guint i = 0; i < n_calls; i++)
    {
      /* `since_us` is the difference between wall-clock time and the monotonic clock. */
      tps_json_open (&json, NULL, '{');
      tps_json_add_time (&json, "time_s", since_us + calls[i].began_ns / 1000);
      tps_json_add_text (&json, "method", calls[i].method);
      tps_json_add_text (&json, "table", text_or_null (calls[i].table));
      tps_json_add_text (&json, "peer", text_or_null (calls[i].peer));
      tps_json_add_text (&json, "principal", text_or_null (calls[i].principal));
      tps_json_add_real (&json, "duration_ms", (gdouble) calls[i].total_ns / 1e6, 3);
      add_phases (&json, &calls[i]);
      tps_json_add_text (&json, "code", calls[i].code);
      tps_json_add_text (&json, "trace_id", text_or_null (calls[i].trace_id));
      tps_json_close (&json, '}');
    }
  tps_json_close (&json, ']');
  tps_http_request_reply_json (request, 200, &json);
}

/* ---- /metrics ------------------------------------------------------------------------------- */

static void
handle_metrics (TpsHttpRequest *request, gpointer data)
{
  const TpsReports *reports = data;
  TpsCounters *counters = tps_metrics_get_counters (reports->plugin->metrics);
  TpsExpositionFormat format = tps_exposition_choose (
      tps_http_request_get_header (request, "Accept"));

  tps_http_request_reply (request, 200, tps_exposition_get_content_type (format),
                          tps_exposition_write (counters, format));
}

/* ---- endpoints ------------------------------------------------------------------------------ */

const TpsHttpEndpoint *
tps_reports_get_endpoints (void)
{
  static const TpsHttpEndpoint endpoints[] = {
    { "/healthz", .right = TPS_RIGHT_OPEN, .handle = handle_healthz },
    { "/readyz", .right = TPS_RIGHT_OPEN, .handle = handle_readyz },
    { "/version", .right = TPS_RIGHT_ADMIN, .handle = handle_version },
    { "/status", .right = TPS_RIGHT_ADMIN, .handle = handle_status },
    { "/connections", .right = TPS_RIGHT_ADMIN, .handle = handle_connections },
    { "/tables", .right = TPS_RIGHT_ADMIN, .handle = handle_tables },
    { "/rounds", .right = TPS_RIGHT_ADMIN, .handle = handle_rounds },
    { "/slow", .right = TPS_RIGHT_ADMIN, .handle = handle_slow },
    { "/metrics", .right = TPS_RIGHT_ADMIN, .handle = handle_metrics },
    { NULL },
  };

  return endpoints;
}

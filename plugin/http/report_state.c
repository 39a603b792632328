/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Parts that several reports share. */

#include "plugin/http/reports.h"

typedef struct
{
  const gchar *reasons[4];
  const gchar *warnings[2];
  guint n_reasons, n_warnings;
} State;

static void
add_server_state (TpsServer *server, State *state)
{
  TpsServerStatus status;

  tps_server_get_status (server, &status);
  if (!status.is_running)
    state->reasons[state->n_reasons++] = "starting";
  if (status.is_draining)
    state->reasons[state->n_reasons++] = "draining";
}

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
  TpsDurable *durable = tps_plugin_get_durable (reports->plugin);
  State state = { .n_reasons = 0 };

  if (reports->server != NULL)
    add_server_state (reports->server, &state);
  if (durable != NULL)
    add_durable_state (durable, &state);
  tps_json_add_text (json, name, state.n_reasons == 0 ? "ready" : "not ready");
  add_texts (json, "reasons", state.reasons, state.n_reasons);
  add_texts (json, "warnings", state.warnings, state.n_warnings);
  return state.n_reasons == 0;
}

static void
add_recovery (TpsJsonWriter *json, const TpsDurableStatus *status)
{
  if (status->n_bytes > 0)
    tps_json_add_int (json, "recovery_bytes", status->n_bytes);
  else
    tps_json_add_null (json, "recovery_bytes");
  if (status->remaining_ms >= 0)
    tps_json_add_real (json, "recovery_remaining_s", (gdouble) status->remaining_ms / 1e3, 3);
  else
    tps_json_add_null (json, "recovery_remaining_s");
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
  TpsDurable *durable = tps_plugin_get_durable (reports->plugin);
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
      add_recovery (json, &status);
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
  TpsParameterServer *averaging = tps_plugin_get_parameter_server (reports->plugin);
  TpsModelServer *model = tps_plugin_get_model_server (reports->plugin);
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

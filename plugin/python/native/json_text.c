/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/json_text.h"

#include <math.h>

#include "runtime/base/json_writer.h"

/* Adds a number, unless it is NaN: the server has not sent it. */
static void
add_known (TpsJsonWriter *json, const gchar *name, gdouble value)
{
  if (!isnan (value))
    tps_json_add_unbounded (json, name, value);
}

static void
add_strings (TpsJsonWriter *json, const gchar *name, gchar **strings)
{
  tps_json_open (json, name, '[');
  for (gchar **each = strings; each != NULL && *each != NULL; each++)
    tps_json_add_text (json, NULL, *each);
  tps_json_close (json, ']');
}

static void
add_durability (TpsJsonWriter *json, const TpsDurabilityInfo *info)
{
  static const gchar *const phases[] = { "unknown", "recovering", "live",
                                         "full",    "read_only",  "failed" };
  gboolean is_known = info->phase > 0 && info->phase < (gint32) G_N_ELEMENTS (phases);

  tps_json_open (json, "durability", '{');
  tps_json_add_text (json, "phase", phases[is_known ? info->phase : 0]);
  tps_json_add_int (json, "lsn", info->lsn);
  tps_json_add_int (json, "end_lsn", info->end_lsn);
  tps_json_add_int (json, "bytes", info->bytes);
  if (info->end_bytes > 0)
    tps_json_add_int (json, "end_bytes", info->end_bytes);
  if (info->has_remaining_ms)
    tps_json_add_int (json, "remaining_ms", info->remaining_ms);
  tps_json_close (json, '}');
}

GString *
tps_python_node_info_to_json (const TpsNodeInfo *info)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_text (&json, "name", info->name);
  tps_json_add_text (&json, "version", info->version);
  tps_json_add_int (&json, "max_frame_bytes", info->max_frame_bytes);
  add_strings (&json, "services", info->services);
  add_strings (&json, "devices", info->devices);
  if (info->has_table_bytes)
    tps_json_add_int (&json, "table_bytes", info->table_bytes);
  tps_json_add_int (&json, "max_table_bytes", info->max_table_bytes);
  tps_json_add_int (&json, "max_shared_bytes", info->max_shared_bytes);
  if (info->has_durability)
    add_durability (&json, &info->durability);
  tps_json_close (&json, '}');
  return tps_json_writer_take (&json);
}

static void
add_summary (TpsJsonWriter *json, const TpsMetricSummary *summary)
{
  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "type", summary->type);
  tps_json_add_text (json, "name", summary->name);
  tps_json_add_int (json, "count", summary->count);
  add_known (json, "min_ms", summary->min_ms);
  add_known (json, "max_ms", summary->max_ms);
  add_known (json, "mean_ms", summary->mean_ms);
  add_known (json, "stdev_ms", summary->stdev_ms);
  add_known (json, "p50_ms", summary->p50_ms);
  add_known (json, "p95_ms", summary->p95_ms);
  add_known (json, "p99_ms", summary->p99_ms);
  tps_json_close (json, '}');
}

GString *
tps_python_metrics_to_json (const GPtrArray *summaries)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '[');
  for (guint i = 0; summaries != NULL && i < summaries->len; i++)
    add_summary (&json, g_ptr_array_index (summaries, i));
  tps_json_close (&json, ']');
  return tps_json_writer_take (&json);
}

static void
add_optimizer (TpsJsonWriter *json, const TpsOptimizerSpec *optimizer)
{
  TpsOptimizerSpec numbers = *optimizer;

  tps_json_open (json, "optimizer", '{');
  tps_json_add_text (json, "kind", tps_optimizer_kind_name (optimizer->kind));
  for (guint i = 0; i < TPS_OPTIMIZER_N_NUMBERS; i++)
    add_known (json, tps_optimizer_numbers[i].name, *tps_optimizer_spec_number (&numbers, i));
  tps_json_close (json, '}');
}

static void
add_table (TpsJsonWriter *json, const TpsTableSpec *spec)
{
  g_autofree gchar *place = tps_table_place_to_string (&spec->place);

  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "name", spec->name);
  tps_json_add_int (json, "rows", spec->shard.rows);
  tps_json_add_int (json, "dim", spec->dim);
  tps_json_add_int (json, "dtype", spec->dtype);
  tps_json_add_text (json, "rounding", tps_rounding_name (spec->rounding));
  tps_json_add_int (json, "bytes", spec->bytes);
  tps_json_add_text (json, "device", place);
  tps_json_add_text (json, "durability",
                     spec->durability != 0 ? tps_durability_name (spec->durability) : NULL);
  add_optimizer (json, &spec->optimizer);
  tps_json_close (json, '}');
}

GString *
tps_python_tables_to_json (const GArray *specs)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '[');
  for (guint i = 0; i < specs->len; i++)
    add_table (&json, &g_array_index (specs, TpsTableSpec, i));
  tps_json_close (&json, ']');
  return tps_json_writer_take (&json);
}

GString *
tps_python_snapshot_to_json (const TpsWireSnapshotInfo *info)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_text (&json, "name", info->name);
  tps_json_add_int (&json, "lsn", info->lsn);
  tps_json_add_int (&json, "end_lsn", info->end_lsn);
  tps_json_add_int (&json, "tables", info->n_tables);
  tps_json_add_bool (&json, "model", info->has_model);
  tps_json_add_int (&json, "bytes", info->n_bytes);
  tps_json_add_int (&json, "increments", info->n_increments);
  tps_json_close (&json, '}');
  return tps_json_writer_take (&json);
}

GString *
tps_python_log_batch_to_json (const TpsWireLogBatch *batch)
{
  TpsJsonWriter json;

  tps_json_writer_init (&json);
  tps_json_open (&json, NULL, '{');
  tps_json_add_text (&json, "log", batch->log);
  tps_json_add_int (&json, "next_lsn", batch->next_lsn);
  tps_json_add_int (&json, "durable_lsn", batch->durable_lsn);
  tps_json_add_int (&json, "oldest_lsn", batch->oldest_lsn);
  tps_json_close (&json, '}');
  return tps_json_writer_take (&json);
}

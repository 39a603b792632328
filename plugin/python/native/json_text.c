/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/python/native/json_text.h"

#include <math.h>

/* ---- values: each member is followed by a comma, which the end of its object removes ---- */

static void
end_with (GString *json, gchar end)
{
  if (json->len > 0 && json->str[json->len - 1] == ',')
    g_string_truncate (json, json->len - 1);
  g_string_append_c (json, end);
}

static void
append_string (GString *json, const gchar *text)
{
  g_string_append_c (json, '"');
  for (const gchar *c = text; *c != '\0'; c++)
    {
      if (*c == '"' || *c == '\\')
        g_string_append_c (json, '\\');
      if ((guchar) *c < 0x20)
        g_string_append_printf (json, "\\u%04x", (guint) *c);
      else
        g_string_append_c (json, *c);
    }
  g_string_append_c (json, '"');
}

static void
add_text (GString *json, const gchar *key, const gchar *text)
{
  g_string_append_printf (json, "\"%s\":", key);
  if (text != NULL)
    append_string (json, text);
  else
    g_string_append (json, "null");
  g_string_append_c (json, ',');
}

static void
add_int (GString *json, const gchar *key, gint64 value)
{
  g_string_append_printf (json, "\"%s\":%" G_GINT64_FORMAT ",", key, value);
}

static void
add_bool (GString *json, const gchar *key, gboolean value)
{
  g_string_append_printf (json, "\"%s\":%s,", key, value ? "true" : "false");
}

/* NAN = absent: omitted. JSON has no infinities, and no value here is one. */
static void
add_double (GString *json, const gchar *key, gdouble value)
{
  gchar text[G_ASCII_DTOSTR_BUF_SIZE];

  if (isfinite (value))
    g_string_append_printf (json, "\"%s\":%s,", key, g_ascii_dtostr (text, sizeof text, value));
}

static void
add_strings (GString *json, const gchar *key, gchar **strings)
{
  g_string_append_printf (json, "\"%s\":[", key);
  for (gchar **each = strings; each != NULL && *each != NULL; each++)
    {
      append_string (json, *each);
      g_string_append_c (json, ',');
    }
  end_with (json, ']');
  g_string_append_c (json, ',');
}

/* ---- structs ---- */

static void
add_durability (GString *json, const TpsDurabilityInfo *info)
{
  static const gchar *const phases[] = { "unknown", "recovering", "live",
                                         "full",    "read_only",  "failed" };
  gboolean is_known = info->phase > 0 && info->phase < (gint32) G_N_ELEMENTS (phases);

  g_string_append (json, "\"durability\":{");
  add_text (json, "phase", phases[is_known ? info->phase : 0]);
  add_int (json, "lsn", info->lsn);
  add_int (json, "end_lsn", info->end_lsn);
  add_int (json, "bytes", info->bytes);
  if (info->end_bytes > 0)
    add_int (json, "end_bytes", info->end_bytes);
  if (info->has_remaining_ms)
    add_int (json, "remaining_ms", info->remaining_ms);
  end_with (json, '}');
  g_string_append_c (json, ',');
}

GString *
tps_python_node_info_to_json (const TpsNodeInfo *info)
{
  GString *json = g_string_new ("{");

  add_text (json, "name", info->name);
  add_text (json, "version", info->version);
  add_int (json, "max_frame_bytes", info->max_frame_bytes);
  add_strings (json, "services", info->services);
  add_strings (json, "devices", info->devices);
  if (info->has_table_bytes)
    add_int (json, "table_bytes", info->table_bytes);
  add_int (json, "max_table_bytes", info->max_table_bytes);
  add_int (json, "max_shared_bytes", info->max_shared_bytes);
  if (info->has_durability)
    add_durability (json, &info->durability);
  end_with (json, '}');
  return json;
}

GString *
tps_python_metrics_to_json (const GPtrArray *summaries)
{
  GString *json = g_string_new ("[");

  for (guint i = 0; summaries != NULL && i < summaries->len; i++)
    {
      const TpsMetricSummary *summary = g_ptr_array_index (summaries, i);

      g_string_append_c (json, '{');
      add_text (json, "type", summary->type);
      add_text (json, "name", summary->name);
      add_int (json, "count", summary->count);
      add_double (json, "min_ms", summary->min_ms);
      add_double (json, "max_ms", summary->max_ms);
      add_double (json, "mean_ms", summary->mean_ms);
      add_double (json, "stdev_ms", summary->stdev_ms);
      add_double (json, "p50_ms", summary->p50_ms);
      add_double (json, "p95_ms", summary->p95_ms);
      add_double (json, "p99_ms", summary->p99_ms);
      end_with (json, '}');
      g_string_append_c (json, ',');
    }
  end_with (json, ']');
  return json;
}

static void
add_optimizer (GString *json, const TpsOptimizerSpec *optimizer)
{
  g_string_append (json, "\"optimizer\":{");
  add_text (json, "kind", tps_optimizer_kind_name (optimizer->kind));
  add_double (json, "learning_rate", optimizer->learning_rate);
  add_double (json, "momentum", optimizer->momentum);
  add_double (json, "weight_decay", optimizer->weight_decay);
  add_double (json, "epsilon", optimizer->epsilon);
  add_double (json, "beta1", optimizer->beta1);
  add_double (json, "beta2", optimizer->beta2);
  add_double (json, "l1", optimizer->l1);
  add_double (json, "l2", optimizer->l2);
  add_double (json, "beta", optimizer->beta);
  end_with (json, '}');
  g_string_append_c (json, ',');
}

static void
add_table (GString *json, const TpsTableSpec *spec)
{
  g_autofree gchar *place = tps_table_place_to_string (&spec->place);

  g_string_append_c (json, '{');
  add_text (json, "name", spec->name);
  add_int (json, "rows", spec->shard.rows);
  add_int (json, "dim", spec->dim);
  add_int (json, "dtype", spec->dtype);
  add_int (json, "bytes", spec->bytes);
  add_text (json, "device", place);
  add_text (json, "durability",
            spec->durability != 0 ? tps_durability_name (spec->durability) : NULL);
  add_optimizer (json, &spec->optimizer);
  end_with (json, '}');
  g_string_append_c (json, ',');
}

GString *
tps_python_tables_to_json (const GArray *specs)
{
  GString *json = g_string_new ("[");

  for (guint i = 0; i < specs->len; i++)
    add_table (json, &g_array_index (specs, TpsTableSpec, i));
  end_with (json, ']');
  return json;
}

GString *
tps_python_snapshot_to_json (const TpsWireSnapshotInfo *info)
{
  GString *json = g_string_new ("{");

  add_text (json, "name", info->name);
  add_int (json, "lsn", info->lsn);
  add_int (json, "end_lsn", info->end_lsn);
  add_int (json, "tables", info->n_tables);
  add_bool (json, "model", info->has_model);
  add_int (json, "bytes", info->n_bytes);
  add_int (json, "increments", info->n_increments);
  end_with (json, '}');
  return json;
}

GString *
tps_python_log_batch_to_json (const TpsWireLogBatch *batch)
{
  GString *json = g_string_new ("{");

  add_text (json, "log", batch->log);
  add_int (json, "next_lsn", batch->next_lsn);
  add_int (json, "durable_lsn", batch->durable_lsn);
  add_int (json, "oldest_lsn", batch->oldest_lsn);
  end_with (json, '}');
  return json;
}

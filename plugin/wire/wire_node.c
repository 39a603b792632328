/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_node.h"

#include <math.h>
#include <string.h>

G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN); /* samples are not swapped here */

#define SERVICE "Node"

/* ---- describe ------------------------------------------------------------------------------- */

void
tps_node_info_clear (TpsNodeInfo *info)
{
  g_clear_pointer (&info->name, g_free);
  g_clear_pointer (&info->version, g_free);
  g_clear_pointer (&info->services, g_strfreev);
  g_clear_pointer (&info->devices, g_strfreev);
  *info = (TpsNodeInfo) { 0 };
}

static const TpsList names = {
  .elem = { .kind = &tps_kind_name },
  .form = TPS_LIST_STRV,
  .elem_size = sizeof (gchar *),
};

static const gsize uuid_bytes = TPS_DEVICE_UUID_BYTES;

static const TpsEnumValue phases[] = {
  { "RECOVERING", 1 }, { "LIVE", 2 }, { "FULL", 3 }, { "READ_ONLY", 4 }, { "FAILED", 5 }, { NULL },
};

static const TpsEnum phase_enum = { "DurabilityPhase", phases };

#define DURABILITY(id, field, presence, kind, of)                              \
  {                                                                            \
#field, id, presence, &kind, of, G_STRUCT_OFFSET(TpsDurabilityInfo, field) \
  }

static const TpsField durability_fields[] = {
  DURABILITY (1, phase, TPS_FIELD_DEFAULT, tps_kind_open_enum, &phase_enum),
  DURABILITY (2, lsn, TPS_FIELD_DEFAULT, tps_kind_i64, NULL),
  DURABILITY (3, end_lsn, TPS_FIELD_DEFAULT, tps_kind_i64, NULL),
  DURABILITY (4, bytes, TPS_FIELD_DEFAULT, tps_kind_i64, NULL),
  DURABILITY (5, end_bytes, TPS_FIELD_OPTIONAL, tps_kind_i64, NULL),
  { "remaining_ms", 6, TPS_FIELD_OPTIONAL, &tps_kind_i64, NULL,
    G_STRUCT_OFFSET (TpsDurabilityInfo, remaining_ms),
    G_STRUCT_OFFSET (TpsDurabilityInfo, has_remaining_ms) },
  { NULL },
};

static const TpsStruct durability_struct = { "DurabilityInfo", durability_fields };

#define INFO(id, field, presence, kind, of)                              \
  {                                                                      \
#field, id, presence, &kind, of, G_STRUCT_OFFSET(TpsNodeInfo, field) \
  }

static const TpsField info_fields[] = {
  INFO (1, name, TPS_FIELD_REQUIRED, tps_kind_string, NULL),
  INFO (2, version, TPS_FIELD_REQUIRED, tps_kind_string, NULL),
  INFO (3, max_frame_bytes, TPS_FIELD_OPTIONAL, tps_kind_i64, NULL),
  INFO (4, services, TPS_FIELD_OPTIONAL, tps_kind_list, &names),
  INFO (5, devices, TPS_FIELD_OPTIONAL, tps_kind_list, &names),
  { "table_bytes", 6, TPS_FIELD_OPTIONAL, &tps_kind_i64, NULL,
    G_STRUCT_OFFSET (TpsNodeInfo, table_bytes), G_STRUCT_OFFSET (TpsNodeInfo, has_table_bytes) },
  INFO (7, max_table_bytes, TPS_FIELD_OPTIONAL, tps_kind_i64, NULL),
  INFO (8, max_shared_bytes, TPS_FIELD_OPTIONAL, tps_kind_i64, NULL),
  { "shared_device", 9, TPS_FIELD_OPTIONAL, &tps_kind_array, &uuid_bytes,
    G_STRUCT_OFFSET (TpsNodeInfo, shared_device),
    G_STRUCT_OFFSET (TpsNodeInfo, has_shared_device) },
  { "durability", 10, TPS_FIELD_OPTIONAL, &tps_kind_struct, &durability_struct,
    G_STRUCT_OFFSET (TpsNodeInfo, durability), G_STRUCT_OFFSET (TpsNodeInfo, has_durability) },
  { "lookup_device", 11, TPS_FIELD_OPTIONAL, &tps_kind_array, &uuid_bytes,
    G_STRUCT_OFFSET (TpsNodeInfo, lookup_device),
    G_STRUCT_OFFSET (TpsNodeInfo, has_lookup_device) },
  { NULL },
};

static const TpsStruct info_struct = { "NodeInfo", info_fields };

static const TpsField info_result = { "info", .kind = &tps_kind_struct, .of = &info_struct };

const TpsRpc tps_describe_rpc = { SERVICE, "describe", .result = &info_result };

/* ---- get_metrics, clear_metrics ------------------------------------------------------------- */

static gboolean
read_samples (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
              GError **error)
{
  TpsMetricSummary *summary = object;
  TpsBytesView view = tps_reader_binary (in);

  if (view.n_bytes % sizeof (gdouble) != 0
      || view.n_bytes / sizeof (gdouble) > TPS_METRICS_MAX_SAMPLES)
    return tps_field_refuse (path, error,
                             "has %" G_GSIZE_FORMAT " bytes, expected at most %d float64",
                             view.n_bytes, TPS_METRICS_MAX_SAMPLES);
  g_free (summary->samples_ms);
  summary->n_samples = (guint) (view.n_bytes / sizeof (gdouble));
  summary->samples_ms = g_new (gdouble, MAX (summary->n_samples, 1));
  if (view.n_bytes > 0)
    memcpy (summary->samples_ms, view.data, view.n_bytes);
  return TRUE;
}

static void
write_samples (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsMetricSummary *summary = object;

  tps_writer_binary_borrowed (out, summary->samples_ms, summary->n_samples * sizeof (gdouble));
}

static gboolean
has_samples (const TpsField *field, gconstpointer object)
{
  return ((const TpsMetricSummary *) object)->samples_ms != NULL;
}

static const TpsValueKind samples_kind = { TPS_WIRE_BINARY, "binary", read_samples, write_samples,
                                           has_samples };

#define SUMMARY(id, field, presence, kind)                                      \
  {                                                                             \
#field, id, presence, &kind, NULL, G_STRUCT_OFFSET(TpsMetricSummary, field) \
  }

static const TpsField summary_fields[] = {
  SUMMARY (1, type, TPS_FIELD_REQUIRED, tps_kind_string),
  SUMMARY (2, name, TPS_FIELD_REQUIRED, tps_kind_string),
  SUMMARY (3, count, TPS_FIELD_REQUIRED, tps_kind_i64),
  SUMMARY (4, min_ms, TPS_FIELD_REQUIRED, tps_kind_double),
  SUMMARY (5, max_ms, TPS_FIELD_REQUIRED, tps_kind_double),
  SUMMARY (6, mean_ms, TPS_FIELD_REQUIRED, tps_kind_double),
  SUMMARY (7, stdev_ms, TPS_FIELD_OPTIONAL, tps_kind_number),
  SUMMARY (8, p50_ms, TPS_FIELD_REQUIRED, tps_kind_double),
  SUMMARY (9, p95_ms, TPS_FIELD_REQUIRED, tps_kind_double),
  SUMMARY (10, p99_ms, TPS_FIELD_REQUIRED, tps_kind_double),
  SUMMARY (11, samples_ms, TPS_FIELD_OPTIONAL, samples_kind),
  { NULL },
};

static gboolean
read_summary (TpsReader *in, const TpsFieldPath *path, gpointer object, GError **error)
{
  TpsMetricSummary *summary = object;

  if (!tps_fields_read (summary_fields, in, path, summary, NULL, error))
    return FALSE;
  summary->variance_ms2 = summary->stdev_ms * summary->stdev_ms;
  return TRUE;
}

static const TpsStruct summary_struct = { "MetricSummary", summary_fields, read_summary };

static void
free_summary (gpointer summary)
{
  tps_metric_summary_free (summary);
}

static const TpsList summaries = {
  .elem = { .kind = &tps_kind_struct, .of = &summary_struct },
  .form = TPS_LIST_PTR_ARRAY,
  .elem_size = sizeof (TpsMetricSummary),
  .clear = free_summary,
};

static const TpsField metrics_arguments[] = {
  { "with_samples", 1, TPS_FIELD_REQUIRED, &tps_kind_bool },
  { NULL },
};

static const TpsField metrics_result = { "metrics", .kind = &tps_kind_list, .of = &summaries };

const TpsRpc tps_get_metrics_rpc = { SERVICE, "get_metrics", metrics_arguments, &metrics_result };
const TpsRpc tps_clear_metrics_rpc = { SERVICE, "clear_metrics" };
const TpsRpc tps_reload_certificates_rpc = { SERVICE, "reload_certificates" };
const TpsRpc tps_reload_access_rpc = { SERVICE, "reload_access" };

/* ---- set_log_level -------------------------------------------------------------------------- */

static const TpsField levels_arguments[] = {
  { "levels", 1, TPS_FIELD_REQUIRED, &tps_kind_string },
  { NULL },
};

static const TpsField levels_result = { "levels", .kind = &tps_kind_string };

const TpsRpc tps_set_log_level_rpc = { SERVICE, "set_log_level", levels_arguments, &levels_result };

/* ---- forget_push_clients -------------------------------------------------------------------- */

static const TpsField forget_arguments[] = {
  { "tenant", 1, TPS_FIELD_REQUIRED, &tps_kind_string, NULL,
    G_STRUCT_OFFSET (TpsForgetPushClientsArguments, tenant) },
  { "idle_ms", 2, TPS_FIELD_REQUIRED, &tps_kind_i64, NULL,
    G_STRUCT_OFFSET (TpsForgetPushClientsArguments, idle_ms) },
  { NULL },
};

static const TpsField n_forgotten = { "clients", .kind = &tps_kind_i64 };

const TpsRpc tps_forget_push_clients_rpc = { SERVICE, "forget_push_clients", forget_arguments,
                                             &n_forgotten };

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_node.h"

#include <math.h>
#include <string.h>

#include "runtime/base/error.h"

G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN); /* samples are not swapped here */

/* ---- NodeInfo ------------------------------------------------------------------------------- */

void
tps_node_info_clear (TpsNodeInfo *info)
{
  g_clear_pointer (&info->name, g_free);
  g_clear_pointer (&info->version, g_free);
  g_clear_pointer (&info->services, g_strfreev);
  g_clear_pointer (&info->devices, g_strfreev);
  info->max_frame_bytes = 0;
  info->table_bytes = 0;
  info->max_table_bytes = 0;
  info->max_shared_bytes = 0;
  info->has_shared_device = FALSE;
}

static gboolean
read_uuid (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsNodeInfo *info = target;

  info->has_shared_device = tps_field_read_exactly (in, path, info->shared_device,
                                                    sizeof info->shared_device, error);
  return info->has_shared_device;
}

static gboolean
read_names (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  g_autoptr (GPtrArray) names = g_ptr_array_new_with_free_func (g_free);
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_BINARY, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };
      gchar *name = NULL;

      if (!tps_field_read_name (in, &at, &name, error))
        return FALSE;
      g_ptr_array_add (names, name);
    }
  g_ptr_array_add (names, NULL);
  g_strfreev (*(gchar ***) target);
  *(gchar ***) target = (gchar **) g_ptr_array_steal (names, NULL);
  return TRUE;
}

static const TpsFieldSpec info_fields[] = {
  { "name", 1, TPS_WIRE_BINARY, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsNodeInfo, name) },
  { "version", 2, TPS_WIRE_BINARY, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsNodeInfo, version) },
  { "max_frame_bytes", 3, TPS_WIRE_I64, .offset = G_STRUCT_OFFSET (TpsNodeInfo, max_frame_bytes) },
  { "services", 4, TPS_WIRE_LIST, .offset = G_STRUCT_OFFSET (TpsNodeInfo, services),
    .read = read_names },
  { "devices", 5, TPS_WIRE_LIST, .offset = G_STRUCT_OFFSET (TpsNodeInfo, devices),
    .read = read_names },
  { "table_bytes", 6, TPS_WIRE_I64, .offset = G_STRUCT_OFFSET (TpsNodeInfo, table_bytes) },
  { "max_table_bytes", 7, TPS_WIRE_I64, .offset = G_STRUCT_OFFSET (TpsNodeInfo, max_table_bytes) },
  { "max_shared_bytes", 8, TPS_WIRE_I64,
    .offset = G_STRUCT_OFFSET (TpsNodeInfo, max_shared_bytes) },
  { "shared_device", 9, TPS_WIRE_BINARY, .read = read_uuid },
  { NULL },
};

gboolean
tps_node_describe_result_decode (TpsReader *in, TpsWireType type, gpointer info, GError **error)
{
  TpsFieldPath path = { .name = "info" };

  return tps_field_check_type (&path, type, TPS_WIRE_STRUCT, error)
         && tps_fields_read (in, &path, info_fields, info, NULL, error);
}

static void
encode_names (TpsWriter *out, gint16 id, gchar *const *names)
{
  guint n_names = 0;

  if (names == NULL)
    return;
  while (names[n_names] != NULL)
    n_names++;
  tps_writer_field (out, id, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_BINARY, n_names);
  for (guint i = 0; i < n_names; i++)
    tps_writer_string (out, names[i]);
}

void
tps_node_describe_result_encode (TpsWriter *out, gconstpointer data)
{
  const TpsNodeInfo *info = data;

  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_string (out, 1, info->name);
  tps_field_write_string (out, 2, info->version);
  if (info->max_frame_bytes > 0)
    tps_field_write_i64 (out, 3, info->max_frame_bytes);
  encode_names (out, 4, info->services);
  encode_names (out, 5, info->devices);
  if (info->max_table_bytes > 0)
    {
      tps_field_write_i64 (out, 6, info->table_bytes);
      tps_field_write_i64 (out, 7, info->max_table_bytes);
    }
  if (info->max_shared_bytes > 0)
    tps_field_write_i64 (out, 8, info->max_shared_bytes);
  if (info->has_shared_device)
    {
      tps_writer_field (out, 9, TPS_WIRE_BINARY);
      tps_writer_binary (out, info->shared_device, sizeof info->shared_device);
    }
  tps_writer_struct_end (out);
}

/* ---- MetricSummary -------------------------------------------------------------------------- */

static gboolean
read_samples (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  TpsMetricSummary *summary = target;
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

#define SUMMARY_NUMBER(number, field)                                        \
  {                                                                          \
    .name = #field, .id = number, .type = TPS_WIRE_DOUBLE, .required = TRUE, \
    .offset = G_STRUCT_OFFSET (TpsMetricSummary, field)                      \
  }

static const TpsFieldSpec summary_fields[] = {
  { "type", 1, TPS_WIRE_BINARY, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsMetricSummary, type) },
  { "name", 2, TPS_WIRE_BINARY, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsMetricSummary, name) },
  { "count", 3, TPS_WIRE_I64, .required = TRUE,
    .offset = G_STRUCT_OFFSET (TpsMetricSummary, count) },
  SUMMARY_NUMBER (4, min_ms),
  SUMMARY_NUMBER (5, max_ms),
  SUMMARY_NUMBER (6, mean_ms),
  { "stdev_ms", 7, TPS_WIRE_DOUBLE, .offset = G_STRUCT_OFFSET (TpsMetricSummary, stdev_ms) },
  SUMMARY_NUMBER (8, p50_ms),
  SUMMARY_NUMBER (9, p95_ms),
  SUMMARY_NUMBER (10, p99_ms),
  { "samples_ms", 11, TPS_WIRE_BINARY, .read = read_samples },
  { NULL },
};

static gboolean
read_summaries (TpsReader *in, const TpsFieldPath *path, GPtrArray *summaries, GError **error)
{
  guint32 n_elems;

  if (!tps_field_list_begin (in, path, TPS_WIRE_STRUCT, &n_elems, error))
    return FALSE;
  for (guint32 i = 0; i < n_elems; i++)
    {
      TpsFieldPath at = { .parent = path, .index = i };
      TpsMetricSummary *summary = g_new0 (TpsMetricSummary, 1);

      g_ptr_array_add (summaries, summary);
      summary->stdev_ms = NAN;
      if (!tps_fields_read (in, &at, summary_fields, summary, NULL, error))
        return FALSE;
      summary->variance_ms2 = summary->stdev_ms * summary->stdev_ms;
    }
  return TRUE;
}

gboolean
tps_node_get_metrics_result_decode (TpsReader *in, TpsWireType type, gpointer target,
                                    GError **error)
{
  TpsFieldPath path = { .name = "metrics" };
  GPtrArray *summaries = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_metric_summary_free);

  *(GPtrArray **) target = NULL;
  if (!tps_field_check_type (&path, type, TPS_WIRE_LIST, error)
      || !read_summaries (in, &path, summaries, error))
    {
      g_ptr_array_unref (summaries);
      return FALSE;
    }
  *(GPtrArray **) target = summaries;
  return TRUE;
}

static void
encode_summary (TpsWriter *out, const TpsMetricSummary *summary)
{
  tps_writer_struct_begin (out);
  tps_field_write_string (out, 1, summary->type);
  tps_field_write_string (out, 2, summary->name);
  tps_field_write_i64 (out, 3, summary->count);
  tps_field_write_double (out, 4, summary->min_ms);
  tps_field_write_double (out, 5, summary->max_ms);
  tps_field_write_double (out, 6, summary->mean_ms);
  if (!isnan (summary->stdev_ms))
    tps_field_write_double (out, 7, summary->stdev_ms);
  tps_field_write_double (out, 8, summary->p50_ms);
  tps_field_write_double (out, 9, summary->p95_ms);
  tps_field_write_double (out, 10, summary->p99_ms);
  if (summary->samples_ms != NULL)
    {
      tps_writer_field (out, 11, TPS_WIRE_BINARY);
      tps_writer_binary_borrowed (out, summary->samples_ms, summary->n_samples * sizeof (gdouble));
    }
  tps_writer_struct_end (out);
}

void
tps_node_get_metrics_result_encode (TpsWriter *out, gconstpointer data)
{
  const GPtrArray *summaries = data;

  tps_writer_field (out, 0, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, summaries->len);
  for (guint i = 0; i < summaries->len; i++)
    encode_summary (out, summaries->pdata[i]);
}

static const TpsFieldSpec get_metrics_fields[] = {
  { "with_samples", 1, TPS_WIRE_BOOL, .required = TRUE },
  { NULL },
};

gboolean
tps_node_get_metrics_arguments_decode (TpsReader *in, gboolean *with_samples, GError **error)
{
  return tps_fields_read (in, NULL, get_metrics_fields, with_samples, NULL, error);
}

void
tps_node_get_metrics_arguments_encode (TpsWriter *out, gconstpointer with_samples)
{
  tps_writer_field (out, 1, TPS_WIRE_BOOL);
  tps_writer_bool (out, *(const gboolean *) with_samples);
}

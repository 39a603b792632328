/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/node_service.h"

#include <math.h>

#include "plugin/service/arguments.h"
#include "runtime/error.h"
#include "runtime/version.h"

/* ---- describe ------------------------------------------------------------------------------- */

static void
write_names (TpsWriter *out, gint16 id, const gchar *const *names)
{
  if (names == NULL)
    return;
  tps_writer_field (out, id, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_BINARY, g_strv_length ((gchar **) (gsize) names));
  for (; *names != NULL; names++)
    tps_writer_string (out, *names);
}

static void
write_node_info (TpsWriter *out, gconstpointer data)
{
  const TpsNode *node = data;

  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_string (out, node->name);
  tps_writer_field (out, 2, TPS_WIRE_BINARY);
  tps_writer_string (out, TPS_VERSION);
  if (node->max_frame_bytes > 0)
    {
      tps_writer_field (out, 3, TPS_WIRE_I64);
      tps_writer_i64 (out, node->max_frame_bytes);
    }
  write_names (out, 4, node->services);
  write_names (out, 5, node->devices);
  tps_writer_struct_end (out);
}

static void
handle_describe (TpsCall *call, gpointer service)
{
  tps_call_reply (call, write_node_info, service);
}

/* ---- get_metrics ---------------------------------------------------------------------------- */

static void
write_double_field (TpsWriter *out, gint16 id, gdouble value)
{
  tps_writer_field (out, id, TPS_WIRE_DOUBLE);
  tps_writer_double (out, value);
}

static void
write_samples (TpsWriter *out, const TpsMetricSummary *summary)
{
  G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);
  tps_writer_field (out, 11, TPS_WIRE_BINARY);
  tps_writer_binary (out, summary->samples_ms, summary->n_samples * sizeof (gdouble));
}

static void
write_summary (TpsWriter *out, const TpsMetricSummary *summary)
{
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_string (out, summary->type);
  tps_writer_field (out, 2, TPS_WIRE_BINARY);
  tps_writer_string (out, summary->name);
  tps_writer_field (out, 3, TPS_WIRE_I64);
  tps_writer_i64 (out, summary->count);
  write_double_field (out, 4, summary->min_ms);
  write_double_field (out, 5, summary->max_ms);
  write_double_field (out, 6, summary->mean_ms);
  if (summary->count >= 2)
    write_double_field (out, 7, summary->stdev_ms);
  write_double_field (out, 8, summary->p50_ms);
  write_double_field (out, 9, summary->p95_ms);
  write_double_field (out, 10, summary->p99_ms);
  if (summary->samples_ms != NULL)
    write_samples (out, summary);
  tps_writer_struct_end (out);
}

static void
write_summaries (TpsWriter *out, gconstpointer data)
{
  const GPtrArray *summaries = data;

  tps_writer_field (out, 0, TPS_WIRE_LIST);
  tps_writer_list_begin (out, TPS_WIRE_STRUCT, summaries->len);
  for (guint i = 0; i < summaries->len; i++)
    write_summary (out, g_ptr_array_index (summaries, i));
}

static gboolean
read_with_samples (TpsCall *call, gboolean *with_samples, GError **error)
{
  static const gchar *const names[] = { "with_samples", NULL };
  TpsReader in;
  TpsWireType type;
  gint16 id;
  guint seen = 0;

  tps_call_get_arguments (call, &in);
  tps_reader_struct_begin (&in);
  while (tps_reader_field (&in, &id, &type))
    if (id == 1 && type == TPS_WIRE_BOOL)
      {
        *with_samples = tps_reader_bool (&in);
        seen |= 1;
      }
    else
      tps_reader_skip (&in, type);
  tps_reader_struct_end (&in);
  return tps_arguments_check (seen, names, error);
}

static void
handle_get_metrics (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;
  g_autoptr (GPtrArray) summaries = NULL;
  g_autoptr (GError) error = NULL;
  gboolean with_samples = FALSE;

  if (!read_with_samples (call, &with_samples, &error))
    {
      tps_call_reply_error (call, error);
      return;
    }
  summaries = node->metrics != NULL ? tps_metrics_summarize (node->metrics, with_samples)
                                    : g_ptr_array_new ();
  tps_call_reply (call, write_summaries, summaries);
}

static void
handle_clear_metrics (TpsCall *call, gpointer service)
{
  const TpsNode *node = service;

  if (node->metrics != NULL)
    tps_metrics_clear (node->metrics);
  tps_call_reply (call, NULL, NULL);
}

/* ---- the table ------------------------------------------------------------------------------ */

static const TpsMethod methods[] = {
  { "describe", handle_describe, FALSE },
  { "get_metrics", handle_get_metrics, TRUE }, /* sorts up to 65,536 samples of every metric */
  { "clear_metrics", handle_clear_metrics, FALSE },
  { NULL },
};

TpsService
tps_node_service (TpsNode *node)
{
  return (TpsService) { .name = "Node", .methods = methods, .object = node };
}

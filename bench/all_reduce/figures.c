/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/all_reduce/figures.h"

#include "bench/report/percentile.h"

void
tps_all_reduce_row_init (TpsAllReduceRow *row, gsize n_bytes, guint n_calls)
{
  row->n_bytes = n_bytes;
  row->n_calls = n_calls;
  for (guint kind = 0; kind < TPS_ALL_REDUCE_N_KINDS; kind++)
    row->gb_per_s[kind] = g_array_new (FALSE, FALSE, sizeof (gdouble));
}

void
tps_all_reduce_row_clear (TpsAllReduceRow *row)
{
  for (guint kind = 0; kind < TPS_ALL_REDUCE_N_KINDS; kind++)
    g_array_unref (row->gb_per_s[kind]);
}

void
tps_all_reduce_row_add (TpsAllReduceRow *row, TpsAllReduceKind kind, gdouble seconds)
{
  gdouble gb_per_s = (gdouble) row->n_bytes / seconds / 1e9;

  g_array_append_val (row->gb_per_s[kind], gb_per_s);
}

static gdouble
get_median (const TpsAllReduceRow *row, TpsAllReduceKind kind)
{
  return tps_percentile (row->gb_per_s[kind], 50);
}

static gchar *
make_title (const TpsAllReduceRow *row)
{
  if (row->n_bytes >= 1 << 20)
    return g_strdup_printf ("all-reduce %.4g MiB", (gdouble) row->n_bytes / (1 << 20));
  return g_strdup_printf ("all-reduce %.4g KiB", (gdouble) row->n_bytes / (1 << 10));
}

/* -- table -- */

static void
append_ratio (GString *text, const TpsAllReduceRow *row, TpsAllReduceKind other)
{
  if (row->gb_per_s[other]->len == 0)
    g_string_append_printf (text, " %10s", "-");
  else
    g_string_append_printf (text, " %10.3f",
                            get_median (row, TPS_ALL_REDUCE_SHARED) / get_median (row, other));
}

static void
append_row (GString *text, const TpsAllReduceRow *row)
{
  g_autofree gchar *title = make_title (row);
  gdouble ours = get_median (row, TPS_ALL_REDUCE_SHARED);

  g_string_append_printf (text, "%-22s %10.4g", title, (gdouble) row->n_bytes / ours / 1e6);
  for (guint kind = 0; kind < TPS_ALL_REDUCE_N_KINDS; kind++)
    if (row->gb_per_s[kind]->len == 0)
      g_string_append_printf (text, " %10s", "-");
    else
      g_string_append_printf (text, " %10.3f", get_median (row, (TpsAllReduceKind) kind));
  append_ratio (text, row, TPS_ALL_REDUCE_TCP);
  append_ratio (text, row, TPS_ALL_REDUCE_PYTORCH);
  append_ratio (text, row, TPS_ALL_REDUCE_MEMORY);
  g_string_append_c (text, '\n');
}

gchar *
tps_all_reduce_show (const GArray *rows)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%-22s %10s %10s %10s %10s %10s %10s %10s %10s\n", "", "shared",
                          "shared", "tcp", "pytorch", "memory", "of tcp", "of torch", "of memory");
  g_string_append_printf (text, "%-22s %10s %10s %10s %10s %10s\n", "", "ms", "GB/s", "GB/s",
                          "GB/s", "GB/s");
  for (guint i = 0; i < rows->len; i++)
    append_row (text, &g_array_index (rows, TpsAllReduceRow, i));
  return g_string_free (text, FALSE);
}

/* -- JSON -- */

static void
add_figure (TpsBenchSystem *system, const TpsAllReduceRow *row, TpsAllReduceKind kind)
{
  g_autofree gchar *title = make_title (row);
  g_autofree gchar *name = g_strdup_printf ("%s %s", title, tps_all_reduce_kind_name (kind));
  gboolean is_ours = kind == TPS_ALL_REDUCE_SHARED || kind == TPS_ALL_REDUCE_TCP;

  tps_bench_system_add_figure (system, is_ours ? name : title, "GB/s", row->gb_per_s[kind]);
}

static void
add_ratios (const TpsAllReduceRow *row, TpsBenchOutput *output)
{
  g_autofree gchar *title = make_title (row);

  for (guint kind = TPS_ALL_REDUCE_TCP; kind < TPS_ALL_REDUCE_N_KINDS; kind++)
    {
      g_autofree gchar *name = g_strdup_printf ("%s %s / %s", title,
                                                tps_all_reduce_kind_name (TPS_ALL_REDUCE_SHARED),
                                                tps_all_reduce_kind_name ((TpsAllReduceKind) kind));

      if (row->gb_per_s[kind]->len > 0)
        tps_bench_output_add_ratio (output, name, get_median (row, TPS_ALL_REDUCE_SHARED),
                                    get_median (row, (TpsAllReduceKind) kind), "higher");
    }
}

static void
add_peer (const GArray *rows, TpsAllReduceKind kind, const gchar *version, TpsBenchOutput *output)
{
  TpsBenchSystem *peer = tps_bench_output_add_peer (output, tps_all_reduce_kind_name (kind),
                                                    version);

  for (guint i = 0; i < rows->len; i++)
    add_figure (peer, &g_array_index (rows, TpsAllReduceRow, i), kind);
}

void
tps_all_reduce_output (const GArray *rows, const gchar *pytorch, TpsBenchOutput *output)
{
  for (guint i = 0; i < rows->len; i++)
    {
      const TpsAllReduceRow *row = &g_array_index (rows, TpsAllReduceRow, i);

      add_figure (&output->ours, row, TPS_ALL_REDUCE_SHARED);
      add_figure (&output->ours, row, TPS_ALL_REDUCE_TCP);
      add_ratios (row, output);
    }
  add_peer (rows, TPS_ALL_REDUCE_MEMORY, "sums in memory that all threads map", output);
  if (pytorch != NULL)
    add_peer (rows, TPS_ALL_REDUCE_PYTORCH, pytorch, output);
}

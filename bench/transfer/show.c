/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/show.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/report/percentile.h"
#include "runtime/error.h"

#define OURS "thriftps"

static gdouble
median (const GArray *values)
{
  return tps_percentile (values, 50);
}

static const TpsTransferRowResults *
get_row (const TpsTransferFigures *figures, guint i)
{
  return &g_array_index (figures->rows, TpsTransferRowResults, i);
}

static const TpsTransferResult *
get_result (const TpsTransferRowResults *row, guint i)
{
  return &g_array_index (row->results, TpsTransferResult, i);
}

static const TpsTransferCalls *
get_calls (const TpsTransferFigures *figures, guint i)
{
  return &g_array_index (figures->calls, TpsTransferCalls, i);
}

/* -- table -- */

/* A cell for a ratio that there may not be. */
static void
append_ratio (GString *text, gdouble ours, const TpsTransferResult *raw)
{
  if (raw == NULL)
    g_string_append_printf (text, " %7s\n", "-");
  else
    g_string_append_printf (text, " %7.3f\n", ours / median (raw->gb_per_s));
}

static void
append_result (GString *text, const TpsTransferRowResults *row, const TpsTransferResult *result)
{
  g_autofree gchar *title = tps_transfer_result_get_title (row, result);
  gdouble gigabytes = result->n_bytes / 1e9;

  g_string_append_printf (text, "%-24s %-22s %9.4g %9.4g %9.4g %9.4g %10.4g %8.3g %8.3g", title,
                          result->spec->name, tps_percentile (result->ms, 50),
                          tps_percentile (result->ms, 95), tps_percentile (result->ms, 99),
                          median (result->gb_per_s), median (result->calls_per_s),
                          result->client_cpu_s / gigabytes, result->server_cpu_s / gigabytes);
  append_ratio (text, median (result->gb_per_s),
                tps_transfer_row_results_find (row, "raw", result->spec->transport));
}

gchar *
tps_transfer_show_table (const TpsTransferFigures *figures)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%-24s %-22s %9s %9s %9s %9s %10s %8s %8s %7s\n", "", "",
                          "p50 (ms)", "p95 (ms)", "p99 (ms)", "GB/s", "calls/s", "client", "server",
                          "of raw");
  g_string_append_printf (text, "%-24s %-22s %50s %17s\n", "", "", "", "CPU s/GB");
  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0; j < get_row (figures, i)->results->len; j++)
      append_result (text, get_row (figures, i), get_result (get_row (figures, i), j));
  g_string_append_printf (text, "memcpy, one thread: %.3g GB/s\n", figures->memcpy_gb_per_s);
  for (guint i = 0; i < figures->calls->len; i++)
    g_string_append_printf (
        text, "small calls, 8 clients: %-22s %9.4g calls/s, ThriftPS / it %.3f\n",
        get_calls (figures, i)->name, median (get_calls (figures, i)->calls_per_s),
        median (get_calls (figures, 0)->calls_per_s)
            / median (get_calls (figures, i)->calls_per_s));
  return g_string_free (text, FALSE);
}

/* -- JSON -- */

/* The system's entry in the output, ours or a peer's. */
static TpsBenchSystem *
get_system (TpsBenchOutput *output, const gchar *name, const gchar *version)
{
  if (g_str_equal (name, OURS))
    return &output->ours;
  for (guint i = 0; i < output->peers->len; i++)
    if (g_str_equal (g_array_index (output->peers, TpsBenchSystem, i).name, name))
      return &g_array_index (output->peers, TpsBenchSystem, i);
  return tps_bench_output_add_peer (output, name, version);
}

static void
add_result (const TpsTransferRowResults *row, const TpsTransferResult *result,
            TpsBenchOutput *output)
{
  TpsBenchSystem *system = get_system (output, result->spec->name, result->spec->version);
  const TpsTransferResult *ours = tps_transfer_row_results_find (row, OURS,
                                                                 result->spec->transport);
  g_autofree gchar *title = tps_transfer_result_get_title (row, result);
  g_autofree gchar *time = g_strconcat (title, " time", NULL);
  g_autofree gchar *cpu_title = g_strconcat (title, " CPU", NULL);
  g_autoptr (GArray) cpu = g_array_new (FALSE, FALSE, sizeof (gdouble));
  gdouble s_per_gb = (result->client_cpu_s + result->server_cpu_s) / (result->n_bytes / 1e9);

  g_array_append_val (cpu, s_per_gb);
  tps_bench_system_add_figure (system, title, "GB/s", result->gb_per_s);
  tps_bench_system_add_figure (system, time, "ms", result->ms);
  tps_bench_system_add_figure (system, cpu_title, "s/GB", cpu);
  if (ours != NULL && ours != result)
    {
      g_autofree gchar *ratio = g_strdup_printf ("%s / %s", title, result->spec->name);

      tps_bench_output_add_ratio (output, ratio, median (ours->gb_per_s), median (result->gb_per_s),
                                  "higher");
    }
}

static void
add_calls (const TpsTransferFigures *figures, TpsBenchOutput *output)
{
  static const gchar name[] = "small calls, 8 clients";

  for (guint i = 0; i < figures->calls->len; i++)
    {
      const TpsTransferCalls *calls = get_calls (figures, i);
      g_autofree gchar *ratio = g_strdup_printf ("%s / %s", name, calls->name);

      tps_bench_system_add_figure (get_system (output, calls->name, "0.17"), name, "calls/s",
                                   calls->calls_per_s);
      if (i > 0)
        tps_bench_output_add_ratio (output, ratio, median (get_calls (figures, 0)->calls_per_s),
                                    median (calls->calls_per_s), "higher");
    }
}

void
tps_transfer_show_output (const TpsTransferFigures *figures, TpsBenchOutput *output)
{
  g_autofree gchar *copied = g_strdup_printf ("%.4g", figures->memcpy_gb_per_s);

  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0; j < get_row (figures, i)->results->len; j++)
      add_result (get_row (figures, i), get_result (get_row (figures, i), j), output);
  add_calls (figures, output);
  tps_bench_output_add_fact (output, "memcpy_gb_per_s", copied);
}

/* -- plot -- */

/* Calls one by one, of the first row's kind: a push, unless something else was asked for. */
static gboolean
is_plotted (const TpsTransferFigures *figures, const TpsTransferRow *row)
{
  return row->op == get_row (figures, 0)->row.op && row->n_connections == 1
         && row->n_in_flight == 1;
}

/* "thriftps tcp" of every curve; owned elements. */
static GPtrArray *
list_curves (const TpsTransferFigures *figures)
{
  GPtrArray *curves = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0;
         is_plotted (figures, &get_row (figures, i)->row) && j < get_row (figures, i)->results->len;
         j++)
      {
        const TpsTransferSystemSpec *spec = get_result (get_row (figures, i), j)->spec;
        gchar *curve = g_strdup_printf ("%s %s", spec->name, spec->transport);

        if (g_ptr_array_find_with_equal_func (curves, curve, g_str_equal, NULL))
          g_free (curve);
        else
          g_ptr_array_add (curves, curve);
      }
  return curves;
}

static void
write_points (FILE *out, const TpsTransferFigures *figures, const gchar *curve)
{
  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0;
         is_plotted (figures, &get_row (figures, i)->row) && j < get_row (figures, i)->results->len;
         j++)
      {
        const TpsTransferResult *result = get_result (get_row (figures, i), j);
        g_autofree gchar *name = g_strdup_printf ("%s %s", result->spec->name,
                                                  result->spec->transport);

        if (g_str_equal (name, curve))
          fprintf (out, "%" G_GSIZE_FORMAT " %g\n", get_row (figures, i)->row.n_bytes,
                   median (result->gb_per_s));
      }
  fprintf (out, "e\n");
}

static void
write_script (FILE *out, const TpsTransferFigures *figures, const gchar *path)
{
  g_autoptr (GPtrArray) curves = list_curves (figures);

  fprintf (out, "set terminal %s size 900,600\nset output '%s'\n",
           g_str_has_suffix (path, ".svg") ? "svg" : "png", path);
  fprintf (
      out,
      "set logscale xy\nset xlabel 'bytes of a %s'\nset ylabel 'GB/s'\n"
      "set key outside below\nset grid\nset xrange [32:536870912]\nset format x '2^{%%L}'\nset logscale x 2\nplot ",
      tps_transfer_op_name (get_row (figures, 0)->row.op));
  for (guint i = 0; i < curves->len; i++)
    fprintf (out, "%s'-' with linespoints title '%s'", i > 0 ? ", " : "",
             (gchar *) curves->pdata[i]);
  fprintf (out, "\n");
  for (guint i = 0; i < curves->len; i++)
    write_points (out, figures, curves->pdata[i]);
}

gboolean
tps_transfer_show_plot (const TpsTransferFigures *figures, const gchar *path, GError **error)
{
  FILE *gnuplot = popen ("gnuplot", "w");
  gint status = -1;

  if (gnuplot != NULL)
    {
      write_script (gnuplot, figures, path);
      status = pclose (gnuplot);
    }
  if (status == 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "--plot: gnuplot could not make %s (package gnuplot-nox)", path);
  return FALSE;
}

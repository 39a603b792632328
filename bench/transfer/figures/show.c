/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/figures/show.h"

#include "bench/report/percentile.h"

#define OURS "thriftps"
#define SMALL_CALLS "small calls, " G_STRINGIFY (TPS_CALL_LOAD_N_CLIENTS) " clients"

static void
row_clear (gpointer row)
{
  tps_transfer_row_results_clear (row);
}

static void
calls_clear (gpointer calls)
{
  g_array_unref (((TpsTransferCalls *) calls)->calls_per_s);
}

void
tps_transfer_figures_init (TpsTransferFigures *figures)
{
  *figures = (TpsTransferFigures) {
    .rows = g_array_new (FALSE, FALSE, sizeof (TpsTransferRowResults)),
    .calls = g_array_new (FALSE, FALSE, sizeof (TpsTransferCalls)),
  };
  g_array_set_clear_func (figures->rows, row_clear);
  g_array_set_clear_func (figures->calls, calls_clear);
}

void
tps_transfer_figures_clear (TpsTransferFigures *figures)
{
  g_array_unref (figures->rows);
  g_array_unref (figures->calls);
}

const TpsTransferRowResults *
tps_transfer_figures_get (const TpsTransferFigures *figures, guint i)
{
  return &g_array_index (figures->rows, TpsTransferRowResults, i);
}

static gdouble
median (const GArray *values)
{
  return tps_percentile (values, 50);
}

static const TpsTransferCalls *
get_calls (const TpsTransferFigures *figures, guint i)
{
  return &g_array_index (figures->calls, TpsTransferCalls, i);
}

/* -- table -- */

/* A cell for the ratio to a limit, which there may not be. */
static void
append_ratio (GString *text, const TpsTransferRowResults *row, const TpsTransferResult *result,
              const gchar *limit)
{
  const TpsTransferResult *found = tps_transfer_row_results_find (row, limit,
                                                                  result->spec->transport);

  if (found == NULL)
    g_string_append_printf (text, " %7s", "-");
  else
    g_string_append_printf (text, " %7.3f", median (result->gb_per_s) / median (found->gb_per_s));
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
  append_ratio (text, row, result, "raw");
  append_ratio (text, row, result, "memcpy");
  g_string_append_c (text, '\n');
}

static void
append_calls (GString *text, const TpsTransferFigures *figures)
{
  for (guint i = 0; i < figures->calls->len; i++)
    {
      const TpsTransferCalls *calls = get_calls (figures, i);

      g_string_append_printf (text, SMALL_CALLS ": %-22s %9.4g calls/s, ThriftPS / it %.3f\n",
                              calls->name, median (calls->calls_per_s),
                              median (get_calls (figures, 0)->calls_per_s)
                                  / median (calls->calls_per_s));
    }
}

static void
append_idle (GString *text, const TpsTransferIdle *idle)
{
  gdouble beside = median (idle->beside), alone = median (idle->alone);

  g_string_append_printf (text,
                          SMALL_CALLS " beside %u idle connections: %.4g calls/s, alone %.4g, "
                                      "ratio %.3f\n"
                                      "%u idle connections: %.4g MB of the server's memory, "
                                      "%.3g KB each\n",
                          idle->n_idle, beside, alone, beside / alone, idle->n_idle,
                          idle->bytes / 1e6, idle->bytes / 1e3 / idle->n_idle);
}

gchar *
tps_transfer_show_table (const TpsTransferFigures *figures)
{
  GString *text = g_string_new (NULL);

  g_string_append_printf (text, "%-24s %-22s %9s %9s %9s %9s %10s %8s %8s %7s %7s\n", "", "",
                          "p50 (ms)", "p95 (ms)", "p99 (ms)", "GB/s", "calls/s", "client", "server",
                          "of raw", "memcpy");
  g_string_append_printf (text, "%-24s %-22s %50s %17s\n", "", "", "", "CPU s/GB");
  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0; j < tps_transfer_figures_get (figures, i)->results->len; j++)
      append_result (text, tps_transfer_figures_get (figures, i),
                     tps_transfer_row_results_get (tps_transfer_figures_get (figures, i), j));
  append_calls (text, figures);
  if (figures->idle != NULL)
    append_idle (text, figures->idle);
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
add_number (TpsBenchSystem *system, const gchar *name, const gchar *unit, gdouble value)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gdouble));

  g_array_append_val (samples, value);
  tps_bench_system_add_figure (system, name, unit, samples);
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
  g_autofree gchar *calls = g_strconcat (title, " calls", NULL);
  g_autofree gchar *client_cpu = g_strconcat (title, " client CPU", NULL);
  g_autofree gchar *server_cpu = g_strconcat (title, " server CPU", NULL);
  gdouble gigabytes = result->n_bytes / 1e9;

  tps_bench_system_add_figure (system, title, "GB/s", result->gb_per_s);
  tps_bench_system_add_figure (system, time, "ms", result->ms);
  tps_bench_system_add_figure (system, calls, "calls/s", result->calls_per_s);
  add_number (system, client_cpu, "s/GB", result->client_cpu_s / gigabytes);
  add_number (system, server_cpu, "s/GB", result->server_cpu_s / gigabytes);
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
  static const gchar name[] = SMALL_CALLS;

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

static void
add_idle (const TpsTransferIdle *idle, TpsBenchOutput *output)
{
  g_autofree gchar *alone = g_strdup_printf (SMALL_CALLS ", 0 idle");
  g_autofree gchar *beside = g_strdup_printf (SMALL_CALLS ", %u idle", idle->n_idle);
  g_autofree gchar *all = g_strdup_printf ("%u idle connections, memory", idle->n_idle);
  g_autofree gchar *each = g_strdup_printf ("%u idle connections, memory of each", idle->n_idle);
  g_autofree gchar *ratio = g_strconcat (beside, " / 0 idle", NULL);

  tps_bench_system_add_figure (&output->ours, alone, "calls/s", idle->alone);
  tps_bench_system_add_figure (&output->ours, beside, "calls/s", idle->beside);
  add_number (&output->ours, all, "MB", idle->bytes / 1e6);
  add_number (&output->ours, each, "KB", idle->bytes / 1e3 / idle->n_idle);
  tps_bench_output_add_ratio (output, ratio, median (idle->beside), median (idle->alone), "higher");
}

void
tps_transfer_show_output (const TpsTransferFigures *figures, TpsBenchOutput *output)
{
  for (guint i = 0; i < figures->rows->len; i++)
    for (guint j = 0; j < tps_transfer_figures_get (figures, i)->results->len; j++)
      add_result (tps_transfer_figures_get (figures, i),
                  tps_transfer_row_results_get (tps_transfer_figures_get (figures, i), j), output);
  add_calls (figures, output);
  if (figures->idle != NULL)
    add_idle (figures->idle, output);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/transfer/figures/transfer_figures.h"

#include "bench/report/json_output.h"
#include "bench/transfer/calls/calls.h"

#define OURS "thriftps"
#define HANDSHAKES "handshakes tls"
#define SMALL_CALLS "small calls, " G_STRINGIFY (TPS_CALL_LOAD_N_CLIENTS) " clients"

static const TpsQuantity rate = { "", "GB/s" }, time_of_calls = { " time", "ms" },
                         calls = { " calls", "calls/s" }, client_cpu = { " client CPU", "s/GB" },
                         server_cpu = { " server CPU", "s/GB" }, small_calls = { "", "calls/s" },
                         handshakes = { "", "handshakes/s" };

static const TpsFigureColumn columns[] = {
  { "p50 (ms)", " time", NULL, 50 },         { "p95 (ms)", " time", NULL, 95 },
  { "p99 (ms)", " time", NULL, 99 },         { "GB/s", NULL, "GB/s", 50 },
  { "calls/s", NULL, "calls/s", 50 },        { "client CPU", " client CPU", NULL, 50 },
  { "server CPU", " server CPU", NULL, 50 }, { NULL, NULL, NULL, 0 },
};

static gchar *
name_ours (G_GNUC_UNUSED const gchar *system, const gchar *row)
{
  return g_strdup (row);
}

static gchar *
label (const gchar *system, const gchar *row)
{
  return g_strdup_printf ("%-23s %s", row, system);
}

const TpsFigureStyle tps_transfer_figure_style = { .name = name_ours,
                                                   .label = label,
                                                   .columns = columns };

void
tps_transfer_figures_add_limits (TpsFigures *figures, const GPtrArray *specs)
{
  for (guint i = 0; i < specs->len; i++)
    {
      const TpsTransferSystemSpec *spec = specs->pdata[i];
      TpsFigureLimit limit = { .name = spec->name, .version = spec->version };

      if (g_str_equal (spec->name, "raw"))
        limit.title = "of raw";
      else if (g_str_equal (spec->name, "memcpy"))
        limit.title = "of memcpy";
      else if (g_str_equal (spec->name, "openssl"))
        limit.title = "of openssl";
      if (!g_str_equal (spec->name, OURS))
        tps_figures_add_limit (figures, &limit);
    }
}

gchar *
tps_transfer_figures_name (const TpsTransferSystemSpec *spec, const TpsTransferRow *row)
{
  g_autofree gchar *title = tps_transfer_row_to_title (row);

  return g_strdup_printf ("%s %s", title, spec->transport);
}

/* Returns the seconds of all calls. If calls are made one by one, this is a multiple of the median:
 * the start and the end of the run do not belong to the calls. */
static gdouble
get_seconds (const TpsTransferRow *row, const TpsTransferTimes *times)
{
  if (row->n_connections == 1 && row->n_in_flight == 1)
    return tps_percentile (times->ms, 50) / 1e3 * row->n_calls;
  return times->seconds;
}

void
tps_transfer_figures_add_run (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                              const TpsTransferRow *row, const TpsTransferTimes *times)
{
  g_autofree gchar *name = tps_transfer_figures_name (spec, row);
  gdouble gigabytes = tps_transfer_row_get_bytes (row) / 1e9;
  gdouble seconds = get_seconds (row, times);

  tps_figures_add (figures, spec->name, name, &rate, gigabytes / seconds);
  tps_figures_add_all (figures, spec->name, name, &time_of_calls, times->ms);
  tps_figures_add (figures, spec->name, name, &calls, row->n_calls / seconds);
  if (spec->has_no_cpu)
    return;
  tps_figures_add (figures, spec->name, name, &client_cpu, times->client_cpu / gigabytes);
  tps_figures_add (figures, spec->name, name, &server_cpu, times->server_cpu / gigabytes);
}

void
tps_transfer_figures_add_calls (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                gdouble calls_per_s)
{
  tps_figures_add (figures, spec->name, SMALL_CALLS, &small_calls, calls_per_s);
}

/* -- handshakes -- */

void
tps_transfer_figures_add_handshakes (TpsFigures *figures, const TpsTransferSystemSpec *spec,
                                     gdouble handshakes_per_s)
{
  tps_figures_add (figures, spec->name, HANDSHAKES, &handshakes, handshakes_per_s);
}

gchar *
tps_transfer_show_handshakes (const TpsFigures *figures, const GPtrArray *specs)
{
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < specs->len; i++)
    {
      const TpsTransferSystemSpec *spec = specs->pdata[i];

      if (g_str_equal (spec->transport, "tls")
          && tps_figures_get_samples (figures, spec->name, HANDSHAKES, &handshakes) != NULL)
        g_string_append_printf (text, HANDSHAKES ", %s: %.4g handshakes/s\n", spec->name,
                                tps_figures_get_median (figures, spec->name, HANDSHAKES));
    }
  return g_string_free (text, FALSE);
}

/* -- idle connections -- */

gchar *
tps_transfer_show_idle (const TpsTransferIdle *idle)
{
  gdouble beside = tps_percentile (idle->beside, 50), alone = tps_percentile (idle->alone, 50);

  return g_strdup_printf (SMALL_CALLS
                          " beside %u idle connections: %.4g calls/s, alone %.4g, ratio %.3f\n"
                          "%u idle connections: %.4g MB of the server's memory, %.3g KB each\n",
                          idle->n_idle, beside, alone, beside / alone, idle->n_idle,
                          idle->bytes / 1e6, idle->bytes / 1e3 / idle->n_idle);
}

static void
add_number (TpsBenchSystem *system, const gchar *name, const gchar *unit, gdouble value)
{
  g_autoptr (GArray) samples = g_array_new (FALSE, FALSE, sizeof (gdouble));

  g_array_append_val (samples, value);
  tps_bench_system_add_figure (system, name, unit, samples);
}

void
tps_transfer_output_idle (const TpsTransferIdle *idle, TpsBenchOutput *output)
{
  g_autofree gchar *beside = g_strdup_printf (SMALL_CALLS ", %u idle", idle->n_idle);
  g_autofree gchar *all = g_strdup_printf ("%u idle connections, memory", idle->n_idle);
  g_autofree gchar *each = g_strdup_printf ("%u idle connections, memory of each", idle->n_idle);
  g_autofree gchar *ratio = g_strconcat (beside, " / 0 idle", NULL);

  tps_bench_system_add_figure (&output->ours, SMALL_CALLS ", 0 idle", "calls/s", idle->alone);
  tps_bench_system_add_figure (&output->ours, beside, "calls/s", idle->beside);
  add_number (&output->ours, all, "MB", idle->bytes / 1e6);
  add_number (&output->ours, each, "KB", idle->bytes / 1e3 / idle->n_idle);
  tps_bench_output_add_ratio (output, ratio, tps_percentile (idle->beside, 50),
                              tps_percentile (idle->alone, 50), "higher");
}

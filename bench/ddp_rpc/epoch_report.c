/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/ddp_rpc/epoch_report.h"

#include <math.h>

#include "bench/report/grid.h"
#include "bench/report/report.h"
#include "bench/world/peer.h"

#define EPOCH "epoch_metric,epoch"

/* -- numbers -- */

static gdouble
sum_of (const GArray *values, guint first, guint n)
{
  gdouble sum = 0;

  for (guint i = first; i < first + n; i++)
    sum += g_array_index (values, gdouble, i);
  return sum;
}

/* Returns the times of the epochs of a trainer, or of all trainers (rank -1), in milliseconds; NULL
 * if no epoch has ended. Borrowed. */
static const GArray *
get_epochs (TpsBenchResults *results, gint rank)
{
  TpsBenchSeries *series = tps_bench_results_find (results, "trainer", rank, EPOCH);

  return series != NULL && series->samples_ms->len > 0 ? series->samples_ms : NULL;
}

static const TpsBenchOutcome *
get_trainer (TpsBenchResults *results, guint i)
{
  return &g_array_index (tps_bench_results_get_outcomes (results), TpsBenchOutcome, i);
}

static guint
count_trainers (TpsBenchResults *results)
{
  return tps_bench_results_get_outcomes (results)->len;
}

/* Returns a trainer's samples per second in a pass, or in all (`pass` -1). NAN without epochs. */
static gdouble
get_rate (TpsBenchResults *results, const TpsBenchOutcome *trainer, gint pass)
{
  const GArray *epochs = get_epochs (results, trainer->rank);
  guint n_passes = trainer->samples->len;
  guint first = pass < 0 ? 0 : (guint) pass;
  guint n = pass < 0 ? n_passes : 1;
  guint epochs_a_pass;
  gdouble samples = 0;

  if (epochs == NULL || n_passes == 0)
    return NAN;
  epochs_a_pass = epochs->len / n_passes;
  for (guint i = first; i < first + n; i++)
    samples += (gdouble) g_array_index (trainer->samples, gint64, i);
  return samples / sum_of (epochs, first * epochs_a_pass, n * epochs_a_pass) * 1e3;
}

static gdouble
get_rate_of_all (TpsBenchResults *results, gint pass)
{
  gdouble rate = 0;

  for (guint i = 0; i < count_trainers (results); i++)
    rate += get_rate (results, get_trainer (results, i), pass);
  return rate;
}

GArray *
tps_epoch_report_list_rates (TpsBenchResults *results)
{
  GArray *rates = g_array_new (FALSE, FALSE, sizeof (gdouble));
  guint n_passes = count_trainers (results) > 0 ? get_trainer (results, 0)->samples->len : 0;

  for (guint pass = 0; pass < n_passes; pass++)
    {
      gdouble rate = get_rate_of_all (results, (gint) pass);

      g_array_append_val (rates, rate);
    }
  return rates;
}

/* -- the report -- */

static const gchar *const rate_headers[] = {
  "", "samples/s", "epoch (ms)", "p50", "p75", "p90", "p95", "p99", "p95/p50", "samples"
};

static void
add_rate_row (TpsGrid *grid, const gchar *name, gdouble rate, const GArray *epochs, gint64 samples)
{
  gdouble p50 = tps_percentile (epochs, 50);
  gdouble p95 = tps_percentile (epochs, 95);
  const gdouble numbers[] = {
    rate,
    sum_of (epochs, 0, epochs->len) / epochs->len,
    p50,
    tps_percentile (epochs, 75),
    tps_percentile (epochs, 90),
    p95,
    tps_percentile (epochs, 99),
    p95 / p50,
    (gdouble) samples,
  };

  G_STATIC_ASSERT (G_N_ELEMENTS (numbers) + 1 == G_N_ELEMENTS (rate_headers));
  tps_grid_add_row (grid, name, numbers);
}

static gint64
count_samples (const TpsBenchOutcome *trainer)
{
  gint64 samples = 0;

  for (guint i = 0; i < trainer->samples->len; i++)
    samples += g_array_index (trainer->samples, gint64, i);
  return samples;
}

gchar *
tps_epoch_report_format_rates (TpsBenchResults *results)
{
  TpsGrid *grid = tps_grid_new (rate_headers, G_N_ELEMENTS (rate_headers));
  gint64 samples = 0;

  for (guint i = 0; i < count_trainers (results); i++)
    {
      const TpsBenchOutcome *trainer = get_trainer (results, i);
      const GArray *epochs = get_epochs (results, trainer->rank);
      g_autofree gchar *name = g_strdup_printf ("Trainer%d", trainer->rank);

      if (epochs != NULL)
        add_rate_row (grid, name, get_rate (results, trainer, -1), epochs, count_samples (trainer));
      samples += count_samples (trainer);
    }
  if (get_epochs (results, -1) != NULL)
    add_rate_row (grid, "All", get_rate_of_all (results, -1), get_epochs (results, -1), samples);
  return tps_grid_free_to_string (grid);
}

/* -- comparison with peers -- */

typedef struct
{
  gdouble rate;
  gdouble p50_ms;
} Medians;

static Medians
get_medians (TpsBenchResults *results)
{
  g_autoptr (GArray) rates = tps_epoch_report_list_rates (results);
  TpsBenchSeries *series = tps_bench_results_find (results, "trainer", -1, EPOCH);

  return (Medians) {
    .rate = rates->len > 0 ? tps_percentile (rates, 50) : NAN,
    .p50_ms = series != NULL ? tps_bench_series_get_median (series) : NAN,
  };
}

gchar *
tps_epoch_report_format_ratios (TpsBenchResults *ours, GPtrArray *peers)
{
  static const gchar *const headers[] = { "all trainers", "ThriftPS", "peer", "ratio" };
  TpsGrid *grid = tps_grid_new (headers, G_N_ELEMENTS (headers));
  Medians mine = get_medians (ours);

  for (guint i = 0; i < peers->len; i++)
    {
      TpsPeer *peer = peers->pdata[i];
      Medians theirs = get_medians (peer->results);
      const gdouble rates[] = { mine.rate, theirs.rate, mine.rate / theirs.rate };
      const gdouble times[] = { mine.p50_ms, theirs.p50_ms, mine.p50_ms / theirs.p50_ms };
      g_autofree gchar *rate = g_strdup_printf ("samples/s, %s %s", peer->kind->title,
                                                peer->version);
      g_autofree gchar *time = g_strdup_printf ("epoch p50 (ms), %s", peer->kind->title);

      tps_grid_add_row (grid, rate, rates);
      tps_grid_add_row (grid, time, times);
    }
  return tps_grid_free_to_string (grid);
}

/* -- JSON -- */

static void
add_figures (TpsBenchResults *results, TpsBenchSystem *system)
{
  TpsBenchSeries *epochs = tps_bench_results_find (results, "trainer", -1, EPOCH);
  g_autoptr (GArray) rates = tps_epoch_report_list_rates (results);

  if (epochs != NULL)
    tps_bench_system_add_figure (system, "epoch", "ms", epochs->samples_ms);
  if (rates->len > 0)
    tps_bench_system_add_figure (system, "samples/s", "1/s", rates);
  tps_bench_report_add_figures (results, system);
}

void
tps_epoch_report_add_output (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output)
{
  Medians mine = get_medians (ours);

  add_figures (ours, &output->ours);
  tps_bench_report_add_outcome (ours, output);
  for (guint i = 0; i < peers->len; i++)
    {
      TpsPeer *peer = peers->pdata[i];
      Medians theirs = get_medians (peer->results);
      g_autofree gchar *rate = g_strdup_printf ("samples/s / %s", peer->kind->name);
      g_autofree gchar *time = g_strdup_printf ("epoch / %s", peer->kind->name);

      add_figures (peer->results,
                   tps_bench_output_add_peer (output, peer->kind->name, peer->version));
      tps_bench_output_add_ratio (output, rate, mine.rate, theirs.rate, "higher");
      tps_bench_output_add_ratio (output, time, mine.p50_ms, theirs.p50_ms, "lower");
    }
}

/* -- tables of growing sizes -- */

#define GIB 1073741824.0
#define USABLE 0.7 /* the fraction of the available memory that tables may use */

static const gint64 sizes[] = { 10000, 100000, 1000000, 4000000 };

void
tps_growth_init (TpsGrowth *growth, gsize bytes_a_row, gsize available_bytes)
{
  GString *skipped = g_string_new (NULL);

  growth->rows = g_array_new (FALSE, FALSE, sizeof (gint64));
  for (guint i = 0; i < G_N_ELEMENTS (sizes); i++)
    {
      gdouble needed = (gdouble) sizes[i] * (gdouble) bytes_a_row / USABLE;

      if (i == 0 || needed <= (gdouble) available_bytes)
        g_array_append_val (growth->rows, sizes[i]);
      else
        g_string_append_printf (
            skipped,
            "%" G_GINT64_FORMAT
            " rows: skipped, %.1f GiB of memory are needed, %.1f GiB are free\n",
            sizes[i], needed / GIB, (gdouble) available_bytes / GIB);
    }
  growth->skipped = g_string_free (skipped, FALSE);
}

void
tps_growth_clear (TpsGrowth *growth)
{
  g_clear_pointer (&growth->rows, g_array_unref);
  g_clear_pointer (&growth->skipped, g_free);
}

/* Returns the times of the epochs of all trainers in a pass. The caller owns the result. */
static GArray *
dup_epochs (TpsBenchResults *results, guint pass, guint n_passes)
{
  TpsBenchSeries *series = tps_bench_results_find (results, "trainer", -1, EPOCH);
  GArray *epochs = g_array_new (FALSE, FALSE, sizeof (gdouble));
  guint n = series != NULL ? series->samples_ms->len / n_passes : 0;

  if (n > 0)
    g_array_append_vals (epochs, &g_array_index (series->samples_ms, gdouble, pass * n), n);
  return epochs;
}

static TpsGrid *
make_grid (const TpsGrowth *growth, TpsBenchResults *results)
{
  static const gchar *const headers[] = { "rows of each table", "samples/s", "epoch p50 (ms)",
                                          "p95" };
  g_autoptr (GArray) rates = tps_epoch_report_list_rates (results);
  TpsGrid *grid = tps_grid_new (headers, G_N_ELEMENTS (headers));

  for (guint pass = 0; pass < MIN (growth->rows->len, rates->len); pass++)
    {
      g_autofree gchar *rows = g_strdup_printf ("%" G_GINT64_FORMAT,
                                                g_array_index (growth->rows, gint64, pass));
      g_autoptr (GArray) epochs = dup_epochs (results, pass, growth->rows->len);
      const gdouble numbers[] = { g_array_index (rates, gdouble, pass), tps_percentile (epochs, 50),
                                  tps_percentile (epochs, 95) };

      tps_grid_add_row (grid, rows, numbers);
    }
  return grid;
}

gchar *
tps_growth_format (const TpsGrowth *growth, TpsBenchResults *results)
{
  g_autofree gchar *table = tps_grid_free_to_string (make_grid (growth, results));

  return g_strconcat (table, growth->skipped, NULL);
}

void
tps_growth_add_output (const TpsGrowth *growth, TpsBenchResults *results, TpsBenchOutput *output)
{
  for (guint pass = 0; pass < growth->rows->len; pass++)
    {
      g_autofree gchar *name = g_strdup_printf ("epoch, %" G_GINT64_FORMAT " rows",
                                                g_array_index (growth->rows, gint64, pass));
      g_autoptr (GArray) epochs = dup_epochs (results, pass, growth->rows->len);

      if (epochs->len > 0)
        tps_bench_system_add_figure (&output->ours, name, "ms", epochs);
    }
  if (growth->skipped[0] != '\0')
    tps_bench_output_add_fact (output, "skipped", growth->skipped);
}

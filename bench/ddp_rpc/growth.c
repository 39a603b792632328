/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/ddp_rpc/growth.h"

#include <string.h>

#include "bench/ddp_rpc/epoch_report.h"
#include "bench/report/grid.h"
#include "bench/report/percentile.h"

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

gsize
tps_growth_get_available_bytes (void)
{
  static const gchar key[] = "MemAvailable:";
  g_autofree gchar *text = NULL;
  const gchar *found;

  if (!g_file_get_contents ("/proc/meminfo", &text, NULL, NULL)
      || (found = strstr (text, key)) == NULL)
    return G_MAXSIZE;
  return (gsize) g_ascii_strtoull (found + sizeof key - 1, NULL, 10) * 1024;
}

/* Returns the times of the epochs of all trainers in one pass, which may be none. The caller owns
 * the result. */
static GArray *
dup_epochs (TpsBenchResults *results, guint pass, guint n_passes)
{
  TpsBenchSeries *series = tps_bench_results_find (results, "trainer", -1, "epoch_metric,epoch");
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

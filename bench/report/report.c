/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/report/report.h"

#include <math.h>

#include "bench/report/grid.h"
#include "runtime/base/error.h"

struct TpsBenchResults
{
  GPtrArray *series; /* of TpsBenchSeries */
  GPtrArray *roles;  /* of Role */
  GArray *outcomes;  /* of TpsBenchOutcome */
};

/* A role that took part in a pass, even if it has no metrics. */
typedef struct
{
  gchar *kind;
  gint rank;
} Role;

static void
series_free (gpointer data)
{
  TpsBenchSeries *series = data;

  g_free (series->kind);
  g_free (series->name);
  g_array_unref (series->samples_ms);
  g_array_unref (series->pass_p50_ms);
  g_free (series);
}

static void
role_free (gpointer data)
{
  Role *role = data;

  g_free (role->kind);
  g_free (role);
}

static void
outcome_clear (gpointer data)
{
  TpsBenchOutcome *outcome = data;

  g_array_unref (outcome->losses);
  g_array_unref (outcome->samples);
  g_free (outcome->digest);
}

TpsBenchResults *
tps_bench_results_new (void)
{
  TpsBenchResults *results = g_new0 (TpsBenchResults, 1);

  results->series = g_ptr_array_new_with_free_func (series_free);
  results->roles = g_ptr_array_new_with_free_func (role_free);
  results->outcomes = g_array_new (FALSE, FALSE, sizeof (TpsBenchOutcome));
  g_array_set_clear_func (results->outcomes, outcome_clear);
  return results;
}

void
tps_bench_results_free (TpsBenchResults *results)
{
  g_ptr_array_unref (results->series);
  g_ptr_array_unref (results->roles);
  g_array_unref (results->outcomes);
  g_free (results);
}

TpsBenchSeries *
tps_bench_results_find (TpsBenchResults *results, const gchar *kind, gint rank, const gchar *name)
{
  for (guint i = 0; i < results->series->len; i++)
    {
      TpsBenchSeries *series = results->series->pdata[i];

      if (series->rank == rank && g_str_equal (series->kind, kind)
          && g_str_equal (series->name, name))
        return series;
    }
  return NULL;
}

static TpsBenchSeries *
find_or_add (TpsBenchResults *results, const gchar *kind, gint rank, const gchar *name)
{
  TpsBenchSeries *series = tps_bench_results_find (results, kind, rank, name);

  if (series != NULL)
    return series;
  series = g_new0 (TpsBenchSeries, 1);
  series->kind = g_strdup (kind);
  series->rank = rank;
  series->name = g_strdup (name);
  series->samples_ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  series->pass_p50_ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  g_ptr_array_add (results->series, series);
  return series;
}

static gdouble
median (const gdouble *values, guint n)
{
  g_autoptr (GArray) array = g_array_new (FALSE, FALSE, sizeof (gdouble));

  g_array_append_vals (array, values, n);
  return tps_percentile (array, 50);
}

void
tps_bench_results_add (TpsBenchResults *results, const gchar *kind, gint rank, const gchar *name,
                       const gdouble *samples_ms, guint n_samples)
{
  if (n_samples == 0)
    return;
  g_array_append_vals (find_or_add (results, kind, rank, name)->samples_ms, samples_ms, n_samples);
  g_array_append_vals (find_or_add (results, kind, -1, name)->samples_ms, samples_ms, n_samples);
}

void
tps_bench_results_add_role (TpsBenchResults *results, const gchar *kind, gint rank)
{
  Role *role;

  for (guint i = 0; i < results->roles->len; i++)
    {
      role = results->roles->pdata[i];
      if (role->rank == rank && g_str_equal (role->kind, kind))
        return;
    }
  role = g_new0 (Role, 1);
  role->kind = g_strdup (kind);
  role->rank = rank;
  g_ptr_array_add (results->roles, role);
}

void
tps_bench_results_end_pass (TpsBenchResults *results)
{
  for (guint i = 0; i < results->series->len; i++)
    {
      TpsBenchSeries *series = results->series->pdata[i];
      const gdouble *samples_ms = (const gdouble *) (const void *) series->samples_ms->data;
      guint n_new = series->samples_ms->len - series->pass_start;
      gdouble p50;

      if (n_new == 0)
        continue;
      p50 = median (samples_ms + series->pass_start, n_new);
      g_array_append_val (series->pass_p50_ms, p50);
      series->pass_start = series->samples_ms->len;
    }
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  return g_strcmp0 ((*(TpsBenchSeries *const *) a)->name, (*(TpsBenchSeries *const *) b)->name);
}

GPtrArray *
tps_bench_results_get_series (TpsBenchResults *results, const gchar *kind, gint rank)
{
  GPtrArray *found = g_ptr_array_new ();

  for (guint i = 0; i < results->series->len; i++)
    {
      TpsBenchSeries *series = results->series->pdata[i];

      if (series->rank == rank && g_str_equal (series->kind, kind))
        g_ptr_array_add (found, series);
    }
  g_ptr_array_sort (found, compare_names);
  return found;
}

static gint
compare_ints (gconstpointer a, gconstpointer b)
{
  return *(const gint *) a - *(const gint *) b;
}

GArray *
tps_bench_results_get_ranks (TpsBenchResults *results, const gchar *kind)
{
  GArray *ranks = g_array_new (FALSE, FALSE, sizeof (gint));

  for (guint i = 0; i < results->roles->len; i++)
    {
      Role *role = results->roles->pdata[i];

      if (g_str_equal (role->kind, kind))
        g_array_append_val (ranks, role->rank);
    }
  g_array_sort (ranks, compare_ints);
  return ranks;
}

static TpsBenchOutcome *
find_or_add_outcome (TpsBenchResults *results, gint rank)
{
  TpsBenchOutcome outcome = { .rank = rank };

  for (guint i = 0; i < results->outcomes->len; i++)
    if (g_array_index (results->outcomes, TpsBenchOutcome, i).rank == rank)
      return &g_array_index (results->outcomes, TpsBenchOutcome, i);
  outcome.losses = g_array_new (FALSE, FALSE, sizeof (gdouble));
  outcome.samples = g_array_new (FALSE, FALSE, sizeof (gint64));
  g_array_append_val (results->outcomes, outcome);
  return &g_array_index (results->outcomes, TpsBenchOutcome, results->outcomes->len - 1);
}

void
tps_bench_results_add_outcome (TpsBenchResults *results, gint rank, gdouble loss,
                               const guint8 *digest)
{
  TpsBenchOutcome *outcome = find_or_add_outcome (results, rank);
  GString *text = digest != NULL ? g_string_new (NULL) : NULL;

  for (guint i = 0; text != NULL && i < 16; i++)
    g_string_append_printf (text, "%02x", digest[i]);
  if (!isnan (loss))
    g_array_append_val (outcome->losses, loss);
  g_free (outcome->digest);
  outcome->digest = text != NULL ? g_string_free (text, FALSE) : NULL;
}

void
tps_bench_results_count_samples (TpsBenchResults *results, gint rank, gint64 samples)
{
  g_array_append_val (find_or_add_outcome (results, rank)->samples, samples);
}

const GArray *
tps_bench_results_get_outcomes (const TpsBenchResults *results)
{
  return results->outcomes;
}

gdouble
tps_bench_series_get_median (const TpsBenchSeries *series)
{
  return median ((const gdouble *) (const void *) series->pass_p50_ms->data,
                 series->pass_p50_ms->len);
}

gchar *
tps_bench_series_get_title (const TpsBenchSeries *series)
{
  if (series->rank < 0)
    return g_strdup_printf ("all %s/%s", series->kind, series->name);
  return g_strdup_printf ("%s=%d/%s", series->kind, series->rank, series->name);
}

#define N_NUMBERS 8

static const gchar *const kinds[] = { "trainer", "server" };

static const gchar *const headers[] = { "name",      "min (ms)",        "max (ms)",
                                        "mean (ms)", "variance (ms^2)", "stdev (ms)",
                                        "p50 (ms)",  "p95 (ms)",        "p99 (ms)" };

static void
summarize (const TpsBenchSeries *series, gdouble *numbers)
{
  g_autoptr (TpsMetricSummary) summary = tps_metric_summary_new (
      "", series->name, (const gdouble *) (const void *) series->samples_ms->data,
      series->samples_ms->len);
  const gdouble values[N_NUMBERS] = { summary->min_ms,       summary->max_ms,   summary->mean_ms,
                                      summary->variance_ms2, summary->stdev_ms, summary->p50_ms,
                                      summary->p95_ms,       summary->p99_ms };

  for (guint i = 0; i < N_NUMBERS; i++)
    numbers[i] = values[i];
}

static void
append_table (GString *text, TpsBenchResults *results, const gchar *kind, gint rank)
{
  g_autoptr (GPtrArray) rows = tps_bench_results_get_series (results, kind, rank);
  TpsGrid *grid = tps_grid_new (headers, G_N_ELEMENTS (headers));
  g_autofree gchar *table = NULL;

  for (guint i = 0; i < rows->len; i++)
    {
      gdouble numbers[N_NUMBERS];

      summarize (rows->pdata[i], numbers);
      tps_grid_add_row (grid, ((TpsBenchSeries *) rows->pdata[i])->name, numbers);
    }
  table = tps_grid_free_to_string (grid);
  g_string_append (text, table);
}

gchar *
tps_bench_report_format (TpsBenchResults *results, const gchar *kind)
{
  g_autoptr (GArray) ranks = tps_bench_results_get_ranks (results, kind);
  GString *text = g_string_new (NULL);

  for (guint i = 0; i < ranks->len; i++)
    {
      g_string_append_printf (text, "metrics for %s=%d\n", kind, g_array_index (ranks, gint, i));
      append_table (text, results, kind, g_array_index (ranks, gint, i));
    }
  if (ranks->len > 0)
    {
      g_string_append_printf (text, "metrics for all %s\n", kind);
      append_table (text, results, kind, -1);
    }
  return g_string_free (text, FALSE);
}

gchar *
tps_bench_report_format_ratios (TpsBenchResults *ours, TpsBenchResults *peer,
                                const gchar *peer_name)
{
  g_autofree gchar *peer_header = g_strdup_printf ("%s (ms)", peer_name);
  const gchar *const columns[] = { "p50, median of the passes", "ThriftPS (ms)", peer_header,
                                   "ratio" };
  TpsGrid *grid = tps_grid_new (columns, G_N_ELEMENTS (columns));

  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autoptr (GPtrArray) rows = tps_bench_results_get_series (ours, kinds[k], -1);

      for (guint i = 0; i < rows->len; i++)
        {
          TpsBenchSeries *mine = rows->pdata[i];
          TpsBenchSeries *theirs = tps_bench_results_find (peer, kinds[k], -1, mine->name);
          g_autofree gchar *title = tps_bench_series_get_title (mine);
          gdouble numbers[3] = { tps_bench_series_get_median (mine), NAN, NAN };

          if (theirs != NULL)
            {
              numbers[1] = tps_bench_series_get_median (theirs);
              numbers[2] = numbers[0] / numbers[1];
            }
          tps_grid_add_row (grid, title, numbers);
        }
    }
  return tps_grid_free_to_string (grid);
}

static void
add_figures_of (TpsBenchResults *results, const gchar *kind, gint rank, TpsBenchSystem *system)
{
  g_autoptr (GPtrArray) rows = tps_bench_results_get_series (results, kind, rank);

  for (guint i = 0; i < rows->len; i++)
    {
      TpsBenchSeries *series = rows->pdata[i];
      g_autofree gchar *title = tps_bench_series_get_title (series);

      tps_bench_system_add_figure (system, title, "ms", series->samples_ms);
    }
}

void
tps_bench_report_add_figures (TpsBenchResults *results, TpsBenchSystem *system)
{
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autoptr (GArray) ranks = tps_bench_results_get_ranks (results, kinds[k]);

      for (guint i = 0; i < ranks->len; i++)
        add_figures_of (results, kinds[k], g_array_index (ranks, gint, i), system);
      add_figures_of (results, kinds[k], -1, system);
    }
}

void
tps_bench_report_add_ratios (TpsBenchResults *ours, TpsBenchResults *peer, TpsBenchOutput *output)
{
  for (guint k = 0; k < G_N_ELEMENTS (kinds); k++)
    {
      g_autoptr (GPtrArray) rows = tps_bench_results_get_series (ours, kinds[k], -1);

      for (guint i = 0; i < rows->len; i++)
        {
          TpsBenchSeries *mine = rows->pdata[i];
          TpsBenchSeries *theirs = tps_bench_results_find (peer, kinds[k], -1, mine->name);
          g_autofree gchar *title = tps_bench_series_get_title (mine);

          if (theirs != NULL)
            tps_bench_output_add_ratio (output, title, tps_bench_series_get_median (mine),
                                        tps_bench_series_get_median (theirs), "lower");
        }
    }
}

static const TpsBenchOutcome *
get_outcome (const TpsBenchResults *results, guint i)
{
  return &g_array_index (tps_bench_results_get_outcomes (results), TpsBenchOutcome, i);
}

static gboolean
all_have_the_same_parameters (const TpsBenchResults *results)
{
  guint n = tps_bench_results_get_outcomes (results)->len;

  for (guint i = 1; i < n; i++)
    if (g_strcmp0 (get_outcome (results, 0)->digest, get_outcome (results, i)->digest) != 0)
      return FALSE;
  return TRUE;
}

static void
append_loss (GString *text, const TpsBenchOutcome *outcome)
{
  if (outcome->losses->len == 0)
    g_string_append_printf (text, "trainer%d -", outcome->rank);
  else
    g_string_append_printf (text, "trainer%d %.6g", outcome->rank,
                            g_array_index (outcome->losses, gdouble, outcome->losses->len - 1));
}

gchar *
tps_bench_report_format_outcome (const TpsBenchResults *results)
{
  guint n = tps_bench_results_get_outcomes (results)->len;
  gboolean same = all_have_the_same_parameters (results);
  GString *text = g_string_new (NULL);

  if (n == 0)
    return g_string_free (text, FALSE);
  g_string_append (text, "loss of the last step: ");
  for (guint i = 0; i < n; i++)
    {
      append_loss (text, get_outcome (results, i));
      g_string_append (text, i + 1 < n ? ", " : "\n");
    }
  g_string_append (text, "parameters (xxh3-128): ");
  for (guint i = 0; i < n && !same; i++)
    g_string_append_printf (text, "%strainer%d %s", i > 0 ? ", " : "",
                            get_outcome (results, i)->rank, get_outcome (results, i)->digest);
  if (same)
    g_string_append_printf (text, "%s, the same on all trainers", get_outcome (results, 0)->digest);
  g_string_append_c (text, '\n');
  return g_string_free (text, FALSE);
}

void
tps_bench_report_add_outcome (const TpsBenchResults *results, TpsBenchOutput *output)
{
  for (guint i = 0; i < tps_bench_results_get_outcomes (results)->len; i++)
    {
      const TpsBenchOutcome *outcome = get_outcome (results, i);
      g_autofree gchar *loss = g_strdup_printf ("trainer=%d/loss", outcome->rank);
      g_autofree gchar *digest = g_strdup_printf ("trainer=%d/parameters_xxh3_128", outcome->rank);

      if (outcome->losses->len > 0)
        tps_bench_system_add_figure (&output->ours, loss, "1", outcome->losses);
      if (outcome->digest != NULL)
        tps_bench_output_add_fact (output, digest, outcome->digest);
    }
}

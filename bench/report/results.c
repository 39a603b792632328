/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/report/results.h"

#include <math.h>

#include "bench/report/percentile.h"

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

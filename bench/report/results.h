/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The measurements of the passes: samples by role, rank and metric. */

#pragma once

#include "runtime/base/metrics.h"

G_BEGIN_DECLS

/* The samples of one metric of one role. */
typedef struct
{
  gchar *kind;         /* "trainer", "server" */
  gint rank;           /* -1 = all roles of that kind */
  gchar *name;         /* "type,name" */
  GArray *samples_ms;  /* of gdouble, all passes */
  GArray *pass_p50_ms; /* of gdouble, one per finished pass */
  guint pass_start;    /* index of the running pass's first sample */
} TpsBenchSeries;

typedef struct TpsBenchResults TpsBenchResults;

TpsBenchResults *tps_bench_results_new (void);
void tps_bench_results_free (TpsBenchResults *results);

/* Adds one pass of one role, also to the series of all roles of its kind. Roles without metrics are
 * recorded too. */
void tps_bench_results_add (TpsBenchResults *results, const gchar *kind, gint rank,
                            const gchar *name, const gdouble *samples_ms, guint n_samples);
void tps_bench_results_add_role (TpsBenchResults *results, const gchar *kind, gint rank);

/* Must be called once after each pass, when all roles have been added. */
void tps_bench_results_end_pass (TpsBenchResults *results);

/* Returns all series of a role in the order of their names: borrowed elements in an array owned by
 * the caller. */
GPtrArray *tps_bench_results_get_series (TpsBenchResults *results, const gchar *kind, gint rank);

/* Returns the ranks of a kind, ascending, in an array of gint owned by the caller. */
GArray *tps_bench_results_get_ranks (TpsBenchResults *results, const gchar *kind);

/* Returns NULL if there is no such series. Borrowed. */
TpsBenchSeries *tps_bench_results_find (TpsBenchResults *results, const gchar *kind, gint rank,
                                        const gchar *name);

/* The outcome of one trainer. */
typedef struct
{
  gint rank;
  GArray *losses;  /* of gdouble, of each pass's last step; empty without batches */
  gchar *digest;   /* of the parameters after the last pass, XXH3-128 as hex; NULL = not reported */
  GArray *samples; /* of gint64, one per pass; empty if not counted */
  gint64 epoch_samples; /* of the last epoch of the last pass */
} TpsBenchOutcome;

/* Must be called once per pass. `loss` is NAN if there is none; `digest` is 16 bytes or NULL. */
void tps_bench_results_add_outcome (TpsBenchResults *results, gint rank, gdouble loss,
                                    const guint8 *digest);

/* Records the number of a trainer's samples in a pass and in its last epoch. */
void tps_bench_results_count_samples (TpsBenchResults *results, gint rank, gint64 samples,
                                      gint64 epoch_samples);

/* Returns an array of TpsBenchOutcome in the order of the trainers' first results; borrowed. */
const GArray *tps_bench_results_get_outcomes (const TpsBenchResults *results);

/* Returns the median of the passes' medians. */
gdouble tps_bench_series_get_median (const TpsBenchSeries *series);

/* Returns "trainer=0/type,name" or "all trainer/type,name"; owned by the caller. */
gchar *tps_bench_series_get_title (const TpsBenchSeries *series);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBenchResults, tps_bench_results_free)

G_END_DECLS

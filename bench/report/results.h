/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the passes measured: samples by role, rank and metric. */

#pragma once

#include "runtime/base/metrics.h"

G_BEGIN_DECLS

/* One metric of one role. */
typedef struct
{
  gchar *kind;         /* "trainer", "server" */
  gint rank;           /* -1 = all of that kind */
  gchar *name;         /* "type,name" */
  GArray *samples_ms;  /* of gdouble, all passes */
  GArray *pass_p50_ms; /* of gdouble, one a finished pass */
  guint pass_start;    /* where in the samples the running pass begins */
} TpsBenchSeries;

typedef struct TpsBenchResults TpsBenchResults;

TpsBenchResults *tps_bench_results_new (void);
void tps_bench_results_free (TpsBenchResults *results);

/* Adds one pass of one role; also to the series of all roles of the kind. A role without metrics is
 * remembered too. */
void tps_bench_results_add (TpsBenchResults *results, const gchar *kind, gint rank,
                            const gchar *name, const gdouble *samples_ms, guint n_samples);
void tps_bench_results_add_role (TpsBenchResults *results, const gchar *kind, gint rank);

/* Call once after each pass, when all roles have been added. */
void tps_bench_results_end_pass (TpsBenchResults *results);

/* All series of a role in the order of their names; borrowed elements, owned array. */
GPtrArray *tps_bench_results_get_series (TpsBenchResults *results, const gchar *kind, gint rank);

/* Ranks of a kind, ascending; owned array of gint. */
GArray *tps_bench_results_get_ranks (TpsBenchResults *results, const gchar *kind);

/* NULL where there is none. Borrowed. */
TpsBenchSeries *tps_bench_results_find (TpsBenchResults *results, const gchar *kind, gint rank,
                                        const gchar *name);

/* What training came to, of one trainer. */
typedef struct
{
  gint rank;
  GArray *losses;  /* of gdouble, of each pass's last step; empty where there were no batches */
  gchar *digest;   /* of the parameters after the newest pass, XXH3-128 as hex; NULL = not said */
  GArray *samples; /* of gint64, of each pass; empty where they were not counted */
  gint64 epoch_samples; /* of the newest pass's last epoch */
} TpsBenchOutcome;

/* Call once a pass. `loss` NAN: there was none; `digest`: 16 bytes or NULL. */
void tps_bench_results_add_outcome (TpsBenchResults *results, gint rank, gdouble loss,
                                    const guint8 *digest);

/* How many samples a trainer trained with in a pass, and in its last epoch. */
void tps_bench_results_count_samples (TpsBenchResults *results, gint rank, gint64 samples,
                                      gint64 epoch_samples);

/* Of TpsBenchOutcome, in the order in which trainers were first seen; borrowed. */
const GArray *tps_bench_results_get_outcomes (const TpsBenchResults *results);

/* Median of the passes' medians. */
gdouble tps_bench_series_get_median (const TpsBenchSeries *series);

/* "trainer=0/type,name" or "all trainer/type,name"; owned. */
gchar *tps_bench_series_get_title (const TpsBenchSeries *series);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBenchResults, tps_bench_results_free)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The measurements of the passes of roles, and their report: the titles, rows and columns of the
 * originals, with our columns on the right. */

#pragma once

#include "bench/report/json_output.h"
#include "runtime/base/metrics.h"

G_BEGIN_DECLS

/* The samples of one metric of one role. */
typedef struct
{
  gchar *kind;         /* "trainer", "server" */
  gint rank;           /* -1 = all roles of this kind together */
  gchar *name;         /* "type,name" */
  GArray *samples_ms;  /* of gdouble, all passes */
  GArray *pass_p50_ms; /* of gdouble, one per finished pass */
  guint pass_start;    /* index of the first sample of the running pass */
} TpsBenchSeries;

typedef struct TpsBenchResults TpsBenchResults;

/* Creates empty results, owned by the caller, and frees results. */
TpsBenchResults *tps_bench_results_new (void);
void tps_bench_results_free (TpsBenchResults *results);

/* tps_bench_results_add() adds the samples of one metric of one role in a pass, also to the series
 * of all roles of the kind. tps_bench_results_add_role() records a role, which may have no metrics.
 * Strings and samples are copied. */
void tps_bench_results_add (TpsBenchResults *results, const gchar *kind, gint rank,
                            const gchar *name, const gdouble *samples_ms, guint n_samples);
void tps_bench_results_add_role (TpsBenchResults *results, const gchar *kind, gint rank);

/* Ends a pass. Must be called once after each pass, after all roles have been added. */
void tps_bench_results_end_pass (TpsBenchResults *results);

/* Returns all series of a role by name. Elements are borrowed; the caller owns the array. */
GPtrArray *tps_bench_results_get_series (TpsBenchResults *results, const gchar *kind, gint rank);

/* Returns the ranks of a kind in ascending order, an array of gint. The caller owns the result. */
GArray *tps_bench_results_get_ranks (TpsBenchResults *results, const gchar *kind);

/* Returns the series with this role and name; NULL if there is none. Borrowed. */
TpsBenchSeries *tps_bench_results_find (TpsBenchResults *results, const gchar *kind, gint rank,
                                        const gchar *name);

/* The outcome of the training of one trainer. */
typedef struct
{
  gint rank;
  GArray *losses; /* of gdouble, the loss of the last step of each pass; empty without batches */
  /* of the parameters after the last pass (XXH3-128, hexadecimal); NULL = not reported */
  gchar *digest;
  GArray *samples; /* of gint64, the number of samples of each pass; empty if not counted */
} TpsBenchOutcome;

/* Adds the outcome of a trainer. Must be called once per pass. `loss` is NAN if there is none.
 * `digest` has 16 bytes, which are copied; NULL = not reported. */
void tps_bench_results_add_outcome (TpsBenchResults *results, gint rank, gdouble loss,
                                    const guint8 *digest);

/* Records the number of samples of a trainer in a pass. */
void tps_bench_results_count_samples (TpsBenchResults *results, gint rank, gint64 samples);

/* Returns the TpsBenchOutcomes in the order of the first results of the trainers; borrowed. */
const GArray *tps_bench_results_get_outcomes (const TpsBenchResults *results);

/* Returns the median of the medians of the passes, in milliseconds. */
gdouble tps_bench_series_get_median (const TpsBenchSeries *series);

/* Returns "trainer=0/type,name" or "all trainer/type,name". The caller owns the result. */
gchar *tps_bench_series_get_title (const TpsBenchSeries *series);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsBenchResults, tps_bench_results_free)

/* -- the report -- */

/* Formats the tables of each rank of `kind`, and of all ranks together. Returns "" if there is no
 * such role. The caller owns the result. */
gchar *tps_bench_report_format (TpsBenchResults *results, const gchar *kind);

/* Formats our results next to those of the peer. A value is the median over the passes of the
 * median of each pass. The caller owns the result. */
gchar *tps_bench_report_format_ratios (TpsBenchResults *ours, TpsBenchResults *peer,
                                       const gchar *peer_name);

/* Formats the outcome of the training: the losses, and a comparison of the parameters of the
 * trainers. The caller owns the result. */
gchar *tps_bench_report_format_outcome (const TpsBenchResults *results);

/* Adds the losses as figures, and the digests of the parameters as facts. */
void tps_bench_report_add_outcome (const TpsBenchResults *results, TpsBenchOutput *output);

/* Adds all series of all roles as figures in milliseconds. */
void tps_bench_report_add_figures (TpsBenchResults *results, TpsBenchSystem *system);

/* Adds the ratios of tps_bench_report_format_ratios() for rows that have a figure of the peer. */
void tps_bench_report_add_ratios (TpsBenchResults *ours, TpsBenchResults *peer,
                                  TpsBenchOutput *output);

G_END_DECLS

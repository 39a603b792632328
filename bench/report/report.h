/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The text report, with the originals' titles, rows and columns and our additions on the right; and
 * the same as CSV files. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

/* Formats the tables of each rank of `kind`, and of all ranks together; "" if there is no such
 * role. Owned by the caller. */
gchar *tps_bench_report_format (TpsBenchResults *results, const gchar *kind);

/* Formats our results next to the peer's: the median over the passes of each pass's median, and the
 * ratio. Owned by the caller. */
gchar *tps_bench_report_format_ratios (TpsBenchResults *ours, TpsBenchResults *peer,
                                       const gchar *peer_name);

/* Formats the outcome of the training: losses, and a comparison of the trainers' parameters. Owned
 * by the caller. */
gchar *tps_bench_report_format_outcome (const TpsBenchResults *results);

/* Adds losses as figures and digests of the parameters as facts. */
void tps_bench_report_add_outcome (const TpsBenchResults *results, TpsBenchOutput *output);

/* Adds all series of all roles as figures in ms. */
void tps_bench_report_add_figures (TpsBenchResults *results, TpsBenchSystem *system);

/* Adds the ratios of tps_bench_report_format_ratios() for rows with a peer's figure. */
void tps_bench_report_add_ratios (TpsBenchResults *ours, TpsBenchResults *peer,
                                  TpsBenchOutput *output);

/* Writes trainer=0.csv, …, all_trainer.csv, … to `folder`, which is created if necessary. */
gboolean tps_bench_report_write_csv (TpsBenchResults *results, const gchar *folder, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The text report, with the originals' titles, rows and columns and ours at the right; and the same
 * as CSV files. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

/* Tables of all ranks of `kind`, then of all together; nothing where there is no such role.
 * Owned. */
gchar *tps_bench_report_format (TpsBenchResults *results, const gchar *kind);

/* Ours beside the peer's: median over the passes of each pass's median, and the ratio. Owned. */
gchar *tps_bench_report_format_ratios (TpsBenchResults *ours, TpsBenchResults *peer,
                                       const gchar *peer_name);

/* What training came to: the losses, and whose parameters are the same. Owned. */
gchar *tps_bench_report_format_outcome (const TpsBenchResults *results);

/* Losses as figures, digests of the parameters as facts. */
void tps_bench_report_add_outcome (const TpsBenchResults *results, TpsBenchOutput *output);

/* All series of all roles as figures in ms. */
void tps_bench_report_add_figures (TpsBenchResults *results, TpsBenchSystem *system);

/* The rows of tps_bench_report_format_ratios() that have a peer's figure. */
void tps_bench_report_add_ratios (TpsBenchResults *ours, TpsBenchResults *peer,
                                  TpsBenchOutput *output);

/* Writes trainer=0.csv, …, all_trainer.csv, … into `folder`, which is made if need be. */
gboolean tps_bench_report_write_csv (TpsBenchResults *results, const gchar *folder, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The text report: the titles, rows and columns of the originals, with our columns on the right. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

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

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What epochs took, and samples per second: the original's report to the letter, then what it means
 * to say.
 *
 * The original's rates divide the samples of the last epoch by a percentile of all epochs' times.
 * Ours are all samples over all the time that epochs took; those of all trainers are the sum of
 * theirs.
 */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

/* The original's header and rows. Owned. */
gchar *tps_epoch_report_format_original (TpsBenchResults *results);

/* Samples per second, and times in milliseconds up to p99. Owned. */
gchar *tps_epoch_report_format_rates (TpsBenchResults *results);

/* Writes both as original.csv and rates.csv into `folder`. */
gboolean tps_epoch_report_write_csv (TpsBenchResults *results, const gchar *folder, GError **error);

/* Medians of the passes of ours beside those of each peer (TpsPeer). Owned. */
gchar *tps_epoch_report_format_ratios (TpsBenchResults *ours, GPtrArray *peers);

/* Figures "epoch" and "samples/s" of ours and of each peer, everything else that was measured, and
 * ratios. */
void tps_epoch_report_add_output (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output);

/* Samples per second of all trainers, one gdouble a pass; owned. */
GArray *tps_epoch_report_list_rates (TpsBenchResults *results);

G_END_DECLS

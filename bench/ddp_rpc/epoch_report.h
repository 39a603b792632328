/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Times of epochs, and samples per second: first exactly the original's report, then a corrected
 * one.
 *
 * The original's rates divide the samples of the last epoch by a percentile of all epochs' times.
 * Ours are all samples divided by the total time of epochs; the rate of all trainers is the sum of
 * their rates.
 */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

/* Formats the original's header and rows. Owned by the caller. */
gchar *tps_epoch_report_format_original (TpsBenchResults *results);

/* Formats samples per second, and times in milliseconds up to p99. Owned by the caller. */
gchar *tps_epoch_report_format_rates (TpsBenchResults *results);

/* Writes both as original.csv and rates.csv to `folder`. */
gboolean tps_epoch_report_write_csv (TpsBenchResults *results, const gchar *folder, GError **error);

/* Formats medians over the passes, ours next to those of each peer (TpsPeer). Owned by the
 * caller. */
gchar *tps_epoch_report_format_ratios (TpsBenchResults *ours, GPtrArray *peers);

/* Adds the figures "epoch" and "samples/s" of ours and of each peer, all other measurements, and
 * ratios. */
void tps_epoch_report_add_output (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output);

/* Returns the samples per second of all trainers, one gdouble per pass. Owned by the caller. */
GArray *tps_epoch_report_list_rates (TpsBenchResults *results);

G_END_DECLS

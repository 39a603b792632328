/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Times of epochs, and samples per second. The rate of a trainer divides all its samples by the
 * total time of its epochs. The rate of all trainers is the sum of their rates. */

#pragma once

#include "bench/report/report.h"

G_BEGIN_DECLS

/* Formats the samples per second, and the times of epochs in milliseconds with percentiles up to
 * p99. The caller owns the result. */
gchar *tps_epoch_report_format_rates (TpsBenchResults *results);

/* Formats our medians over the passes beside those of each TpsPeer. The caller owns the result. */
gchar *tps_epoch_report_format_ratios (TpsBenchResults *ours, GPtrArray *peers);

/* Adds the figures "epoch" and "samples/s" of all systems, other measurements, and ratios. */
void tps_epoch_report_add_output (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output);

/* Returns the samples per second (gdouble) of all trainers in each pass. The caller owns it. */
GArray *tps_epoch_report_list_rates (TpsBenchResults *results);

/* -- tables of growing sizes, one size for each pass -- */

/* The sizes of a run; owned. */
typedef struct
{
  GArray *rows;   /* of gint64, the sizes that fit into memory */
  gchar *skipped; /* a line with the reason for each size that is left out; "" = none */
} TpsGrowth;

/* Selects the sizes. `bytes_a_row` is the total over all tables. A size that needs more than 0.7 of
 * `available_bytes` is left out, except for the smallest size. */
void tps_growth_init (TpsGrowth *growth, gsize bytes_a_row, gsize available_bytes);
void tps_growth_clear (TpsGrowth *growth);

/* Formats a row for each size: samples/s and times of epochs. The caller owns the result. */
gchar *tps_growth_format (const TpsGrowth *growth, TpsBenchResults *results);

/* Adds a figure "epoch, N rows" for each size, and the sizes that are left out. */
void tps_growth_add_output (const TpsGrowth *growth, TpsBenchResults *results,
                            TpsBenchOutput *output);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsGrowth, tps_growth_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables of growing sizes, one size for each pass. They show how the time depends on the size. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

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

/* Returns the available memory of this machine in bytes, according to the kernel; G_MAXSIZE if
 * unknown. */
gsize tps_growth_get_available_bytes (void);

/* Formats a row for each size: the samples per second and the times of epochs of its pass. The
 * caller owns the result. */
gchar *tps_growth_format (const TpsGrowth *growth, TpsBenchResults *results);

/* Adds a figure "epoch, N rows" for each size, and the sizes that are left out. */
void tps_growth_add_output (const TpsGrowth *growth, TpsBenchResults *results,
                            TpsBenchOutput *output);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsGrowth, tps_growth_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables of growing sizes, one size per pass, to show the effect of the size on the time. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

typedef struct
{
  GArray *rows;   /* of gint64: the sizes that fit into memory */
  gchar *skipped; /* the sizes left out, with the reason; "" = none */
} TpsGrowth;

/* `bytes_a_row` is the total over all tables. A size that needs more than 0.7 of `available_bytes`
 * is left out, except for the smallest. */
void tps_growth_init (TpsGrowth *growth, gsize bytes_a_row, gsize available_bytes);
void tps_growth_clear (TpsGrowth *growth);

/* Returns the available memory of this machine according to its kernel; G_MAXSIZE if unknown. */
gsize tps_growth_get_available_bytes (void);

/* Formats a row for each size: samples per second and epochs of its pass. Owned by the caller. */
gchar *tps_growth_format (const TpsGrowth *growth, TpsBenchResults *results);

/* Writes the same as growth.csv to `folder`. */
gboolean tps_growth_write_csv (const TpsGrowth *growth, TpsBenchResults *results,
                               const gchar *folder, GError **error);

/* Adds the figures "epoch, N rows" and the sizes left out. */
void tps_growth_add_output (const TpsGrowth *growth, TpsBenchResults *results,
                            TpsBenchOutput *output);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsGrowth, tps_growth_clear)

G_END_DECLS

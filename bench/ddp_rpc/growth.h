/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables of growing sizes, one a pass: whether time grows with them. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

typedef struct
{
  GArray *rows;   /* of gint64: sizes that there is memory for */
  gchar *skipped; /* what was left out, and why; "" = nothing */
} TpsGrowth;

/* `bytes_a_row`: of all tables. `available_bytes` of memory are free: a size is left out that needs
 * more than 0.7 of it. At least the smallest stays. */
void tps_growth_init (TpsGrowth *growth, gsize bytes_a_row, gsize available_bytes);
void tps_growth_clear (TpsGrowth *growth);

/* Of this machine, as its kernel says; G_MAXSIZE where it does not. */
gsize tps_growth_get_available_bytes (void);

/* A row for each size: samples per second and epochs of its pass. Owned. */
gchar *tps_growth_format (const TpsGrowth *growth, TpsBenchResults *results);

/* Writes the same as growth.csv into `folder`. */
gboolean tps_growth_write_csv (const TpsGrowth *growth, TpsBenchResults *results,
                               const gchar *folder, GError **error);

/* Figures "epoch, N rows" and what was left out. */
void tps_growth_add_output (const TpsGrowth *growth, TpsBenchResults *results,
                            TpsBenchOutput *output);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsGrowth, tps_growth_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the runs came to, as a table and as JSON. */

#pragma once

#include "bench/all_reduce/system.h"
#include "bench/report/json_output.h"

G_BEGIN_DECLS

/* All runs of one size. */
typedef struct
{
  gsize n_bytes;
  guint n_calls;
  GArray *gb_per_s[TPS_ALL_REDUCE_N_KINDS]; /* of gdouble, one a run */
} TpsAllReduceRow;

void tps_all_reduce_row_init (TpsAllReduceRow *row, gsize n_bytes, guint n_calls);
void tps_all_reduce_row_clear (TpsAllReduceRow *row);

/* One run, of `seconds` a call. GB/s count the bytes of one rank's data. */
void tps_all_reduce_row_add (TpsAllReduceRow *row, TpsAllReduceKind kind, gdouble seconds);

/* `rows`: of TpsAllReduceRow. Owned by the caller. */
gchar *tps_all_reduce_show (const GArray *rows);

/* `pytorch`: its version; NULL = it did not run. */
void tps_all_reduce_output (const GArray *rows, const gchar *pytorch, TpsBenchOutput *output);

G_END_DECLS

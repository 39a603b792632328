/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The transfer benchmark's figures as a table, as JSON and as a plot. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/transfer/result.h"

G_BEGIN_DECLS

/* What calls a second a server does under the same load of small calls (call_load.h). */
typedef struct
{
  const gchar *name;   /* static */
  GArray *calls_per_s; /* of gdouble, one a run */
} TpsTransferCalls;

typedef struct
{
  GArray *rows;            /* of TpsTransferRowResults */
  GArray *calls;           /* of TpsTransferCalls, ours first */
  gdouble memcpy_gb_per_s; /* one thread, 64 MiB */
} TpsTransferFigures;

/* Owned by the caller. */
gchar *tps_transfer_show_table (const TpsTransferFigures *figures);

void tps_transfer_show_output (const TpsTransferFigures *figures, TpsBenchOutput *output);

/* GB/s over bytes of the calls that were made one by one, a curve a system; the format follows the name: .png or .svg. Errors: TPS_ERROR_UNAVAILABLE
 * (gnuplot is missing or fails). */
gboolean tps_transfer_show_plot (const TpsTransferFigures *figures, const gchar *path,
                                 GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The transfer benchmark's figures as a table and as JSON. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/transfer/calls/call_load.h"
#include "bench/transfer/calls/idle.h"
#include "bench/transfer/figures/result.h"

G_BEGIN_DECLS

/* What calls a second a server does under the same load of small calls (call_load.h). */
typedef struct
{
  const gchar *name;   /* static */
  GArray *calls_per_s; /* of gdouble, one a run */
} TpsTransferCalls;

typedef struct
{
  GArray *rows;                /* of TpsTransferRowResults */
  GArray *calls;               /* of TpsTransferCalls, ours first */
  const TpsTransferIdle *idle; /* borrowed; NULL = not measured */
} TpsTransferFigures;

void tps_transfer_figures_init (TpsTransferFigures *figures);
void tps_transfer_figures_clear (TpsTransferFigures *figures);

/* The `i`-th row; borrowed. */
const TpsTransferRowResults *tps_transfer_figures_get (const TpsTransferFigures *figures, guint i);

/* Owned by the caller. */
gchar *tps_transfer_show_table (const TpsTransferFigures *figures);

void tps_transfer_show_output (const TpsTransferFigures *figures, TpsBenchOutput *output);

G_END_DECLS

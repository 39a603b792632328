/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the runs of a row came to on each system. */

#pragma once

#include "bench/transfer/system/system.h"

G_BEGIN_DECLS

/* One row on one system. */
typedef struct
{
  const TpsTransferSystemSpec *spec;
  GArray *ms;           /* of gdouble: every call of every run */
  GArray *gb_per_s;     /* of gdouble: one a run */
  GArray *calls_per_s;  /* one a run */
  gdouble n_bytes;      /* all runs together */
  gdouble client_cpu_s; /* all runs together */
  gdouble server_cpu_s;
} TpsTransferResult;

typedef struct
{
  TpsTransferRow row;
  GArray *results; /* of TpsTransferResult, in the order of the systems that can run it */
} TpsTransferRowResults;

void tps_transfer_row_results_init (TpsTransferRowResults *results, const TpsTransferRow *row);
void tps_transfer_row_results_clear (TpsTransferRowResults *results);

/* Adds a run. Its rate is that of the typical call where calls come one by one, else of the whole run. */
void tps_transfer_row_results_add (TpsTransferRowResults *results,
                                   const TpsTransferSystemSpec *spec,
                                   const TpsTransferTimes *times);

/* The `i`-th; borrowed. */
const TpsTransferResult *tps_transfer_row_results_get (const TpsTransferRowResults *results,
                                                       guint i);

/* NULL where that system did not run it; borrowed. */
const TpsTransferResult *tps_transfer_row_results_find (const TpsTransferRowResults *results,
                                                        const gchar *name, const gchar *transport);

/* "push 16 MiB tcp"; owned by the caller. */
gchar *tps_transfer_result_get_title (const TpsTransferRowResults *results,
                                      const TpsTransferResult *result);

G_END_DECLS

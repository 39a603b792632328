/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A synthetic click log, which is a function of a seed and of the number of a sample. Dense
 * features have an exponential distribution. Labels follow a logistic model of the dense features
 * and of an effect of each id; a model can therefore learn them. */

#pragma once

#include "bench/dlrm/click_batch.h"
#include "bench/zipf/zipf.h"

G_BEGIN_DECLS

/* The parameters of the log. Read-only after the initialisation. */
typedef struct
{
  TpsClickShape shape;
  gint64 seed;
  gboolean is_uniform; /* distribution of ids; FALSE = Zipf */
  TpsZipf zipf[TPS_CLICK_TABLES];
} TpsSyntheticLog;

/* Initialises the log in the caller's storage. `shape` is copied. `exponent` is ignored for uniform
 * ids. */
void tps_synthetic_log_init (TpsSyntheticLog *log, const TpsClickShape *shape, gint64 seed,
                             gboolean is_uniform, gdouble exponent);

/* Fills `batch` with the samples from number `first` on. A permutation spreads the frequent ids of
 * the Zipf distribution over the table. Thread: any. */
void tps_synthetic_log_fill (const TpsSyntheticLog *log, guint64 first, TpsClickBatch *batch);

G_END_DECLS

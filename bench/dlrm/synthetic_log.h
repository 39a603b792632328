/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A synthetic click log, as a function of a seed and of the number of a sample. Dense features have
 * an exponential distribution. Labels follow a logistic model of the dense features and of an
 * effect of each id, so that a model can learn them. */

#pragma once

#include "bench/dlrm/click_batch.h"
#include "bench/zipf/zipf.h"

G_BEGIN_DECLS

typedef struct
{
  TpsClickShape shape;
  gint64 seed;
  gboolean is_uniform; /* ids; otherwise Zipf */
  TpsZipf zipf[TPS_CLICK_TABLES];
} TpsSyntheticLog;

/* Initialises the log in the caller's storage. `exponent` is ignored for uniform ids. */
void tps_synthetic_log_init (TpsSyntheticLog *log, const TpsClickShape *shape, gint64 seed,
                             gboolean is_uniform, gdouble exponent);

/* Fills `batch` with samples first, first + 1, … Frequent ids of the Zipf distribution are spread
 * over the table. Thread: any. */
void tps_synthetic_log_fill (const TpsSyntheticLog *log, guint64 first, TpsClickBatch *batch);

G_END_DECLS

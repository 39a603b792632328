/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Synthetic click logs. */

#pragma once

#include <glib.h>

#include "bench/zipf/zipf.h"

G_BEGIN_DECLS

/* -- click batch -- */

/* Samples in the shape of the public Criteo data: 13 dense features, and ids of 26 tables. */

#define TPS_CLICK_DENSE 13
#define TPS_CLICK_TABLES 26

/* The sizes of the tables, and the numbers of ids of their bags. */
typedef struct
{
  gint64 rows[TPS_CLICK_TABLES];
  gsize bag_length[TPS_CLICK_TABLES];
} TpsClickShape;

/* Initialises the shape. The sizes are the published numbers of values of the Kaggle Display
 * Advertising Challenge, each multiplied by `scale` and rounded up. Bags of the six largest tables
 * have `multi_hot` ids; bags of other tables have one id. */
void tps_click_shape_init (TpsClickShape *shape, gdouble scale, gsize multi_hot);

/* Returns the number of rows of all tables together. */
gint64 tps_click_shape_count_rows (const TpsClickShape *shape);

/* The arrays of `n_samples` samples; owned. */
typedef struct
{
  gsize n_samples;
  gfloat *labels;                /* [n_samples], 0 or 1 */
  gfloat *dense;                 /* [n_samples, TPS_CLICK_DENSE] */
  gint64 *ids[TPS_CLICK_TABLES]; /* [n_samples, bag_length] of each table, in [0, rows) */
} TpsClickBatch;

/* tps_click_batch_init() allocates the arrays for the caller to fill, and _clear() frees them. */
void tps_click_batch_init (TpsClickBatch *batch, const TpsClickShape *shape, gsize n_samples);
void tps_click_batch_clear (TpsClickBatch *batch);

/* -- synthetic log -- */

/* A synthetic click log, which is a function of a seed and of the number of a sample. Dense
 * features have an exponential distribution. Labels follow a logistic model of the dense features
 * and of an effect of each id; a model can therefore learn them. */

/* The parameters of the log. Read-only after the initialisation. */
typedef struct
{
  TpsClickShape shape;
  gint64 seed;
  gboolean is_uniform; /* distribution of ids; FALSE = Zipf */
  TpsZipf zipf[TPS_CLICK_TABLES];
} TpsSyntheticLog;

/* Initialises the log. `shape` is copied. `exponent` is ignored for uniform ids. */
void tps_synthetic_log_init (TpsSyntheticLog *log, const TpsClickShape *shape, gint64 seed,
                             gboolean is_uniform, gdouble exponent);

/* Fills `batch` with the samples from number `first` on. A permutation spreads the frequent ids of
 * the Zipf distribution over the table. Thread: any. */
void tps_synthetic_log_fill (const TpsSyntheticLog *log, guint64 first, TpsClickBatch *batch);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsClickBatch, tps_click_batch_clear)

G_END_DECLS

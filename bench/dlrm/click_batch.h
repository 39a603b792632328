/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Samples of a click log: the shape of the public Criteo data, with 13 dense features and ids of 26
 * tables. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_CLICK_DENSE 13
#define TPS_CLICK_TABLES 26

/* The sizes of the tables, and the numbers of ids of their bags. */
typedef struct
{
  gint64 rows[TPS_CLICK_TABLES];
  gsize bag_length[TPS_CLICK_TABLES];
} TpsClickShape;

/* Initialises the shape with the published numbers of values of the Kaggle Display Advertising
 * Challenge, each multiplied by `scale` and rounded up. The six largest tables have bags of
 * `multi_hot` ids, the others of one id. */
void tps_click_shape_init (TpsClickShape *shape, gdouble scale, gsize multi_hot);

/* Returns the rows of all tables together. */
gint64 tps_click_shape_count_rows (const TpsClickShape *shape);

/* `n_samples` samples. */
typedef struct
{
  gsize n_samples;
  gfloat *labels;                /* [n_samples], 0 or 1 */
  gfloat *dense;                 /* [n_samples, TPS_CLICK_DENSE] */
  gint64 *ids[TPS_CLICK_TABLES]; /* [n_samples, bag_length] of each table, in [0, rows) */
} TpsClickBatch;

/* Allocates the arrays, which the caller must fill and clear. */
void tps_click_batch_init (TpsClickBatch *batch, const TpsClickShape *shape, gsize n_samples);
void tps_click_batch_clear (TpsClickBatch *batch);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsClickBatch, tps_click_batch_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/click_batch.h"

#include <math.h>

#define LARGE_TABLE 250000 /* rows before scaling; six tables have more */

/* From the configuration of the Kaggle model in github.com/facebookresearch/dlrm. */
static const gint64 kaggle_rows[TPS_CLICK_TABLES] = {
  1460, 583,   10131227, 2202608, 305,  24,   12517, 633,     3,  93145, 5683,   8351593, 3194,
  27,   14992, 5461306,  10,      5652, 2173, 4,     7046547, 18, 15,    286181, 105,     142572,
};

void
tps_click_shape_init (TpsClickShape *shape, gdouble scale, gsize multi_hot)
{
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      shape->rows[t] = (gint64) ceil ((gdouble) kaggle_rows[t] * scale);
      shape->bag_length[t] = kaggle_rows[t] > LARGE_TABLE ? multi_hot : 1;
    }
}

gint64
tps_click_shape_count_rows (const TpsClickShape *shape)
{
  gint64 n_rows = 0;

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    n_rows += shape->rows[t];
  return n_rows;
}

void
tps_click_batch_init (TpsClickBatch *batch, const TpsClickShape *shape, gsize n_samples)
{
  batch->n_samples = n_samples;
  batch->labels = g_new (gfloat, n_samples);
  batch->dense = g_new (gfloat, n_samples * TPS_CLICK_DENSE);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    batch->ids[t] = g_new (gint64, n_samples * shape->bag_length[t]);
}

void
tps_click_batch_clear (TpsClickBatch *batch)
{
  g_clear_pointer (&batch->labels, g_free);
  g_clear_pointer (&batch->dense, g_free);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_clear_pointer (&batch->ids[t], g_free);
}

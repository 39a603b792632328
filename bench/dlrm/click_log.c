/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/click_log.h"

#include <math.h>

#include "runtime/embedding/sharding.h"

/* -- click batch -- */

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

/* -- synthetic log -- */

/* The weights of the logistic model. They give a click rate of a quarter, as in Criteo's data. */
#define BIAS (-1.3)
#define DENSE_WEIGHT 0.15
#define ID_WEIGHT 0.6

void
tps_synthetic_log_init (TpsSyntheticLog *log, const TpsClickShape *shape, gint64 seed,
                        gboolean is_uniform, gdouble exponent)
{
  *log = (TpsSyntheticLog) { .shape = *shape, .seed = seed, .is_uniform = is_uniform };
  for (guint t = 0; !is_uniform && t < TPS_CLICK_TABLES; t++)
    tps_zipf_init (&log->zipf[t], shape->rows[t], exponent);
}

static gint64
draw_id (const TpsSyntheticLog *log, guint table, TpsRng *rng)
{
  gint64 rows = log->shape.rows[table];

  if (log->is_uniform)
    return (gint64) tps_rng_next_below (rng, (guint64) rows);
  return tps_shard_permute (tps_zipf_draw (&log->zipf[table], rng), rows);
}

/* Returns a number in [-1, 1) that depends only on the table and the id. The constants are those of
 * a multiplicative hash function. */
static gdouble
get_effect (guint table, gint64 id)
{
  guint64 mixed = ((guint64) id + 1) * G_GUINT64_CONSTANT (0x9E3779B97F4A7C15) + table;

  mixed = (mixed ^ (mixed >> 31)) * G_GUINT64_CONSTANT (0xBF58476D1CE4E5B9);
  return (gdouble) (mixed >> 11) * 0x1p-52 - 1;
}

static gdouble
fill_ids (const TpsSyntheticLog *log, TpsRng *rng, TpsClickBatch *batch, gsize sample)
{
  gdouble score = 0;

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      gsize length = log->shape.bag_length[t];
      gint64 *ids = batch->ids[t] + sample * length;

      for (gsize i = 0; i < length; i++)
        {
          ids[i] = draw_id (log, t, rng);
          score += ID_WEIGHT * get_effect (t, ids[i]) / sqrt ((gdouble) length);
        }
    }
  return score;
}

static gdouble
fill_dense (TpsRng *rng, gfloat *dense)
{
  gdouble score = 0;

  for (guint i = 0; i < TPS_CLICK_DENSE; i++)
    {
      gdouble value = -tps_rng_natural_log (1 - tps_rng_next_double (rng));

      dense[i] = (gfloat) value;
      score += DENSE_WEIGHT * (i % 2 == 0 ? value - 1 : 1 - value);
    }
  return score;
}

void
tps_synthetic_log_fill (const TpsSyntheticLog *log, guint64 first, TpsClickBatch *batch)
{
  for (gsize i = 0; i < batch->n_samples; i++)
    {
      gdouble score = BIAS;
      TpsRng rng;

      tps_rng_init (&rng, log->seed, first + i);
      score += fill_dense (&rng, batch->dense + i * TPS_CLICK_DENSE);
      score += fill_ids (log, &rng, batch, i);
      batch->labels[i] = tps_rng_next_double (&rng) < 1 / (1 + exp (-score)) ? 1 : 0;
    }
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/synthetic_log.h"

#include <math.h>

#include "runtime/embedding/sharding.h"

/* The weights of the logistic model. They give a click rate of about one quarter, as in the data of
 * Criteo. */
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

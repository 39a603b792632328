/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/trained_rows.h"

#include <math.h>

#include "runtime/base/error.h"

/* The relative difference that sums may have, because systems compute in single precision. */
#define TOLERANCE 1e-3

/* The defaults of Adam, in ThriftPS and in PyTorch. */
#define BETA1 0.9
#define BETA2 0.999

struct TpsLookupSamples
{
  const TpsLookupBags *bags;
  gfloat *gradients; /* [n_sets, n_samples, dim] */
  gsize *n_found;    /* [n_sets, n_samples], how often the id occurs in the set */
};

struct TpsLookupTrainedRows
{
  const TpsLookupSamples *samples;
  TpsOptimizerKind optimizer;
  gsize n_steps;
  gdouble *values;  /* [n_samples, dim] */
  gdouble *moments; /* [n_samples, dim], the first moments of Adam */
  gdouble *squares; /* [n_samples, dim]; row-wise Adagrad uses the first element of each row */
};

/* -- gradients -- */

void
tps_lookup_fill_gradients (gfloat *gradients, const TpsLookupShape *shape)
{
  for (gsize bag = 0; bag < shape->n_bags; bag++)
    for (gsize column = 0; column < shape->dim; column++)
      gradients[bag * shape->dim + column] = ((gfloat) ((bag * 13 + column * 5) % 127) - 63) / 256;
}

/* Returns the index of the last sample of each id. The caller owns the table. */
static GHashTable *
index_samples (const TpsLookupBags *bags)
{
  GHashTable *index = g_hash_table_new (g_int64_hash, g_int64_equal);

  for (gsize i = 0; i < bags->n_samples; i++)
    g_hash_table_insert (index, bags->ids + i, GSIZE_TO_POINTER (i));
  return index;
}

static void
add_gradient (TpsLookupSamples *samples, gsize at, const gfloat *gradient)
{
  gsize dim = samples->bags->shape.dim;

  samples->n_found[at]++;
  for (gsize d = 0; d < dim; d++)
    samples->gradients[at * dim + d] += gradient[d];
}

/* Adds the gradients of one set. If an id occurs several times among the samples, its last sample
 * receives the gradients. */
static void
add_set (TpsLookupSamples *samples, GHashTable *index, gsize set, const gfloat *gradients)
{
  const TpsLookupBags *bags = samples->bags;
  const TpsLookupShape *shape = &bags->shape;
  const gint64 *ids = tps_lookup_bags_get_ids (bags, set);
  gpointer sample;

  for (gsize i = 0; i < shape->n_bags * shape->bag_length; i++)
    if (g_hash_table_lookup_extended (index, ids + i, NULL, &sample))
      add_gradient (samples, set * bags->n_samples + GPOINTER_TO_SIZE (sample),
                    gradients + i / shape->bag_length * shape->dim);
}

TpsLookupSamples *
tps_lookup_samples_new (const TpsLookupBags *bags, const gfloat *gradients)
{
  TpsLookupSamples *samples = g_new0 (TpsLookupSamples, 1);
  g_autoptr (GHashTable) index = index_samples (bags);
  gsize n = bags->shape.n_sets * bags->n_samples;

  samples->bags = bags;
  samples->gradients = g_new0 (gfloat, n * bags->shape.dim);
  samples->n_found = g_new0 (gsize, n);
  for (gsize set = 0; set < bags->shape.n_sets; set++)
    add_set (samples, index, set, gradients);
  return samples;
}

void
tps_lookup_samples_free (TpsLookupSamples *samples)
{
  g_free (samples->gradients);
  g_free (samples->n_found);
  g_free (samples);
}

/* -- rows -- */

TpsLookupTrainedRows *
tps_lookup_trained_rows_new (const TpsLookupSamples *samples, TpsOptimizerKind optimizer)
{
  TpsLookupTrainedRows *rows = g_new0 (TpsLookupTrainedRows, 1);
  gsize n = samples->bags->n_samples * samples->bags->shape.dim;

  rows->samples = samples;
  rows->optimizer = optimizer;
  rows->values = g_new0 (gdouble, n);
  rows->moments = g_new0 (gdouble, n);
  rows->squares = g_new0 (gdouble, n);
  return rows;
}

void
tps_lookup_trained_rows_free (TpsLookupTrainedRows *rows)
{
  g_free (rows->values);
  g_free (rows->moments);
  g_free (rows->squares);
  g_free (rows);
}

/* The steps of runtime/device/cpu/optimizer in double precision, for the row whose first element is
 * `at`. */
static void
step_rowwise_adagrad (TpsLookupTrainedRows *rows, gsize at, const gfloat *gradient, gsize dim)
{
  gdouble sum = 0;

  for (gsize d = 0; d < dim; d++)
    sum += (gdouble) gradient[d] * (gdouble) gradient[d];
  rows->squares[at] += sum / (gdouble) dim;
  for (gsize d = 0; d < dim; d++)
    rows->values[at + d] -= TPS_LOOKUP_LEARNING_RATE * (gdouble) gradient[d]
                            / (sqrt (rows->squares[at]) + TPS_LOOKUP_EPSILON);
}

static void
step_adagrad (TpsLookupTrainedRows *rows, gsize at, const gfloat *gradient, gsize dim)
{
  for (gsize d = 0; d < dim; d++)
    {
      gdouble g = (gdouble) gradient[d];

      rows->squares[at + d] += g * g;
      rows->values[at + d] -= TPS_LOOKUP_LEARNING_RATE * g
                              / (sqrt (rows->squares[at + d]) + TPS_LOOKUP_EPSILON);
    }
}

static void
step_adam (TpsLookupTrainedRows *rows, gsize at, const gfloat *gradient, gsize dim)
{
  gdouble n = (gdouble) rows->n_steps;
  gdouble rate = TPS_LOOKUP_LEARNING_RATE / (1 - pow (BETA1, n));
  gdouble correction = sqrt (1 - pow (BETA2, n));

  for (gsize d = 0; d < dim; d++)
    {
      gdouble g = (gdouble) gradient[d];
      gdouble *moment = &rows->moments[at + d], *square = &rows->squares[at + d];

      *moment = BETA1 * *moment + (1 - BETA1) * g;
      *square = BETA2 * *square + (1 - BETA2) * g * g;
      rows->values[at + d] -= rate * *moment / (sqrt (*square) / correction + TPS_LOOKUP_EPSILON);
    }
}

static void
step (TpsLookupTrainedRows *rows)
{
  const TpsLookupSamples *samples = rows->samples;
  gsize n_samples = samples->bags->n_samples, dim = samples->bags->shape.dim;
  gsize first = rows->n_steps % samples->bags->shape.n_sets * n_samples;

  rows->n_steps++;
  for (gsize i = 0; i < n_samples; i++)
    {
      const gfloat *gradient = samples->gradients + (first + i) * dim;

      if (samples->n_found[first + i] == 0)
        continue;
      if (rows->optimizer == TPS_OPTIMIZER_ADAM)
        step_adam (rows, i * dim, gradient, dim);
      else if (rows->optimizer == TPS_OPTIMIZER_ADAGRAD)
        step_adagrad (rows, i * dim, gradient, dim);
      else
        step_rowwise_adagrad (rows, i * dim, gradient, dim);
    }
}

gboolean
tps_lookup_trained_rows_check (TpsLookupTrainedRows *rows, gsize n, gdouble sum,
                               const gchar *system, GError **error)
{
  const TpsLookupBags *bags = rows->samples->bags;
  g_autoptr (GHashTable) index = index_samples (bags);
  gdouble expected = 0, magnitude = 0;

  for (gsize i = 0; i < n; i++)
    step (rows);
  for (gsize i = 0; i < bags->n_samples; i++)
    {
      gsize sample = GPOINTER_TO_SIZE (g_hash_table_lookup (index, bags->ids + i));

      for (gsize d = 0; d < bags->shape.dim; d++)
        {
          expected += rows->values[sample * bags->shape.dim + d];
          magnitude += fabs (rows->values[sample * bags->shape.dim + d]);
        }
    }
  if (fabs (sum - expected) <= TOLERANCE * magnitude)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "%s, %s: after %" G_GSIZE_FORMAT " steps the sum of %" G_GSIZE_FORMAT
               " rows is %.9g, expected %.9g",
               system, tps_optimizer_kind_name (rows->optimizer), rows->n_steps, bags->n_samples,
               sum, expected);
  return FALSE;
}

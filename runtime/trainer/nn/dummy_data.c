/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/dummy_data.h"

#include <string.h>

#include "runtime/base/config.h"
#include "runtime/base/error.h"
#include "runtime/base/rng.h"

#define MAX_IDS ((gint64) 1 << 31)

/* Independent streams of the random-number generator. */
enum
{
  STREAM_POOL,
  STREAM_INPUT,
  STREAM_TARGET,
};

typedef struct
{
  gint64 max_val;
  gint64 sample_count;
  gint64 sample_length;
  gdouble sparsity_percentage;
} DummyDataConfig;

static gboolean
read_config (GVariant *values, DummyDataConfig *config, GError **error)
{
  TpsConfig reader;

  tps_config_init (&reader, values, "data DummyData", error);
  return tps_config_get_int (&reader, "max_val", 1, MAX_IDS, &config->max_val)
         && tps_config_get_int (&reader, "sample_count", 1, G_MAXINT64, &config->sample_count)
         && tps_config_get_int (&reader, "sample_length", 1, G_MAXINT64, &config->sample_length)
         && tps_config_get_double (&reader, "sparsity_percentage", 0, 100,
                                   &config->sparsity_percentage)
         && tps_config_finish (&reader);
}

/* Returns the number of ids in use, or 0 with an error. */
static gint64
count_ids (const DummyDataConfig *config, GError **error)
{
  gint64 n_ids = (gint64) ((gdouble) config->max_val * (100 - config->sparsity_percentage) / 100);

  if (n_ids == 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "data DummyData: sparsity_percentage %g leaves none of max_val %" G_GINT64_FORMAT
                 " ids in use",
                 config->sparsity_percentage, config->max_val);
  return n_ids;
}

static void
fill_input (gint64 *input, gint64 n, gint64 *ids, gint64 max_val, gint64 n_ids, gint64 seed)
{
  TpsRng rng;

  for (gint64 i = 0; i < max_val; i++)
    ids[i] = i;
  tps_rng_init (&rng, seed, STREAM_POOL);
  tps_rng_shuffle (&rng, ids, (gsize) max_val);
  tps_rng_init (&rng, seed, STREAM_INPUT);
  for (gint64 i = 0; i < n; i++)
    input[i] = ids[tps_rng_next_below (&rng, (guint64) n_ids)];
}

static void
fill_target (gint64 *target, gint64 n, gint64 max_val, gint64 seed)
{
  TpsRng rng;

  tps_rng_init (&rng, seed, STREAM_TARGET);
  for (gint64 i = 0; i < n; i++)
    target[i] = (gint64) tps_rng_next_below (&rng, (guint64) max_val);
}

/* Allocates a tensor of `shape`. Errors: RESOURCE_EXHAUSTED. */
static gboolean
allocate (TpsTensor *tensor, const TpsShape *shape, GError **error)
{
  gsize n_bytes = tps_shape_n_bytes (shape);
  TpsBuffer *buffer = tps_buffer_pool_get (tps_buffer_pool_get_default (), n_bytes, NULL);

  if (buffer == NULL)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "data DummyData: no memory for %" G_GSIZE_FORMAT " bytes of samples", n_bytes);
  tps_tensor_init_take (tensor, shape, buffer, 0);
  return TRUE;
}

static gboolean
dummy_data_generate (GVariant *values, gint64 seed, TpsDataset *dataset, GError **error)
{
  DummyDataConfig config;
  TpsShape input, target, pool;
  g_auto (TpsDataset) made = { 0 };
  g_auto (TpsTensor) ids = { 0 };
  gint64 n_ids;

  if (!read_config (values, &config, error) || (n_ids = count_ids (&config, error)) == 0
      || !tps_shape_init (&input, TPS_DTYPE_INT64, 2,
                          (gint64[]) { config.sample_count, config.sample_length },
                          "data DummyData", error)
      || !tps_shape_init (&target, TPS_DTYPE_INT64, 1, &config.sample_count, "data DummyData",
                          error)
      || !tps_shape_init (&pool, TPS_DTYPE_INT64, 1, &config.max_val, "data DummyData", error)
      || !allocate (&made.input, &input, error) || !allocate (&made.target, &target, error)
      || !allocate (&ids, &pool, error))
    return FALSE;
  fill_input (tps_tensor_data (&made.input), tps_shape_n_elems (&input), tps_tensor_data (&ids),
              config.max_val, n_ids, seed);
  fill_target (tps_tensor_data (&made.target), config.sample_count, config.max_val, seed);
  *dataset = made;
  memset (&made, 0, sizeof made); /* ownership has moved */
  return TRUE;
}

const TpsDataClass tps_dummy_data_class = { "DummyData", dummy_data_generate };

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/nn/embedding_bag.h"

#include "runtime/nn/rng.h"

void
tps_embedding_bag_init_parameters (const TpsEmbeddingBag *bag, gint64 seed, guint64 stream)
{
  TpsRng rng;

  tps_rng_init (&rng, seed, stream);
  tps_rng_fill_normal (&rng, bag->table->value, (gsize) bag->rows * (gsize) bag->dim, 0, 1);
}

static TpsBags
to_bags (const TpsEmbeddingBag *bag, TpsTensorView input)
{
  return (TpsBags) {
    .rows = bag->rows,
    .dim = bag->dim,
    .indices = input.data,
    .n_indices = (gsize) tps_shape_n_elems (&input.shape),
    .n_bags = (gsize) input.shape.dims[0],
    .pooling = bag->pooling,
    .is_any_order = TRUE,
  };
}

void
tps_embedding_bag_forward (const TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                           gfloat *output)
{
  TpsBags bags = to_bags (bag, input);

  stream->device->ops->embedding_pool (stream, &bags, bag->table->value, output, NULL);
}

/* Moves the first `n_rows` rows of `capacity` into the parameter's gradient. */
static void
take_rows (TpsParameter *table, TpsTensor *indices, TpsTensor *values, gsize n_rows)
{
  TpsGradient *gradient = &table->sparse_gradient;

  indices->shape.dims[0] = (gint64) n_rows;
  values->shape.dims[0] = (gint64) n_rows;
  tps_gradient_clear (gradient);
  gradient->kind = TPS_GRADIENT_SPARSE;
  gradient->weight = 1;
  gradient->rows = table->shape.dims[0];
  tps_tensor_move (&gradient->indices, indices);
  tps_tensor_move (&gradient->values, values);
}

void
tps_embedding_bag_backward (const TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                            const gfloat *output_gradient)
{
  TpsBags bags = to_bags (bag, input);
  gint64 capacity = MIN (bag->rows, (gint64) bags.n_indices);
  g_auto (TpsTensor) indices = { 0 };
  g_auto (TpsTensor) values = { 0 };
  gsize n_rows = 0;

  if (!bag->table->is_sparse)
    {
      stream->device->ops->embedding_backward (stream, &bags, output_gradient, NULL,
                                               bag->table->gradient);
      return;
    }
  tps_tensor_init_1d (&indices, TPS_DTYPE_INT64, capacity);
  tps_tensor_init_2d (&values, TPS_DTYPE_FLOAT32, capacity, bag->dim);
  stream->device->ops->embedding_backward_rows (stream, &bags, output_gradient, NULL,
                                                tps_tensor_data (&indices),
                                                tps_tensor_data (&values), &n_rows);
  take_rows (bag->table, &indices, &values, n_rows);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/embedding_bag.h"

#include "runtime/base/rng.h"

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
  };
}

void
tps_embedding_bag_forward (const TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                           gfloat *output)
{
  TpsBags bags = to_bags (bag, input);

  stream->device->ops->embedding_pool (stream, &bags, TPS_DTYPE_FLOAT32, bag->table->value, output);
}

/* -- memory of a sparse gradient: the ids, the rows, and the number of rows -- */

static gsize
get_capacity (const TpsEmbeddingBag *bag, TpsTensorView input)
{
  return (gsize) MIN (bag->rows, tps_shape_n_elems (&input.shape));
}

static gsize
align (gsize n_bytes)
{
  return (n_bytes + TPS_BUFFER_ALIGNMENT - 1) / TPS_BUFFER_ALIGNMENT * TPS_BUFFER_ALIGNMENT;
}

static gsize
get_values_at (gsize capacity)
{
  return align (capacity * sizeof (gint64));
}

static gsize
get_count_at (const TpsEmbeddingBag *bag, gsize capacity)
{
  return get_values_at (capacity) + align (capacity * (gsize) bag->dim * sizeof (gfloat));
}

/* Chooses a place without another owner or, if there is none, the least recently used place. */
static guint
choose_place (const TpsEmbeddingBag *bag)
{
  for (guint i = 0; i < TPS_EMBEDDING_BAG_PLACES; i++)
    {
      guint place = (bag->place + i) % TPS_EMBEDDING_BAG_PLACES;

      if (bag->places[place] == NULL || tps_buffer_is_exclusive (bag->places[place]))
        return place;
    }
  return bag->place;
}

gboolean
tps_embedding_bag_reserve (TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                           GError **error)
{
  gsize n_bytes = get_count_at (bag, get_capacity (bag, input)) + sizeof (gint64);
  TpsBuffer **place;

  if (!bag->table->is_sparse)
    return TRUE;
  tps_gradient_clear (&bag->table->sparse_gradient);
  bag->place = choose_place (bag);
  place = &bag->places[bag->place];
  if (*place != NULL && tps_buffer_is_exclusive (*place) && tps_buffer_get_size (*place) >= n_bytes)
    return TRUE;
  /* The stream may still be using the old memory. */
  if (*place != NULL && !stream->device->ops->stream_sync (stream, error))
    return FALSE;
  g_clear_pointer (place, tps_buffer_unref);
  *place = stream->device->ops->alloc (stream->device, n_bytes, error);
  return *place != NULL;
}

void
tps_embedding_bag_clear (TpsEmbeddingBag *bag)
{
  tps_gradient_clear (&bag->table->sparse_gradient);
  for (guint i = 0; i < TPS_EMBEDDING_BAG_PLACES; i++)
    g_clear_pointer (&bag->places[i], tps_buffer_unref);
}

/* Makes the first `n_rows` rows of the place the gradient of the parameter, and moves on to the
 * next place. */
static void
take_rows (TpsEmbeddingBag *bag, TpsBuffer *place, gsize values_at, gsize n_rows)
{
  TpsGradient *gradient = &bag->table->sparse_gradient;
  TpsShape indices = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { (gint64) n_rows } };
  TpsShape values = { .dtype = TPS_DTYPE_FLOAT32,
                      .n_dims = 2,
                      .dims = { (gint64) n_rows, bag->dim } };

  tps_gradient_clear (gradient);
  gradient->kind = TPS_GRADIENT_SPARSE;
  gradient->weight = 1;
  gradient->rows = bag->rows;
  tps_tensor_init_take (&gradient->indices, &indices, tps_buffer_ref (place), 0);
  tps_tensor_init_take (&gradient->values, &values, tps_buffer_ref (place), values_at);
  bag->place = (bag->place + 1) % TPS_EMBEDDING_BAG_PLACES;
}

static void
backward_rows (TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
               const gfloat *output_gradient)
{
  TpsBags bags = to_bags (bag, input);
  gsize capacity = get_capacity (bag, input);
  gsize values_at = get_values_at (capacity);
  TpsBuffer *place = bag->places[bag->place];
  guint8 *data = tps_buffer_get_data (place);
  gint64 *count = (gint64 *) (gpointer) (data + get_count_at (bag, capacity));

  stream->device->ops->embedding_backward_rows (stream, &bags, output_gradient,
                                                (gint64 *) (gpointer) data,
                                                (gfloat *) (gpointer) (data + values_at), count);
  take_rows (bag, place, values_at, tps_device_read_count (stream, count));
}

void
tps_embedding_bag_backward (TpsEmbeddingBag *bag, TpsStream *stream, TpsTensorView input,
                            const gfloat *output_gradient)
{
  TpsBags bags = to_bags (bag, input);

  if (bag->table->is_sparse)
    backward_rows (bag, stream, input, output_gradient);
  else
    stream->device->ops->embedding_backward (stream, &bags, output_gradient, bag->table->gradient);
}

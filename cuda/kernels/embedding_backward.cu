/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The gradient of a table from the gradient of its bags. Positions are grouped by id, and their
 * contributions are added by the tree of tree.cuh. The work is memory-bound: one read of a row of
 * the output's gradient for each index, and the sort of groups.cu. */

#include "cuda/kernels/bags.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/tree.cuh"

namespace {

using namespace tps;

/* -- terms -- */

/* The contribution of a position: the gradient of its bag, divided by the count for MEAN, times the
 * weight. */
template <int V> struct BagTerms
{
  using Sum = gfloat;
  struct Place
  {
    guint32 position, bag;
  };
  struct Loaded
  {
    Pack<gfloat, V> gradient;
    gfloat weight; /* set only if there are weights */
  };
  TpsBags bags;
  const guint32 *bag_of; /* NULL: each position is a bag */
  const Pack<gfloat, V> *gradient;
  gsize n_packs;

  TPS_BODY Place
  find (guint32 position) const
  {
    return { position, bag_of != nullptr ? bag_of[position] : position };
  }
  TPS_BODY Loaded
  load (const Place &place, gsize pack) const
  {
    Loaded loaded;

    loaded.gradient = gradient[place.bag * n_packs + pack];
    if (bags.weights != nullptr)
      loaded.weight = bags.weights[place.position];
    return loaded;
  }
  TPS_BODY Pack<gfloat, V>
  value (const Place &place, const Loaded &loaded) const
  {
    Pack<gfloat, V> term = loaded.gradient;

    if (bags.pooling == TPS_POOLING_MEAN)
      {
        gsize bag = place.bag;
        gfloat count = (gfloat) (bag_start (bags, bag + 1) - bag_start (bags, bag));

        for (int v = 0; v < V; v++)
          term.at[v] = term.at[v] / count;
      }
    if (bags.weights != nullptr)
      for (int v = 0; v < V; v++)
        term.at[v] = loaded.weight * term.at[v];
    return term;
  }
};

/* -- destinations of sums -- */

/* Adds each sum to 0, so that -0 becomes 0. */
template <int V> struct DenseRows
{
  Groups groups;
  Pack<gfloat, V> *table_gradient;
  gsize n_packs;

  TPS_BODY void
  store (gsize group, gsize pack, Pack<gfloat, V> sum) const
  {
    for (int v = 0; v < V; v++)
      sum.at[v] = 0.0f + sum.at[v];
    table_gradient[groups.key_at (groups.starts[group]) * n_packs + pack] = sum;
  }
};

template <int V> struct UniqueRows
{
  Pack<gfloat, V> *row_gradients;
  gsize n_packs;

  TPS_BODY void
  store (gsize group, gsize pack, const Pack<gfloat, V> &sum) const
  {
    row_gradients[group * n_packs + pack] = sum;
  }
};

/* -- sums of rows -- */

/* Returns true if the bag of a position is not simply the number of the position. */
bool
has_bag_numbers (const TpsBags &bags)
{
  return bags.offsets != nullptr || bags.n_indices != bags.n_bags;
}

struct Backward
{
  const TpsBags *bags;
  const gfloat *gradient;
  GroupRequest request;
};

/* Groups positions by id and sums their contributions. sink_of (groups) returns the Sink. */
template <int V, typename SinkOf>
cudaError_t
sum_bags (cudaStream_t stream, Backward b, SinkOf sink_of)
{
  using Sink = decltype (sink_of (Groups ()));
  using T = Tree<V, BagTerms<V>, Sink>;
  const TpsBags &bags = *b.bags;
  Scratch scratch (stream);
  Groups groups;
  gsize n_packs = (gsize) bags.dim / V, n_slots = tree_slots (bags.n_indices) * n_packs;
  cudaError_t code;

  b.request.bags = has_bag_numbers (bags) ? &bags : nullptr;
  b.request.n_extra_bytes = Scratch::bytes_of<typename T::Sums> (n_slots);
  code = group_ids (stream, b.request, &scratch, &groups);
  if (code != cudaSuccess || n_packs == 0)
    return code;
  return sum_groups (stream,
                     T { groups,
                         { bags, groups.bag_of, (const Pack<gfloat, V> *) b.gradient, n_packs },
                         sink_of (groups),
                         n_packs,
                         scratch.take<typename T::Sums> (n_slots) });
}

Backward
backward_of (const TpsBags *bags, const gfloat *gradient)
{
  Backward b = { bags, gradient, {} };

  b.request.ids = bags->indices;
  b.request.n_ids = bags->n_indices;
  b.request.bound = bags->rows;
  return b;
}

template <int V>
cudaError_t
sum_dense (cudaStream_t stream, const Backward &b, gfloat *table_gradient)
{
  gsize n_packs = (gsize) b.bags->dim / V;

  return sum_bags<V> (stream, b, [=] (const Groups &groups) {
    return DenseRows<V> { groups, (Pack<gfloat, V> *) table_gradient, n_packs };
  });
}

template <int V>
cudaError_t
sum_rows (cudaStream_t stream, const Backward &b, gfloat *row_gradients)
{
  gsize n_packs = (gsize) b.bags->dim / V;

  return sum_bags<V> (stream, b, [=] (const Groups &) {
    return UniqueRows<V> { (Pack<gfloat, V> *) row_gradients, n_packs };
  });
}

} /* namespace */

cudaError_t
tps_cuda_embedding_backward (cudaStream_t stream, const TpsBags *bags,
                             const gfloat *output_gradient, gfloat *table_gradient)
{
  gsize n_cells = (gsize) bags->rows * (gsize) bags->dim;
  Backward b = backward_of (bags, output_gradient);
  cudaError_t code;

  if (n_cells == 0)
    return cudaSuccess;
  code = cudaMemsetAsync (table_gradient, 0, n_cells * sizeof table_gradient[0], stream);
  if (code != cudaSuccess || b.request.n_ids == 0)
    return code;
  if (tps_cuda_geometry_columns ((gsize) bags->dim, output_gradient, table_gradient, nullptr) == 4)
    return sum_dense<4> (stream, b, table_gradient);
  return sum_dense<1> (stream, b, table_gradient);
}

cudaError_t
tps_cuda_embedding_backward_rows (cudaStream_t stream, const TpsBags *bags,
                                  const gfloat *output_gradient, gint64 *unique_indices,
                                  gfloat *row_gradients, gint64 *n_unique)
{
  Backward b = backward_of (bags, output_gradient);
  gsize dim = (gsize) bags->dim;

  if (b.request.n_ids == 0 || bags->n_indices == 0)
    return cudaMemsetAsync (n_unique, 0, sizeof *n_unique, stream);
  b.request.unique_indices = unique_indices;
  b.request.n_unique = n_unique;
  if (tps_cuda_geometry_columns (dim, output_gradient, row_gradients, nullptr) == 4)
    return sum_rows<4> (stream, b, row_gradients);
  return sum_rows<1> (stream, b, row_gradients);
}

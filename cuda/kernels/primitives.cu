/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* CUB's radix sort and scan. Both are memory-bound. For each 8 bits that distinguish keys, the sort
 * moves keys and positions (8 or 12 bytes per pair) twice. The scan moves 8 bytes per number.
 * Numbers of items have 64 bits, which CUB's templates accept. */

#include "cuda/kernels/primitives.cuh"

#include <cub/cub.cuh>

namespace tps {
namespace {

template <typename Key>
cudaError_t
sort (cudaStream_t stream, Temporary *temporary, Pairs<Key> *pairs, gsize n, int n_bits)
{
  cub::DoubleBuffer<Key> keys (pairs->keys[pairs->current], pairs->keys[1 - pairs->current]);
  cub::DoubleBuffer<guint32> positions (pairs->positions[pairs->current],
                                        pairs->positions[1 - pairs->current]);
  cudaError_t code = cub::DeviceRadixSort::SortPairs (temporary->memory, temporary->n_bytes, keys,
                                                      positions, (gint64) n, 0, n_bits, stream);

  /* Keys and positions swap their buffers together. */
  if (temporary->memory != nullptr && keys.Current () != pairs->keys[pairs->current])
    pairs->current = 1 - pairs->current;
  return code;
}

} /* namespace */

cudaError_t
sort_pairs (cudaStream_t stream, Temporary *temporary, Pairs<guint32> *pairs, gsize n, int n_bits)
{
  return sort (stream, temporary, pairs, n, n_bits);
}

cudaError_t
sort_pairs (cudaStream_t stream, Temporary *temporary, Pairs<guint64> *pairs, gsize n, int n_bits)
{
  return sort (stream, temporary, pairs, n, n_bits);
}

cudaError_t
sum_inclusive (cudaStream_t stream, Temporary *temporary, guint32 *values, gsize n)
{
  return cub::DeviceScan::InclusiveSum (temporary->memory, temporary->n_bytes, values, values,
                                        (gint64) n, stream);
}

} /* namespace tps */

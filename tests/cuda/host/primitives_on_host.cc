/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Host versions of the CUB operations of primitives.cu, and of functions without a kernel. */

#include <algorithm>
#include <numeric>
#include <vector>

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/primitives.cuh"

gboolean
tps_cuda_has_code_for (gint major, gint minor)
{
  return major >= 7;
}

cudaError_t
tps_cuda_probe (void)
{
  return cudaSuccess;
}

namespace tps {
namespace {

/* A radix sort may leave its result in either buffer. So this sort leaves the result in the other
 * buffer if the number of bits is odd. */
template <typename Key>
cudaError_t
sort (cudaStream_t stream, Temporary *temporary, Pairs<Key> *pairs, gsize n, int n_bits)
{
  Key mask = n_bits < (int) sizeof (Key) * 8 ? ((Key) 1 << n_bits) - 1 : (Key) -1;
  int from = pairs->current, to = n_bits % 2 == 1 ? 1 - from : from;

  temporary->n_bytes = 1;
  if (temporary->memory == nullptr)
    return cudaSuccess;
  tps_launch_on_host_begin (stream);
  std::vector<Key> keys (pairs->keys[from], pairs->keys[from] + n);
  std::vector<guint32> positions (pairs->positions[from], pairs->positions[from] + n);
  std::vector<guint32> order (n);
  std::iota (order.begin (), order.end (), 0);
  std::stable_sort (order.begin (), order.end (),
                    [&] (guint32 a, guint32 b) { return (keys[a] & mask) < (keys[b] & mask); });
  for (gsize i = 0; i < n; i++)
    {
      pairs->keys[to][i] = keys[order[i]];
      pairs->positions[to][i] = positions[order[i]];
    }
  tps_launch_on_host_end (stream);
  pairs->current = to;
  return cudaSuccess;
}

} // namespace

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
  temporary->n_bytes = 1;
  if (temporary->memory == nullptr)
    return cudaSuccess;
  tps_launch_on_host_begin (stream);
  std::partial_sum (values, values + n, values);
  tps_launch_on_host_end (stream);
  return cudaSuccess;
}

} /* namespace tps */

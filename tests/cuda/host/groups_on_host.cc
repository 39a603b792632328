/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What groups.cu has CUB do, and what needs no body. */

#include <algorithm>
#include <vector>

#include "cuda/kernels/groups.cuh"
#include "cuda/kernels/kernels.h"
#include "cuda/kernels/launch.cuh"

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

cudaError_t
group_ids (cudaStream_t stream, const gint64 *ids, gsize n_ids, int n_bits, Scratch *scratch,
           Groups *groups)
{
  guint64 mask = n_bits < kAllBits ? (G_GUINT64_CONSTANT (1) << n_bits) - 1 : G_MAXUINT64;
  cudaError_t code = scratch->allocate (4 * Scratch::bytes_of<gint64> (n_ids + 1));
  gsize n = 0;

  if (code != cudaSuccess)
    return code;
  groups->ids = scratch->take<gint64> (n_ids + 1);
  groups->starts = scratch->take<gint64> (n_ids + 1);
  groups->order = scratch->take<gint64> (n_ids + 1);
  groups->n_groups = scratch->take<gint64> (1);
  tps_launch_on_host_begin (stream);
  for (gsize i = 0; i < n_ids; i++)
    groups->order[i] = (gint64) i;
  std::stable_sort (groups->order, groups->order + n_ids, [&] (gint64 a, gint64 b) {
    return ((guint64) ids[a] & mask) < ((guint64) ids[b] & mask);
  });
  for (gsize i = 0; i < n_ids; i++)
    if (i == 0 || ids[groups->order[i]] != ids[groups->order[i - 1]])
      {
        groups->ids[n] = ids[groups->order[i]];
        groups->starts[n++] = (gint64) i;
      }
  groups->starts[n] = (gint64) n_ids;
  *groups->n_groups = (gint64) n;
  tps_launch_on_host_end (stream);
  return cudaSuccess;
}

} /* namespace tps */

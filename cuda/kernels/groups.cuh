/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Positions of equal ids, in memory of the device that lives until the stream has passed what was enqueued after. */

#pragma once

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/scratch.cuh"

namespace tps {

/* Group u is id ids[u] at positions order[starts[u]] … order[starts[u + 1] - 1], for u below *n_groups; ids ascending (as
 * unsigned numbers: -1 comes last), positions within one ascending. */
struct Groups
{
  gint64 *ids;      /* [n_ids] */
  gint64 *starts;   /* [n_ids + 1] */
  gint64 *order;    /* [n_ids] */
  gint64 *n_groups; /* [1] */
};

/* `ids` [n_ids], n_ids > 0, which the lowest `n_bits` tell from each other. What `groups` points to belongs to `scratch`, of which nothing was allocated before. */
constexpr int kAllBits = 64;
cudaError_t group_ids (cudaStream_t stream, const gint64 *ids, gsize n_ids, int n_bits,
                       Scratch *scratch, Groups *groups);

} /* namespace tps */

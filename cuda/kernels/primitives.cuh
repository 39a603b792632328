/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The two building blocks that CUB provides. Tests on the host have their own
 * (tests/cuda/host/primitives_on_host.cc). Both enqueue; where `temporary->memory` is NULL they do
 * nothing but set the number of bytes that they need there. */

#pragma once

#include <cuda_runtime_api.h>
#include <glib.h>

namespace tps {

struct Temporary
{
  void *memory;
  gsize n_bytes;
};

/* Two places for keys and positions each; those at `current` are filled, and will be sorted. */
template <typename Key> struct Pairs
{
  Key *keys[2];
  guint32 *positions[2];
  int current;
};

/* Sorts by the lowest `n_bits` of the keys; pairs of equal keys keep their order. `current` is
 * changed when this returns. */
cudaError_t sort_pairs (cudaStream_t stream, Temporary *temporary, Pairs<guint32> *pairs, gsize n,
                        int n_bits);
cudaError_t sort_pairs (cudaStream_t stream, Temporary *temporary, Pairs<guint64> *pairs, gsize n,
                        int n_bits);

/* values[i] = values[0] + … + values[i]. */
cudaError_t sum_inclusive (cudaStream_t stream, Temporary *temporary, guint32 *values, gsize n);

} /* namespace tps */

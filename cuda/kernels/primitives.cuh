/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The two building blocks that CUB provides. Tests on the host have their own implementation
 * (tests/cuda/host/primitives_on_host.cc). Both functions enqueue. If `temporary->memory` is NULL,
 * they only set the number of bytes that they need. */

#pragma once

#include <cuda_runtime_api.h>
#include <glib.h>

namespace tps {

/* Working space of a function in device memory. */
struct Temporary
{
  void *memory;
  gsize n_bytes;
};

/* Two buffers for keys and two for positions. The buffers at `current` contain the input, and later
 * the result. */
template <typename Key> struct Pairs
{
  Key *keys[2];
  guint32 *positions[2];
  int current;
};

/* Sorts `n` pairs by the lowest `n_bits` of the keys; the sort is stable. Updates `current` before
 * it returns. */
cudaError_t sort_pairs (cudaStream_t stream, Temporary *temporary, Pairs<guint32> *pairs, gsize n,
                        int n_bits);
cudaError_t sort_pairs (cudaStream_t stream, Temporary *temporary, Pairs<guint64> *pairs, gsize n,
                        int n_bits);

/* Sets values[i] = values[0] + … + values[i] for i in [0, n). */
cudaError_t sum_inclusive (cudaStream_t stream, Temporary *temporary, guint32 *values, gsize n);

} /* namespace tps */

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Positions of equal ids, in memory of the device that lives until the stream has passed what was enqueued after. */

#pragma once

#include "cuda/kernels/launch.cuh"

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

/* Memory of a stream, given back to it at the end of the scope: what is enqueued until then may use it. */
class Scratch
{
public:
  explicit Scratch (cudaStream_t stream) : stream_ (stream)
  {
  }
  Scratch (const Scratch &) = delete;
  Scratch &operator= (const Scratch &) = delete;
  ~Scratch ()
  {
    if (memory_ != nullptr)
      cudaFreeAsync (memory_, stream_);
  }

  /* Once. */
  cudaError_t
  allocate (gsize n_bytes)
  {
    return cudaMallocAsync (&memory_, n_bytes, stream_);
  }
  /* The next `n` of what was allocated, at 256 bytes. */
  template <typename T>
  T *
  take (gsize n)
  {
    T *taken = (T *) ((guint8 *) memory_ + used_);

    used_ += bytes_of<T> (n);
    return taken;
  }
  template <typename T>
  static gsize
  bytes_of (gsize n)
  {
    return (n * sizeof (T) + 255) / 256 * 256;
  }

private:
  cudaStream_t stream_;
  void *memory_ = nullptr;
  gsize used_ = 0;
};

/* `ids` [n_ids], n_ids > 0, which the lowest `n_bits` tell from each other. What `groups` points to belongs to `scratch`, of which nothing was allocated before. */
constexpr int kAllBits = 64;
cudaError_t group_ids (cudaStream_t stream, const gint64 *ids, gsize n_ids, int n_bits,
                       Scratch *scratch, Groups *groups);

} /* namespace tps */

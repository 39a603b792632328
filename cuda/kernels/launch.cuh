/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The three forms of parallel work that all kernels use. The computation is a struct, called the
 * body. Only this header distributes items over threads.
 *
 *   each<Unroll> (stream, n, body)   items 0 … n - 1, with a few items per thread: body.load (i),
 *                                    then body.store (i, loaded). All loads of a thread precede
 *                                    its stores, so that they are in flight together. A body should
 *                                    compute in store (): a use of a loaded value in load () delays
 *                                    the loads after it.
 *   placed<Unroll> (stream, n, body) like each, for items whose places are in memory: body.find
 *                                    (i) returns an item with its place, body.load (i, &item)
 *                                    loads its values, and body.store (i, item) follows. All finds
 *                                    of a thread precede its loads, so that a load does not wait
 *                                    for the place of another item. Only items below body.count (n)
 *                                    are used.
 *   teams<Width> (stream, n, body)   items 0 … n - 1, Width threads of one warp each: body.run (i,
 *                                    team).
 *
 * The functions of a body are TPS_BODY functions. Without nvcc, this header runs bodies on the
 * host, one item after another, with the same arithmetic in the same order. Tests use this on
 * machines without a GPU.
 */

#pragma once

#include <cuda_runtime_api.h>
#include <glib.h>

#include "cuda/kernels/geometry.h"

#define TPS_BODY __host__ __device__ __forceinline__

namespace tps {

/* V neighbouring values, which are read or written in one access. */
template <typename T, int V> struct alignas (sizeof (T) * V) Pack
{
  T at[V];
};

} /* namespace tps */

#if defined(__CUDACC__)
#include "cuda/kernels/launch_device.cuh"
#else
#include "cuda/kernels/launch_host.cuh"
#endif

namespace tps {

/* The row and the column of item i: i = row * columns + column. */
struct Cell
{
  gsize row, column;
};

/* Returns the cell of item `i`. Uses 32-bit division if possible, which is many times faster. */
TPS_BODY Cell
cell_of (gsize i, gsize columns)
{
  if (((i | columns) >> 32) == 0)
    {
      guint32 row = (guint32) i / (guint32) columns;

      return { row, (guint32) i - row * (guint32) columns };
    }
  return { i / columns, i % columns };
}

} /* namespace tps */

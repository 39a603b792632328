/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* launch.cuh on a GPU. */

#pragma once

namespace tps {

/* Returns the value, a number or a Pack, of the thread `distance` lanes above in the team. */
template <typename T>
__device__ __forceinline__ T
shuffle_down (unsigned mask, T value, int distance, int width)
{
  return __shfl_down_sync (mask, value, distance, width);
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V>
shuffle_down (unsigned mask, Pack<T, V> value, int distance, int width)
{
  for (int v = 0; v < V; v++)
    value.at[v] = __shfl_down_sync (mask, value.at[v], distance, width);
  return value;
}

/* Returns the value, a number or a Pack, of the first thread of the team. */
template <typename T>
__device__ __forceinline__ T
shuffle_first (unsigned mask, T value, int width)
{
  return __shfl_sync (mask, value, 0, width);
}

template <typename T, int V>
__device__ __forceinline__ Pack<T, V>
shuffle_first (unsigned mask, Pack<T, V> value, int width)
{
  for (int v = 0; v < V; v++)
    value.at[v] = __shfl_sync (mask, value.at[v], 0, width);
  return value;
}

/* Width threads of one warp that work on one item together. */
template <int Width> struct Team
{
  int lane;

  /* Reads of the team's threads before this call precede their writes after it. */
  __device__ __forceinline__ void
  sync () const
  {
    __syncwarp (mask ());
  }

  /* Calls f (i) for i in [0, n). A thread handles every Width-th i. */
  template <typename F>
  TPS_BODY void
  each (gsize n, F f) const
  {
    for (gsize i = (gsize) lane; i < n; i += Width)
      f (i);
  }

  /* Reduces the values f (lane), numbers or Packs: the upper half is combined with the lower half
   * until one value is left, which every thread receives. */
  template <typename F, typename Op>
  __device__ __forceinline__ auto
  reduce (F f, Op op) const -> decltype (f (0))
  {
    auto value = f (lane);

    for (int half = Width / 2; half > 0; half /= 2)
      value = op (value, shuffle_down (mask (), value, half, Width));
    return shuffle_first (mask (), value, Width);
  }

private:
  /* The mask of the team's threads within the warp. */
  static __device__ __forceinline__ unsigned
  mask ()
  {
    return (unsigned) (((1ull << Width) - 1) << (threadIdx.x % 32 / Width * Width));
  }
};

/* The items of a thread. If the thread has no item number `u`, its first item is loaded again and
 * not stored. This avoids a branch, after which loads would wait for the loads before it. */
template <int Unroll> struct Share
{
  gsize first, n;

  static __device__ __forceinline__ Share
  of_thread (gsize n)
  {
    return { (gsize) blockIdx.x * (TPS_CUDA_BLOCK_THREADS * Unroll) + threadIdx.x, n };
  }
  __device__ __forceinline__ bool
  has (int u) const
  {
    return first + u * TPS_CUDA_BLOCK_THREADS < n;
  }
  __device__ __forceinline__ gsize
  at (int u) const
  {
    return has (u) ? first + u * TPS_CUDA_BLOCK_THREADS : first;
  }
};

template <int Unroll, typename Body>
__global__ void
__launch_bounds__ (TPS_CUDA_BLOCK_THREADS) each_kernel (Body body, gsize n)
{
  Share<Unroll> share = Share<Unroll>::of_thread (n);
  typename Body::Item items[Unroll];

  if (!share.has (0))
    return;
#pragma unroll
  for (int u = 0; u < Unroll; u++)
    items[u] = body.load (share.at (u));
#pragma unroll
  for (int u = 0; u < Unroll; u++)
    if (share.has (u))
      body.store (share.at (u), items[u]);
}

template <int Unroll, typename Body>
__global__ void
__launch_bounds__ (TPS_CUDA_BLOCK_THREADS) placed_kernel (Body body, gsize n)
{
  Share<Unroll> share = Share<Unroll>::of_thread (body.count (n));
  typename Body::Item items[Unroll];

  if (!share.has (0))
    return;
#pragma unroll
  for (int u = 0; u < Unroll; u++)
    items[u] = body.find (share.at (u));
#pragma unroll
  for (int u = 0; u < Unroll; u++)
    body.load (share.at (u), &items[u]);
#pragma unroll
  for (int u = 0; u < Unroll; u++)
    if (share.has (u))
      body.store (share.at (u), items[u]);
}

template <int Width, typename Body>
__global__ void
__launch_bounds__ (TPS_CUDA_BLOCK_THREADS) teams_kernel (Body body, gsize n)
{
  gsize item = (gsize) blockIdx.x * (TPS_CUDA_BLOCK_THREADS / Width) + threadIdx.x / Width;
  Team<Width> team;

  team.lane = (int) threadIdx.x % Width;
  if (item < n)
    body.run (item, team);
}

/* The functions of launch.cuh. Errors: cudaErrorInvalidConfiguration (too many items for a grid),
 * and errors of the launch. */
template <int Unroll, typename Body>
cudaError_t
each (cudaStream_t stream, gsize n, const Body &body)
{
  guint n_blocks;

  if (!tps_cuda_geometry_blocks (n, TPS_CUDA_BLOCK_THREADS * Unroll, &n_blocks))
    return cudaErrorInvalidConfiguration;
  if (n_blocks > 0)
    each_kernel<Unroll><<<n_blocks, TPS_CUDA_BLOCK_THREADS, 0, stream>>> (body, n);
  return cudaGetLastError ();
}

template <int Unroll, typename Body>
cudaError_t
placed (cudaStream_t stream, gsize n, const Body &body)
{
  guint n_blocks;

  if (!tps_cuda_geometry_blocks (n, TPS_CUDA_BLOCK_THREADS * Unroll, &n_blocks))
    return cudaErrorInvalidConfiguration;
  if (n_blocks > 0)
    placed_kernel<Unroll><<<n_blocks, TPS_CUDA_BLOCK_THREADS, 0, stream>>> (body, n);
  return cudaGetLastError ();
}

template <int Width, typename Body>
cudaError_t
teams (cudaStream_t stream, gsize n, const Body &body)
{
  guint n_blocks;

  if (!tps_cuda_geometry_blocks (n, TPS_CUDA_BLOCK_THREADS / Width, &n_blocks))
    return cudaErrorInvalidConfiguration;
  if (n_blocks > 0)
    teams_kernel<Width><<<n_blocks, TPS_CUDA_BLOCK_THREADS, 0, stream>>> (body, n);
  return cudaGetLastError ();
}

} /* namespace tps */

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* launch.cuh without nvcc, for tests of the bodies. It does not model a GPU, but items are assigned
 * to blocks and threads as on a GPU. The last block runs first, so that a body that relies on an
 * order between blocks fails. */

#pragma once

extern "C"
{
  /* Implemented by the substitute for the CUDA runtime. Bodies run between the two calls. */
  void tps_launch_on_host_begin (cudaStream_t stream);
  void tps_launch_on_host_end (cudaStream_t stream);
  /* Returns the number of blocks that run at each end of a grid, at least 1. A test of huge arrays
   * leaves out the blocks between them. */
  guint tps_launch_on_host_edge (void);
}

namespace tps {

template <int Width> struct Team
{
  void
  sync () const
  {
  }

  template <typename F>
  void
  each (gsize n, F f) const
  {
    for (gsize i = 0; i < n; i++)
      f (i);
  }

  /* Reduces in the same tree as on a device. */
  template <typename F, typename Op>
  auto
  reduce (F f, Op op) const -> decltype (f (0))
  {
    decltype (f (0)) values[Width];

    for (int lane = 0; lane < Width; lane++)
      values[lane] = f (lane);
    for (int half = Width / 2; half > 0; half /= 2)
      for (int lane = 0; lane < half; lane++)
        values[lane] = op (values[lane], values[lane + half]);
    return values[0];
  }
};

/* Calls run (block) for all blocks, or for the blocks at the ends of the grid. */
template <typename F>
void
run_blocks (cudaStream_t stream, guint n_blocks, F run)
{
  gsize edge = tps_launch_on_host_edge ();

  tps_launch_on_host_begin (stream);
  for (gsize block = n_blocks; block-- > 0;)
    {
      if (block >= edge && block + edge < n_blocks)
        block = edge - 1;
      run (block);
    }
  tps_launch_on_host_end (stream);
}

/* Runs the items of a thread. All loads precede the stores. */
template <int Unroll, typename Body>
void
run_thread (gsize first, gsize n, const Body &body)
{
  typename Body::Item items[Unroll];
  int n_items = 0;

  for (gsize i = first; n_items < Unroll && i < n; i += TPS_CUDA_BLOCK_THREADS)
    items[n_items++] = body.load (i);
  for (int u = 0; u < n_items; u++)
    body.store (first + (gsize) u * TPS_CUDA_BLOCK_THREADS, items[u]);
}

/* Calls `run` for each thread, with its first item. */
template <int Unroll, typename Run>
cudaError_t
run_threads (cudaStream_t stream, gsize n, const Run &run)
{
  guint n_blocks;

  if (!tps_cuda_geometry_blocks (n, TPS_CUDA_BLOCK_THREADS * Unroll, &n_blocks))
    return cudaErrorInvalidConfiguration;
  run_blocks (stream, n_blocks, [&] (gsize block) {
    for (guint thread = 0; thread < TPS_CUDA_BLOCK_THREADS; thread++)
      run (block * (TPS_CUDA_BLOCK_THREADS * Unroll) + thread);
  });
  return cudaGetLastError (); /* as after a launch on a device: an error that was not cleared */
}

template <int Unroll, typename Body>
cudaError_t
each (cudaStream_t stream, gsize n, const Body &body)
{
  return run_threads<Unroll> (stream, n,
                              [&] (gsize first) { run_thread<Unroll> (first, n, body); });
}

/* Runs the items of a thread. All finds precede the loads. */
template <int Unroll, typename Body>
void
run_placed_thread (gsize first, gsize n, const Body &body)
{
  typename Body::Item items[Unroll];
  int n_items = 0;

  for (gsize i = first; n_items < Unroll && i < n; i += TPS_CUDA_BLOCK_THREADS)
    items[n_items++] = body.find (i);
  for (int u = 0; u < n_items; u++)
    body.load (first + (gsize) u * TPS_CUDA_BLOCK_THREADS, &items[u]);
  for (int u = 0; u < n_items; u++)
    body.store (first + (gsize) u * TPS_CUDA_BLOCK_THREADS, items[u]);
}

template <int Unroll, typename Body>
cudaError_t
placed (cudaStream_t stream, gsize n, const Body &body)
{
  return run_threads<Unroll> (
      stream, n, [&] (gsize first) { run_placed_thread<Unroll> (first, body.count (n), body); });
}

template <int Width, typename Body>
cudaError_t
teams (cudaStream_t stream, gsize n, const Body &body)
{
  constexpr gsize per_block = TPS_CUDA_BLOCK_THREADS / Width;
  Team<Width> team;
  guint n_blocks;

  if (!tps_cuda_geometry_blocks (n, per_block, &n_blocks))
    return cudaErrorInvalidConfiguration;
  run_blocks (stream, n_blocks, [&] (gsize block) {
    for (gsize item = block * per_block; item < MIN ((block + 1) * per_block, n); item++)
      body.run (item, team);
  });
  return cudaGetLastError ();
}

} /* namespace tps */

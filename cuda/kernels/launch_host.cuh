/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* launch.cuh where there is no nvcc: for tests of the bodies. Nothing here says anything about a GPU. */

#pragma once

extern "C"
{
  /* Of who stands in for the CUDA runtime: a body runs between the two. */
  void tps_launch_on_host_begin (cudaStream_t stream);
  void tps_launch_on_host_end (cudaStream_t stream);
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

  /* The same tree. */
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

template <int Unroll, typename Body>
cudaError_t
each (cudaStream_t stream, gsize n, const Body &body)
{
  tps_launch_on_host_begin (stream);
  for (gsize i = 0; i < n; i++)
    body.store (i, body.load (i));
  tps_launch_on_host_end (stream);
  return cudaSuccess;
}

template <int Width, typename Body>
cudaError_t
teams (cudaStream_t stream, gsize n, const Body &body)
{
  Team<Width> team;

  tps_launch_on_host_begin (stream);
  for (gsize item = 0; item < n; item++)
    body.run (item, team);
  tps_launch_on_host_end (stream);
  return cudaSuccess;
}

} /* namespace tps */

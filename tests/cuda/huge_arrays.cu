/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arrays of more than 2^31 and 2^32 elements against closed forms, on a GPU alone: what is wrong with 32-bit numbers shows
 * there. Exit code 3 where there is no GPU or not enough memory; the last line says so. */

#include <cstdio>
#include <vector>

#include "cuda/kernels/kernels.h"

namespace {

int
skip (const char *reason)
{
  printf ("SKIPPED: %s\n", reason);
  return 3;
}

/* Elements at the ends, and around each power of two. */
std::vector<gsize>
places_in (gsize n)
{
  std::vector<gsize> places = { 0, n - 1 };

  for (gsize power = 1; power < n; power *= 2)
    for (gsize place : { power - 1, power, power + 1 })
      if (place < n)
        places.push_back (place);
  return places;
}

template <typename T>
int
count_wrong (const T *values, gsize n, T wanted)
{
  int n_wrong = 0;

  for (gsize place : places_in (n))
    {
      T got;
      cudaError_t code = cudaMemcpy (&got, values + place, sizeof got, cudaMemcpyDeviceToHost);

      if (code == cudaSuccess && got == wanted)
        continue;
      n_wrong++;
      printf ("element %zu of %zu: %g instead of %g (%s)\n", (size_t) place, (size_t) n,
              (double) got, (double) wanted, cudaGetErrorString (code));
    }
  return n_wrong;
}

/* 3 + 0.5 * 3 = 4.5 everywhere. */
int
check (gfloat *sum, guint16 *gradient, gsize n)
{
  cudaError_t code = tps_cuda_fill (nullptr, TPS_DTYPE_FLOAT32, sum, 3, n);

  if (code == cudaSuccess)
    code = tps_cuda_fill (nullptr, TPS_DTYPE_BFLOAT16, gradient, 3, n);
  if (code == cudaSuccess)
    code = tps_cuda_scale_accumulate (nullptr, TPS_DTYPE_BFLOAT16, sum, gradient, 0.5, n);
  if (code == cudaSuccess)
    code = cudaDeviceSynchronize ();
  if (code != cudaSuccess)
    printf ("%zu elements: %s\n", (size_t) n, cudaGetErrorString (code));
  return code != cudaSuccess ? 1 : count_wrong (sum, n, 4.5f);
}

} /* namespace */

int
main ()
{
  int n_devices = 0, n_wrong = 0;
  bool is_whole = true;
  cudaError_t code = cudaGetDeviceCount (&n_devices);

  if (code != cudaSuccess || n_devices == 0)
    return skip (code != cudaSuccess ? cudaGetErrorString (code) : "no device");
  for (gsize n : { ((gsize) 1 << 31) + 17, ((gsize) 1 << 32) + 17 })
    {
      gfloat *sum;
      guint16 *gradient = nullptr;

      if (cudaMalloc ((void **) &sum, n * sizeof *sum) != cudaSuccess)
        return n_wrong > 0 ? 1 : skip ("not enough memory for more");
      if (cudaMalloc ((void **) &gradient, n * sizeof *gradient) == cudaSuccess)
        n_wrong += check (sum, gradient, n);
      else
        is_whole = false;
      cudaFree (gradient);
      cudaFree (sum);
    }
  printf ("%d wrong\n", n_wrong);
  return n_wrong > 0 ? 1 : is_whole ? 0 : skip ("not enough memory for all");
}

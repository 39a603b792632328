/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Arrays of more than 2^31 and 2^32 elements against closed forms, on a GPU only, to find 32-bit
 * overflows. Exit code 3, with the reason in the last line, if there is no GPU or not enough
 * memory. */

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

/* Device memory; freed at the end of the scope. */
template <typename T> class Array
{
public:
  explicit Array (gsize n)
  {
    if (cudaMalloc ((void **) &data_, n * sizeof (T)) != cudaSuccess)
      {
        cudaGetLastError (); /* clears the error */
        data_ = nullptr;
      }
  }
  Array (const Array &) = delete;
  Array &operator= (const Array &) = delete;
  ~Array ()
  {
    cudaFree (data_);
  }
  operator T * () const
  {
    return data_;
  }

private:
  T *data_ = nullptr;
};

enum Outcome
{
  RIGHT,
  WRONG,
  NO_MEMORY,
};

Outcome
judge (const char *what, gsize n, cudaError_t code, int n_wrong)
{
  const char *outcome = code == cudaErrorMemoryAllocation ? "not enough memory"
                        : code != cudaSuccess             ? cudaGetErrorString (code)
                        : n_wrong > 0                     ? "wrong"
                                                          : "right";

  cudaGetLastError ();
  printf ("%s of %zu: %s\n", what, (size_t) n, outcome);
  return code == cudaErrorMemoryAllocation ? NO_MEMORY
         : code != cudaSuccess || n_wrong  ? WRONG
                                           : RIGHT;
}

cudaError_t
synchronize_after (cudaError_t code)
{
  return code == cudaSuccess ? cudaDeviceSynchronize () : code;
}

Outcome
check_sums (gsize n)
{
  Array<gfloat> sum (n);
  Array<guint16> gradient (n);

  if (sum == nullptr || gradient == nullptr)
    return judge ("sum", n, cudaErrorMemoryAllocation, 0);
  return judge ("sum", n, cudaSuccess, check (sum, gradient, n));
}

/* Ids 9, then ids 3, with rows of 1: the expected sums are the counts, rounded in the order of the
 * tree. */
Outcome
check_coalesce (gsize n)
{
  gsize n_nine = n / 2 + 5;
  Array<gint64> ids (n), unique (n), n_unique (1);
  Array<guint16> rows (n);
  Array<gfloat> sums (n);
  gint64 counted = -1, found[2] = { -1, -1 };
  gfloat got[2] = { -1, -1 };
  cudaError_t code;

  if (ids == nullptr || unique == nullptr || n_unique == nullptr || rows == nullptr
      || sums == nullptr)
    return judge ("coalesce", n, cudaErrorMemoryAllocation, 0);
  code = tps_cuda_fill (nullptr, TPS_DTYPE_INT64, ids, 9, n_nine);
  if (code == cudaSuccess)
    code = tps_cuda_fill (nullptr, TPS_DTYPE_INT64, ids + n_nine, 3, n - n_nine);
  if (code == cudaSuccess)
    code = tps_cuda_fill (nullptr, TPS_DTYPE_BFLOAT16, rows, 1, n);
  if (code == cudaSuccess)
    code = tps_cuda_coalesce_rows (nullptr, TPS_DTYPE_BFLOAT16, ids, 16, rows, n, 1, unique, sums,
                                   n_unique);
  code = synchronize_after (code);
  if (code != cudaSuccess)
    return judge ("coalesce", n, code, 0);
  cudaMemcpy (&counted, n_unique, sizeof counted, cudaMemcpyDeviceToHost);
  cudaMemcpy (found, unique, sizeof found, cudaMemcpyDeviceToHost);
  cudaMemcpy (got, sums, sizeof got, cudaMemcpyDeviceToHost);
  /* Each half is 2^30 and a little. The tree adds 2^30 and a term that is lost in float rounding.
   */
  bool is_right = counted == 2 && found[0] == 3 && found[1] == 9 && got[0] == (gfloat) (n - n_nine)
                  && got[1] == (gfloat) n_nine;
  return judge ("coalesce", n, cudaSuccess, is_right ? 0 : 1);
}

/* Bags of 64 rows of 1, and their gradient. */
Outcome
check_bags (gsize n_bags)
{
  gsize n = n_bags * 64;
  Array<gint64> ids (n), unique (16), n_unique (1);
  Array<gfloat> table (16), output (n_bags), gradient (n_bags), rows (16);
  gfloat got = -1;
  TpsBags bags = {};
  int n_wrong;
  cudaError_t code;

  if (ids == nullptr || output == nullptr || gradient == nullptr || rows == nullptr)
    return judge ("bags", n, cudaErrorMemoryAllocation, 0);
  bags.rows = 16;
  bags.dim = 1;
  bags.indices = ids;
  bags.n_indices = n;
  bags.n_bags = n_bags;
  bags.pooling = TPS_POOLING_SUM;
  code = tps_cuda_fill (nullptr, TPS_DTYPE_INT64, ids, 11, n);
  if (code == cudaSuccess)
    code = tps_cuda_fill (nullptr, TPS_DTYPE_FLOAT32, table, 1, 16);
  if (code == cudaSuccess)
    code = tps_cuda_fill (nullptr, TPS_DTYPE_FLOAT32, gradient, 1, n_bags);
  if (code == cudaSuccess)
    code = tps_cuda_embedding_pool (nullptr, &bags, table, output, nullptr);
  if (code == cudaSuccess)
    code = tps_cuda_embedding_backward_rows (nullptr, &bags, gradient, nullptr, unique, rows,
                                             n_unique);
  code = synchronize_after (code);
  if (code != cudaSuccess)
    return judge ("bags", n, code, 0);
  n_wrong = count_wrong<gfloat> (output, n_bags, 64.0f);
  cudaMemcpy (&got, rows, sizeof got, cudaMemcpyDeviceToHost);
  return judge ("bags", n, cudaSuccess, n_wrong + (got == (gfloat) n ? 0 : 1));
}

/* All maxima came from row 5. The kernel groups cells, n_bags * dim of them. */
Outcome
check_maxima (gsize n_bags, gsize dim)
{
  gsize n = n_bags * dim;
  Array<gint64> argmax (n);
  Array<gfloat> gradient (n), table_gradient (16 * dim);
  TpsBags bags = {};
  cudaError_t code;

  if (argmax == nullptr || gradient == nullptr || table_gradient == nullptr)
    return judge ("maxima", n, cudaErrorMemoryAllocation, 0);
  bags.rows = 16;
  bags.dim = (gint64) dim;
  bags.n_indices = bags.n_bags = n_bags;
  bags.pooling = TPS_POOLING_MAX;
  code = tps_cuda_fill (nullptr, TPS_DTYPE_INT64, argmax, 5, n);
  if (code == cudaSuccess)
    code = tps_cuda_fill (nullptr, TPS_DTYPE_FLOAT32, gradient, 1, n);
  if (code == cudaSuccess)
    code = tps_cuda_embedding_backward (nullptr, &bags, gradient, argmax, table_gradient);
  code = synchronize_after (code);
  if (code != cudaSuccess)
    return judge ("maxima", n, code, 0);
  return judge ("maxima", n, cudaSuccess,
                count_wrong<gfloat> (table_gradient + 5 * dim, dim, (gfloat) n_bags));
}

} /* namespace */

int
main ()
{
  int n_devices = 0, n_wrong = 0, n_skipped = 0;
  cudaError_t code = cudaGetDeviceCount (&n_devices);
  const gsize two_31 = (gsize) 1 << 31;

  setvbuf (stdout, nullptr, _IOLBF, 0); /* lines survive a kill */
  if (code != cudaSuccess || n_devices == 0)
    return skip (code != cudaSuccess ? cudaGetErrorString (code) : "no device");
  for (Outcome outcome :
       { check_sums (two_31 + 17), check_sums (2 * two_31 + 17), check_coalesce (two_31 + 64),
         check_bags (two_31 / 64 + 1), check_maxima (two_31 / 64 + 1, 64) })
    {
      n_wrong += outcome == WRONG;
      n_skipped += outcome == NO_MEMORY;
    }
  printf ("%d wrong\n", n_wrong);
  if (n_wrong == 0 && n_skipped > 0)
    return skip ("not enough memory for all");
  return n_wrong > 0 ? 1 : 0;
}

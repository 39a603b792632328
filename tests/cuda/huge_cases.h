/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The cases of huge_arrays.cu: operations on arrays of any size, compared with closed forms, and
 * the memory that each case needs. Outputs and scratch memory are in device memory. Inputs are in
 * device memory or in page-locked host memory, which kernels read over the bus. */

#pragma once

#include <cuda_runtime_api.h>

#include <cstdio>
#include <vector>

#include "cuda/kernels/scratch.cuh"
#include "tests/cuda/arrays.h"

namespace huge_arrays {

using namespace arrays;

constexpr gsize kGiB = (gsize) 1 << 30;
constexpr gsize kTwo31 = (gsize) 1 << 31;
/* Reserve for CUB's temporary memory, and for memory that the device cannot allocate in one
 * piece. */
constexpr gsize kReserve = kGiB;
constexpr gsize kBagRows = 64; /* rows of a bag, and columns of a maximum */
constexpr gsize kTableRows = 16;

/* -- memory -- */

struct Need
{
  gsize device; /* bytes of outputs and scratch memory */
  gsize inputs;
};

struct Have
{
  gsize device, host;
};

inline Place
place_inputs (const Need &need, const Have &have)
{
  if (need.device + need.inputs + kReserve <= have.device)
    return ON_DEVICE;
  if (need.device + kReserve <= have.device && need.inputs + kReserve <= have.host)
    return IN_HOST_MEMORY;
  return NOWHERE;
}

/* Returns the scratch memory of group_ids() with 32-bit keys, and that of the sums of chunks, V
 * columns wide. `n_numbers` counts further 32-bit numbers for each position. */
inline gsize
grouping_bytes (gsize n, gsize n_numbers, gsize slot_bytes)
{
  using tps::Scratch;
  gsize n_slots = n > TPS_SUM_CHUNK ? 2 * ((n + TPS_SUM_CHUNK - 1) / TPS_SUM_CHUNK) : 0;

  return (5 + n_numbers) * Scratch::bytes_of<guint32> (n) + Scratch::bytes_of<guint32> (n + 1)
         + 2 * Scratch::bytes_of<guint32> (1) + Scratch::bytes_of<guint8> (n_slots * slot_bytes);
}

/* -- results -- */

/* Returns the places of elements at both ends and around each power of two. */
inline std::vector<gsize>
places_in (gsize n)
{
  std::vector<gsize> places = { 0, n - 1 };

  for (gsize power = 1; power < n; power *= 2)
    for (gsize place : { power - 1, power, power + 1 })
      if (place < n)
        places.push_back (place);
  return places;
}

/* Adds the number of elements that differ from `wanted` to `*n_wrong`. */
inline void
check (Steps *steps, const gfloat *values, gsize n, gfloat wanted, int *n_wrong)
{
  for (gsize place : places_in (n))
    {
      gfloat got = -1;

      steps->read (&got, values + place, 1);
      if (steps->code != cudaSuccess || got == wanted)
        continue;
      (*n_wrong)++;
      printf ("element %zu of %zu: %g instead of %g\n", (size_t) place, (size_t) n, (double) got,
              (double) wanted);
    }
}

/* -- cases -- */

struct Case
{
  const char *name;
  gsize n; /* elements, rows, ids or cells; except for sums, a multiple of kBagRows */
  Need (*need) (gsize n);
  /* Stores the number of wrong results in `*n_wrong`. */
  cudaError_t (*run) (Memory *memory, gsize n, int *n_wrong);
};

inline Need
need_of_sums (gsize n)
{
  return { n * sizeof (gfloat), n * sizeof (guint16) };
}

/* Every sum is 3 + 0.5 * 3 = 4.5. */
inline cudaError_t
run_sums (Memory *memory, gsize n, int *n_wrong)
{
  gfloat *sum = memory->output<gfloat> (n);
  guint16 *gradient = memory->input<guint16> (n);
  Steps steps (*memory);

  steps.fill (TPS_DTYPE_FLOAT32, sum, 3, n).fill (TPS_DTYPE_BFLOAT16, gradient, 3, n).then ([=] {
    return tps_cuda_scale_accumulate (nullptr, TPS_DTYPE_BFLOAT16, sum, gradient, 0.5, n);
  });
  check (&steps, sum, n, 4.5f, n_wrong);
  return steps.code;
}

inline Need
need_of_bags (gsize n)
{
  return { grouping_bytes (n, 1, sizeof (gfloat)) + n / kBagRows * sizeof (gfloat)
               + 2 * kTableRows * sizeof (gfloat) + (kTableRows + 1) * sizeof (gint64),
           n * sizeof (gint64) + n / kBagRows * sizeof (gfloat) };
}

/* Pools bags of rows of 1, and computes their gradient. */
inline cudaError_t
run_bags (Memory *memory, gsize n, int *n_wrong)
{
  gsize n_bags = n / kBagRows;
  gint64 *ids = memory->input<gint64> (n), *unique = memory->output<gint64> (kTableRows);
  gint64 *n_unique = memory->output<gint64> (1);
  gfloat *table = memory->output<gfloat> (kTableRows), *output = memory->output<gfloat> (n_bags);
  gfloat *gradient = memory->input<gfloat> (n_bags), *rows = memory->output<gfloat> (kTableRows);
  gfloat got = -1;
  TpsBags bags = {};
  Steps steps (*memory);

  bags.rows = kTableRows;
  bags.dim = 1;
  bags.indices = ids;
  bags.n_indices = n;
  bags.n_bags = n_bags;
  bags.pooling = TPS_POOLING_SUM;
  steps.fill (TPS_DTYPE_INT64, ids, 11, n)
      .fill (TPS_DTYPE_FLOAT32, table, 1, kTableRows)
      .fill (TPS_DTYPE_FLOAT32, gradient, 1, n_bags)
      .then ([&] {
        return tps_cuda_embedding_pool (nullptr, &bags, TPS_DTYPE_FLOAT32, table, output);
      })
      .then ([&] {
        return tps_cuda_embedding_backward_rows (nullptr, &bags, gradient, unique, rows, n_unique);
      })
      .read (&got, rows, 1);
  *n_wrong = got != (gfloat) n;
  check (&steps, output, n_bags, (gfloat) kBagRows, n_wrong);
  return steps.code;
}

/* Cases with more than 2^31 and 2^32 elements, and with more than 2^31 ids. */
constexpr Case kCases[] = {
  { "sum", kTwo31 + 17, need_of_sums, run_sums },
  { "sum", 2 * kTwo31 + 17, need_of_sums, run_sums },
  { "bags", kTwo31 + kBagRows, need_of_bags, run_bags },
};

} /* namespace huge_arrays */

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Cross-entropy, with a warp for each row, and L1. Losses are added in levels, in a fixed order:
 * first the terms of each part, and then parts of these sums. The kernels are memory-bound: 8 bytes
 * per element for cross-entropy if rows fit into the caches, 12 for L1. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/scratch.cuh"

namespace {

using namespace tps;

/* The number of items that a team adds up, and the number that a thread loads before it uses the
 * first. */
constexpr gsize kPart = 1024;
constexpr int kAhead = 4;

struct CrossEntropy
{
  gdouble *row_losses; /* may be NULL */
  gfloat *input_gradient;
  const gfloat *input;
  const gint64 *target;
  gsize rows, columns;

  template <typename Team>
  TPS_BODY void
  run (gsize row, const Team &team) const
  {
    const gfloat *x = input + row * columns;
    gsize wanted = (gsize) target[row];
    gfloat chosen = x[wanted];
    gfloat max = row_max (team, x, columns);
    gdouble sum = row_sum (team, columns, [&] (gsize i) { return (gdouble) expf (x[i] - max); });

    team.sync (); /* all threads have read `chosen`; the gradient may be in place */
    if (input_gradient != nullptr)
      write_gradient (team, row, wanted, chosen, max, sum);
    if (row_losses != nullptr)
      team.each (1,
                 [&] (gsize) { row_losses[row] = log (sum) + (gdouble) max - (gdouble) chosen; });
  }
  template <typename Team>
  TPS_BODY void
  write_gradient (const Team &team, gsize row, gsize wanted, gfloat chosen, gfloat max,
                  gdouble sum) const
  {
    const gfloat *x = input + row * columns;
    gfloat *to = input_gradient + row * columns;
    gdouble factor = 1 / (sum * (gdouble) rows);

    team.each (columns, [&] (gsize i) {
      to[i] = i == wanted ? (gfloat) (exp ((gdouble) (chosen - max)) * factor - 1 / (gdouble) rows)
                          : (gfloat) ((gdouble) expf (x[i] - max) * factor);
    });
  }
};

/* Adds the terms and writes the gradient in one pass. The gradient may be in place, because a
 * thread reads an item before it writes the item. */
template <int V> struct L1Part
{
  using Floats = Pack<gfloat, V>;
  gdouble *parts;         /* may be NULL */
  Floats *input_gradient; /* may be NULL */
  const Floats *input, *target;
  gsize n_packs;
  gfloat step;

  template <typename Team>
  TPS_BODY void
  run (gsize part, const Team &team) const
  {
    gsize first = part * kPart, end = MIN (first + kPart, n_packs);
    gdouble sum = team.reduce ([&] (int lane) { return pass (first + (gsize) lane, end); },
                               [] (gdouble a, gdouble b) { return a + b; });

    if (parts != nullptr)
      team.each (1, [&] (gsize) { parts[part] = sum; });
  }

private:
  /* Handles every 32nd pack from `i` on, and returns the sum of the terms. */
  TPS_BODY gdouble
  pass (gsize i, gsize end) const
  {
    gdouble sum = 0;

    for (; i < end; i += 32 * kAhead)
      {
        Floats a[kAhead], b[kAhead];

        for (int k = 0; k < kAhead; k++)
          if (i + 32 * k < end)
            {
              a[k] = input[i + 32 * k];
              b[k] = target[i + 32 * k];
            }
        for (int k = 0; k < kAhead; k++)
          if (i + 32 * k < end)
            sum += use (i + 32 * k, a[k], b[k]);
      }
    return sum;
  }
  /* Writes the gradient of pack `i`, and returns the sum of its terms. */
  TPS_BODY gdouble
  use (gsize i, Floats a, const Floats &b) const
  {
    gdouble sum = 0;

    for (int v = 0; v < V; v++)
      {
        gfloat d = a.at[v] - b.at[v];

        sum += (gdouble) fabsf (d);
        a.at[v] = d > 0 ? step : d < 0 ? -step : 0 * d;
      }
    if (input_gradient != nullptr)
      input_gradient[i] = a;
    return sum;
  }
};

/* Computes sums[i], the sum of part i of the numbers. */
struct SumParts
{
  gdouble *sums;
  const gdouble *numbers;
  gsize n;

  template <typename Team>
  TPS_BODY void
  run (gsize part, const Team &team) const
  {
    const gdouble *first = numbers + part * kPart;
    gdouble sum = row_sum (team, MIN (kPart, n - part * kPart), [&] (gsize i) { return first[i]; });

    team.each (1, [&] (gsize) { sums[part] = sum; });
  }
};

/* Computes the mean, the sum of the parts / n, by one team. */
struct Mean
{
  gdouble *mean;
  const gdouble *parts;
  gsize n_parts, n;

  template <typename Team>
  TPS_BODY void
  run (gsize, const Team &team) const
  {
    gdouble sum = row_sum (team, n_parts, [&] (gsize i) { return parts[i]; });

    team.each (1, [&] (gsize) { *mean = sum / (gdouble) n; });
  }
};

gsize
parts_of (gsize n)
{
  return n / kPart + (n % kPart != 0 ? 1 : 0);
}

/* Adds the parts up, kPart of them at a time, and divides by `n`. The sums of each level follow the
 * parts in memory; see allocate_parts(). */
cudaError_t
finish_mean (cudaStream_t stream, gdouble *mean, gdouble *parts, gsize n_parts, gsize n)
{
  cudaError_t code = cudaSuccess;

  while (code == cudaSuccess && n_parts > kPart)
    {
      gdouble *sums = parts + n_parts;

      code = teams<32> (stream, parts_of (n_parts), SumParts { sums, parts, n_parts });
      n_parts = parts_of (n_parts);
      parts = sums;
    }
  return code == cudaSuccess ? teams<32> (stream, 1, Mean { mean, parts, n_parts, n }) : code;
}

/* Allocates memory for the parts and for the levels above them. Sets *parts to NULL if `loss` is
 * NULL. */
cudaError_t
allocate_parts (Scratch *scratch, const gdouble *loss, gsize n_parts, gdouble **parts)
{
  cudaError_t code;

  *parts = nullptr;
  if (loss == nullptr)
    return cudaSuccess;
  n_parts += 2 * parts_of (n_parts);
  code = scratch->allocate (Scratch::bytes_of<gdouble> (n_parts));
  if (code == cudaSuccess)
    *parts = scratch->take<gdouble> (n_parts);
  return code;
}

} /* namespace */

cudaError_t
tps_cuda_cross_entropy (cudaStream_t stream, gdouble *loss, gfloat *input_gradient,
                        const gfloat *input, const gint64 *target, gsize rows, gsize columns)
{
  Scratch scratch (stream);
  gdouble *row_losses;
  cudaError_t code;

  if (rows == 0)
    return loss == nullptr ? cudaSuccess : cudaMemsetAsync (loss, 0, sizeof *loss, stream);
  code = allocate_parts (&scratch, loss, rows, &row_losses);
  if (code == cudaSuccess)
    code = teams<32> (stream, rows,
                      CrossEntropy { row_losses, input_gradient, input, target, rows, columns });
  if (code == cudaSuccess && loss != nullptr)
    code = finish_mean (stream, loss, row_losses, rows, rows);
  return code;
}

namespace {

template <int V>
cudaError_t
l1_loss (cudaStream_t stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
         const gfloat *target, gsize n_elems)
{
  using Floats = Pack<gfloat, V>;
  Scratch scratch (stream);
  gsize n_packs = n_elems / V, n_parts = parts_of (n_packs);
  gdouble *parts;
  cudaError_t code = allocate_parts (&scratch, loss, n_parts, &parts);

  if (code == cudaSuccess)
    code = teams<32> (stream, n_parts,
                      L1Part<V> { parts, (Floats *) input_gradient, (const Floats *) input,
                                  (const Floats *) target, n_packs, 1 / (gfloat) n_elems });
  if (code == cudaSuccess && loss != nullptr)
    code = finish_mean (stream, loss, parts, n_parts, n_elems);
  return code;
}

} /* namespace */

cudaError_t
tps_cuda_l1_loss (cudaStream_t stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
                  const gfloat *target, gsize n_elems)
{
  if (n_elems == 0)
    return loss == nullptr ? cudaSuccess : cudaMemsetAsync (loss, 0, sizeof *loss, stream);
  if (tps_cuda_geometry_columns (n_elems, input_gradient, input, target) == 4)
    return l1_loss<4> (stream, loss, input_gradient, input, target, n_elems);
  return l1_loss<1> (stream, loss, input_gradient, input, target, n_elems);
}

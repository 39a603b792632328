/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Cross-entropy, with a warp for each row, and L1. Losses are added in two steps, both in a fixed
 * order: the terms of each part, then the parts. Bound: memory; cross-entropy 8 bytes per element
 * if rows fit into the caches, L1 12. */

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/rows.cuh"
#include "cuda/kernels/scratch.cuh"

namespace {

using namespace tps;

constexpr gsize kPart = 4096;

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

struct L1Part
{
  gdouble *parts; /* may be NULL */
  gfloat *input_gradient;
  const gfloat *input, *target;
  gsize n_elems;
  gfloat step;

  template <typename Team>
  TPS_BODY void
  run (gsize part, const Team &team) const
  {
    gsize first = part * kPart, n = MIN (kPart, n_elems - first);
    const gfloat *a = input + first, *b = target + first;
    gdouble sum = row_sum (team, n, [&] (gsize i) { return (gdouble) fabsf (a[i] - b[i]); });

    if (parts != nullptr)
      team.each (1, [&] (gsize) { parts[part] = sum; });
    if (input_gradient != nullptr)
      team.each (n, [&] (gsize i) {
        gfloat d = a[i] - b[i];

        input_gradient[first + i] = d > 0 ? step : d < 0 ? -step : 0 * d;
      });
  }
};

/* mean = the sum of the parts / n, computed by one team. */
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

/* Sets *parts to NULL if `loss` is NULL. */
cudaError_t
allocate_parts (Scratch *scratch, const gdouble *loss, gsize n_parts, gdouble **parts)
{
  cudaError_t code;

  *parts = nullptr;
  if (loss == nullptr)
    return cudaSuccess;
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
    code = teams<32> (stream, 1, Mean { loss, row_losses, rows, rows });
  return code;
}

cudaError_t
tps_cuda_l1_loss (cudaStream_t stream, gdouble *loss, gfloat *input_gradient, const gfloat *input,
                  const gfloat *target, gsize n_elems)
{
  Scratch scratch (stream);
  gsize n_parts = n_elems / kPart + (n_elems % kPart != 0 ? 1 : 0);
  gdouble *parts;
  cudaError_t code;

  if (n_elems == 0)
    return loss == nullptr ? cudaSuccess : cudaMemsetAsync (loss, 0, sizeof *loss, stream);
  code = allocate_parts (&scratch, loss, n_parts, &parts);
  if (code == cudaSuccess)
    code = teams<32> (
        stream, n_parts,
        L1Part { parts, input_gradient, input, target, n_elems, 1 / (gfloat) n_elems });
  if (code == cudaSuccess && loss != nullptr)
    code = teams<32> (stream, 1, Mean { loss, parts, n_parts, n_elems });
  return code;
}

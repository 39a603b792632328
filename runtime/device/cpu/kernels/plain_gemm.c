/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/cpu/kernels/plain_gemm.h"

void
tps_cpu_plain_gemm (const TpsGemm *gemm)
{
  /* Distances between the rows and between the columns of op (a) and op (b), in elements. */
  gsize a_row = gemm->transpose_a ? 1 : gemm->k, a_column = gemm->transpose_a ? gemm->m : 1;
  gsize b_row = gemm->transpose_b ? 1 : gemm->n, b_column = gemm->transpose_b ? gemm->k : 1;

  for (gsize i = 0; i < gemm->m; i++)
    for (gsize j = 0; j < gemm->n; j++)
      {
        gfloat *c = &gemm->c[i * gemm->n + j];
        gdouble sum = 0;

        for (gsize p = 0; p < gemm->k; p++)
          sum += (gdouble) gemm->a[i * a_row + p * a_column] * gemm->b[p * b_row + j * b_column];
        *c = (gfloat) (gemm->alpha * sum + (gemm->beta != 0 ? gemm->beta * (gdouble) *c : 0));
      }
}

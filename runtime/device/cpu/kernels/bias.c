/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "runtime/device/cpu/kernels/layers.h"
#include "runtime/device/cpu/kernels/vectorize.h"

TPS_TARGET_CLONES static void
add (gfloat *sum, const gfloat *addend, gsize n)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n; i++)
    sum[i] += addend[i];
}

void
tps_cpu_bias_add (gfloat *values, const gfloat *bias, gsize rows, gsize columns)
{
  for (gsize row = 0; row < rows; row++)
    add (values + row * columns, bias, columns);
}

void
tps_cpu_column_sum (gfloat *sums, const gfloat *values, gsize rows, gsize columns)
{
  if (columns > 0)
    memset (sums, 0, columns * sizeof sums[0]);
  for (gsize row = 0; row < rows; row++)
    add (sums, values + row * columns, columns);
}

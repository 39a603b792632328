/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "runtime/trainer/dense/layers.h"
#include "runtime/device/cpu/kernels/tree_sum.h"
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
  gsize row_bytes = columns * sizeof sums[0];
  g_autoptr (TpsBuffer) levels = tps_buffer_new (tps_tree_sum_levels (rows) * row_bytes);
  TpsTreeSum tree;

  if (columns > 0)
    memset (sums, 0, row_bytes);
  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, columns, sums, tps_buffer_get_data (levels),
                     row_bytes);
  for (gsize row = 0; row < rows; row++)
    {
      /* The sum of a chunk starts at 0. It equals the sum of the rows, but is never -0. */
      if (tps_tree_sum_next (&tree) && row_bytes > 0)
        memset (sums, 0, row_bytes);
      add (sums, values + row * columns, columns);
    }
  tps_tree_sum_finish (&tree);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/group/rank_order.h"

#include "runtime/device/cpu/kernels/elementwise.h"

#define BLOCK 4096 /* elements; the sum stays in the first-level cache */

/* sum = the weighted sum of [start, start + n_elems) of all parts. Returns FALSE, with an undefined
 * sum, if all weights are 0. */
static gboolean
sum_block (TpsDType dtype, gfloat *sum, const gconstpointer *parts, const gdouble *weights,
           guint n_parts, gsize start, gsize n_elems)
{
  gboolean has_sum = FALSE;

  for (guint p = 0; p < n_parts; p++)
    {
      gconstpointer part = (const guint8 *) parts[p] + start * tps_dtype_size (dtype);

      if (weights[p] == 0)
        continue;
      if (has_sum)
        tps_cpu_scale_accumulate (dtype, sum, part, weights[p], n_elems);
      else
        tps_cpu_scale (dtype, sum, part, weights[p], n_elems);
      has_sum = TRUE;
    }
  return has_sum;
}

void
tps_average_in_rank_order (TpsDType dtype, gpointer out, const gconstpointer *parts,
                           const gdouble *weights, guint n_parts, gdouble divisor, gsize n_elems)
{
  gfloat sum[BLOCK];

  for (gsize start = 0; start < n_elems; start += BLOCK)
    {
      gsize n = MIN (BLOCK, n_elems - start);

      if (sum_block (dtype, sum, parts, weights, n_parts, start, n))
        tps_cpu_divide (dtype, (guint8 *) out + start * tps_dtype_size (dtype), sum, divisor, n);
    }
}

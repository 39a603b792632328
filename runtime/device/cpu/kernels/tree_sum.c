/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A chunk moves up when the next chunk begins, not when it is complete. A list of exactly one chunk
 * therefore needs no level above it. */

#include "runtime/device/cpu/kernels/tree_sum.h"

#include <string.h>

#include "runtime/device/cpu/kernels/elementwise.h"

static guint8 *
row_of (TpsTreeSum *tree, guint level)
{
  return tree->levels + level * tree->stride;
}

static void
push (TpsTreeSum *tree, guint level, const guint8 *from, gsize i)
{
  guint8 *row = row_of (tree, level);

  if (i % TPS_SUM_CHUNK != 0)
    {
      tps_cpu_accumulate (tree->dtype, row, from, tree->dim);
      return;
    }
  if (i > 0)
    push (tree, level + 1, row, i / TPS_SUM_CHUNK - 1);
  if (tree->dim > 0)
    memcpy (row, from, tree->dim * tps_dtype_size (tree->dtype));
}

void
tps_tree_sum_carry (TpsTreeSum *tree)
{
  /* tree->n already includes the next term. */
  push (tree, 0, tree->sum, (tree->n - 1) / TPS_SUM_CHUNK - 1);
}

void
tps_tree_sum_finish (TpsTreeSum *tree)
{
  /* The number of complete chunks before the chunk in `sum`. */
  gsize n_before = tree->n > 0 ? (tree->n - 1) / TPS_SUM_CHUNK : 0;

  /* Adds the incomplete chunk of each level to the sum, from the lowest level upwards. A complete
   * chunk moves up instead. */
  for (guint level = 0; n_before > 0; level++, n_before /= TPS_SUM_CHUNK)
    if (n_before % TPS_SUM_CHUNK != 0)
      tps_cpu_accumulate (tree->dtype, tree->sum, row_of (tree, level), tree->dim);
    else
      push (tree, level + 1, row_of (tree, level), n_before / TPS_SUM_CHUNK - 1);
}

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

/* Adds row `from` to the chunk of `level`, as element `i` of the list of this level. */
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

/* Returns the tree of one column of `row`. Its levels are in `sums`. */
static TpsTreeSum
cell_tree (const TpsCellSums *sums, gfloat *row, gsize column)
{
  TpsTreeSum tree;

  tps_tree_sum_init (&tree, TPS_DTYPE_FLOAT32, 1, &row[column], sums->levels + column,
                     sums->dim * sizeof (gfloat));
  tree.n = sums->counts[column];
  return tree;
}

void
tps_cell_sums_add_up (const TpsCellSums *sums, const gfloat *output_gradient, const gsize *cells,
                      gsize n, gfloat *row)
{
  gsize dim = sums->dim;

  memset (row, 0, dim * sizeof row[0]);
  /* For one chunk, sequential additions give the same bits as the tree. */
  for (gsize i = 0; n <= TPS_SUM_CHUNK && i < n; i++)
    row[cells[i] % dim] += output_gradient[cells[i]];
  if (n <= TPS_SUM_CHUNK)
    return;
  memset (sums->counts, 0, dim * sizeof sums->counts[0]);
  for (gsize i = 0; i < n; i++)
    {
      gsize column = cells[i] % dim;
      TpsTreeSum tree = cell_tree (sums, row, column);

      if (tps_tree_sum_next (&tree))
        row[column] = 0;
      row[column] += output_gradient[cells[i]];
      sums->counts[column] = tree.n;
    }
  for (gsize column = 0; column < dim; column++)
    {
      TpsTreeSum tree = cell_tree (sums, row, column);

      tps_tree_sum_finish (&tree);
    }
}

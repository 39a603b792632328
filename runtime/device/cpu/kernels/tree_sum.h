/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of lists of rows by the fixed tree of runtime/device/backend.h: chunks of TPS_SUM_CHUNK
 * terms, whose sums are a list again. Terms come one after the other, and the caller puts each
 * where the tree says:
 *
 *   tps_tree_sum_init (&tree, dtype, dim, sum, levels, stride);
 *   for (each term)
 *     if (tps_tree_sum_next (&tree))
 *       sum = term;
 *     else
 *       sum += term;
 *   tps_tree_sum_finish (&tree);
 *
 * Until the end `sum` holds the chunk that is under way. A list of one chunk touches no level.
 * Thread: a tree one at a time. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDType dtype; /* of sums: FLOAT32 or FLOAT64 */
  gsize dim;
  gsize n; /* terms so far, the next one included */
  guint8 *sum;
  guint8 *levels; /* row l is the chunk that is under way on level l + 1 */
  gsize stride;   /* bytes between levels */
} TpsTreeSum;

/* How many levels a list of `n_terms` needs. */
static inline guint
tps_tree_sum_levels (gsize n_terms)
{
  guint n_levels = 0;

  for (; n_terms > TPS_SUM_CHUNK; n_terms = (n_terms + TPS_SUM_CHUNK - 1) / TPS_SUM_CHUNK)
    n_levels++;
  return n_levels;
}

/* `sum` and the `levels`, each [dim] of `dtype`, are borrowed until the tree is finished; they need
 * no contents. */
static inline void
tps_tree_sum_init (TpsTreeSum *tree, TpsDType dtype, gsize dim, gpointer sum, gpointer levels,
                   gsize stride)
{
  *tree = (TpsTreeSum) {
    .dtype = dtype, .dim = dim, .sum = sum, .levels = levels, .stride = stride
  };
}

/* Moves the chunk in `sum`, which is complete, to the level above. */
void tps_tree_sum_carry (TpsTreeSum *tree);

/* Before each term. TRUE: it is put into `sum`; FALSE: it is added to what is there. */
static inline gboolean
tps_tree_sum_next (TpsTreeSum *tree)
{
  gsize n_before = tree->n++;

  if (n_before % TPS_SUM_CHUNK != 0)
    return FALSE;
  if (n_before > 0)
    tps_tree_sum_carry (tree);
  return TRUE;
}

/* `sum` becomes the sum of all; it stays as it is where there was no term. */
void tps_tree_sum_finish (TpsTreeSum *tree);

/* The working space of rows whose cells are sums of their own. Borrowed. */
typedef struct
{
  gsize dim;
  gsize *counts;  /* [dim] */
  gfloat *levels; /* [levels, dim], for as many terms as a column has */
} TpsCellSums;

/* row [dim] = 0 + the gradients of cells `cells` [n] of the output, each in its column. */
void tps_cell_sums_add_up (const TpsCellSums *sums, const gfloat *output_gradient,
                           const gsize *cells, gsize n, gfloat *row);

G_END_DECLS

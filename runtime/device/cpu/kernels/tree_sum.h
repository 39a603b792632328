/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sums of lists of rows by the fixed tree of runtime/device/backend.h: the sums of chunks of
 * TPS_SUM_CHUNK terms form a new list. The caller must add the terms one after another, as
 * tps_tree_sum_next() directs:
 *
 *   tps_tree_sum_init (&tree, dtype, dim, sum, levels, stride);
 *   for (each term)
 *     if (tps_tree_sum_next (&tree))
 *       sum = term;
 *     else
 *       sum += term;
 *   tps_tree_sum_finish (&tree);
 *
 * Until tps_tree_sum_finish(), `sum` holds the sum of the current chunk. A list of one chunk uses
 * no level. Thread: a tree must be used by one thread at a time. */

#pragma once

#include "runtime/device/backend.h"

typedef struct
{
  TpsDType dtype; /* of the sums: FLOAT32 or FLOAT64 */
  gsize dim;
  gsize n; /* terms so far, including the next one */
  guint8 *sum;
  guint8 *levels; /* row l is the current chunk of level l + 1 */
  gsize stride;   /* bytes between levels */
} TpsTreeSum;

/* Returns the number of levels that a list of `n_terms` needs. */
static inline guint
tps_tree_sum_levels (gsize n_terms)
{
  guint n_levels = 0;

  for (; n_terms > TPS_SUM_CHUNK; n_terms = (n_terms + TPS_SUM_CHUNK - 1) / TPS_SUM_CHUNK)
    n_levels++;
  return n_levels;
}

/* Starts a sum. `sum` and each of the `levels`, which begin `stride` bytes apart, must be [dim] of
 * `dtype`. They may be uninitialised, and are borrowed until the tree is finished. */
static inline void
tps_tree_sum_init (TpsTreeSum *tree, TpsDType dtype, gsize dim, gpointer sum, gpointer levels,
                   gsize stride)
{
  *tree = (TpsTreeSum) {
    .dtype = dtype, .dim = dim, .sum = sum, .levels = levels, .stride = stride
  };
}

/* Adds the complete chunk in `sum` to the level above. For tps_tree_sum_next(). */
void tps_tree_sum_carry (TpsTreeSum *tree);

/* Must be called before each term. If it returns TRUE, the caller must store the term in `sum`;
 * otherwise, the caller must add the term to `sum`. */
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

/* Completes the sum of all terms. Without any term, `sum` does not change. */
void tps_tree_sum_finish (TpsTreeSum *tree);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Operations on rows selected by id, below the backend table: embedding bags, and sums of bags.
 * Scratch memory comes from the default pool. Thread: any. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The start value of a sum: -0 + x is x, even for x = -0. */
#define TPS_NOTHING (-0.0f)

/* Returns the position of the first index of `bag`, or the end of the last bag if `bag` is
 * n_bags. */
static inline gsize
tps_bag_start (const TpsBags *bags, gsize bag)
{
  if (bag == bags->n_bags)
    return bags->n_indices;
  return bags->offsets != NULL ? (gsize) bags->offsets[bag]
                               : bag * (bags->n_indices / bags->n_bags);
}

/* Implements the slot embedding_pool for a FLOAT32 table. */
void tps_cpu_embedding_pool (const TpsBags *bags, const gfloat *table, gfloat *output);

/* Implements the slot embedding_pool for a table of `dtype`, FLOAT16 or BFLOAT16. Rows are always
 * added in the given order. */
void tps_cpu_embedding_pool_half (const TpsBags *bags, TpsDType dtype, gconstpointer table,
                                  gfloat *output);

/* Implements the slot embedding_backward. */
void tps_cpu_embedding_backward (const TpsBags *bags, const gfloat *output_gradient,
                                 gfloat *table_gradient);

/* Implements the slot embedding_backward_rows. Returns the number of unique ids. */
gsize tps_cpu_embedding_backward_rows (const TpsBags *bags, const gfloat *output_gradient,
                                       gint64 *unique_indices, gfloat *row_gradients);

/* sum[d] += rows[0][d], then rows[1][d], …, in this order; `sum` must not be one of them. `rows`
 * must have n_rows + n_ahead pointers, of which the last n_ahead are prefetched and need not be
 * valid. */
void tps_cpu_add_rows (gfloat *sum, const gfloat *const *rows, gsize n_rows, gsize n_ahead,
                       gsize dim);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows by their ids, below the backend table: coalescing, and embedding bags. Meanings: the slots of runtime/backend.h.
 * Thread: any; scratch memory comes from the default pool. */

#pragma once

#include "runtime/backend.h"

G_BEGIN_DECLS

/* Returns the number of unique ids. */
gsize tps_cpu_coalesce_rows (TpsDType dtype, const gint64 *indices, gconstpointer values,
                             gsize n_rows, gsize dim, gint64 *unique_indices, gpointer sums);

void tps_cpu_embedding_pool (const TpsBags *bags, const gfloat *table, gfloat *output,
                             gint64 *argmax);

void tps_cpu_embedding_backward (const TpsBags *bags, const gfloat *output_gradient,
                                 const gint64 *argmax, gfloat *table_gradient);

/* Returns the number of unique ids. */
gsize tps_cpu_embedding_backward_rows (const TpsBags *bags, const gfloat *output_gradient,
                                       const gint64 *argmax, gint64 *unique_indices,
                                       gfloat *row_gradients);

G_END_DECLS

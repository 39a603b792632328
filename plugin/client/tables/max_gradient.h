/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Converts the gradient of bags with pooling MAX that span several shards into gradients of
 * rows. */

#pragma once

#include "runtime/embedding/bag_query.h"

G_BEGIN_DECLS

/* The converted gradient: one bag for each row that holds a maximum, with only this row. A server
 * adds up the gradients of maxima by row before it applies them; the gradients of these bags are
 * the same sums. */
typedef struct
{
  TpsBagGradient gradient; /* borrows from the other fields */
  TpsTensor indices, offsets, values;
} TpsMaxGradient;

/* Converts `maxima`, which must have been checked. `rows`, FLOAT32 [n_indices, dim], are the
 * current rows of the indices; `table_rows` is the number of rows of the table. The caller must
 * clear `expanded`, which may outlive `rows`, but borrows the table name of `maxima`. */
void tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *maxima,
                            TpsTensorView rows, gint64 table_rows);
void tps_max_gradient_clear (TpsMaxGradient *expanded);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The gradient of maxima whose rows are in several places, as gradients of rows. */

#pragma once

#include "runtime/embedding/bag_query.h"

G_BEGIN_DECLS

/* Bags with one row each, one for each row that is a maximum somewhere. A server collects the
 * gradients of maxima by row before it adds them to its rows; the sums of these bags are the same
 * numbers. */
typedef struct
{
  TpsBagGradient gradient; /* borrows from the other fields */
  TpsTensor indices, offsets, values;
} TpsMaxGradient;

/* Expands `maxima`, which must have been checked. `rows` FLOAT32 [n_indices, dim]: the current rows
 * of its indices. `table_rows`: number of rows of the table. */
void tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *maxima,
                            TpsTensorView rows, gint64 table_rows);
void tps_max_gradient_clear (TpsMaxGradient *expanded);

G_END_DECLS

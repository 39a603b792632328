/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The gradient of maxima whose rows are in several places, as gradients of rows. */

#pragma once

#include "runtime/embedding/bag_query.h"

G_BEGIN_DECLS

/* Bags of one row each, one for each row that is a maximum somewhere: what a server would have
 * added to its rows for the maxima, which it collects by row first, is what it adds for the sums of
 * these. */
typedef struct
{
  TpsBagGradient gradient; /* borrows from the rest */
  TpsTensor indices, offsets, values;
} TpsMaxGradient;

/* `maxima` is checked; `rows` FLOAT32 [n_indices, dim]: the rows of its indices, as they are now;
 * `table_rows`: how many the table has. */
void tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *maxima,
                            TpsTensorView rows, gint64 table_rows);
void tps_max_gradient_clear (TpsMaxGradient *expanded);

G_END_DECLS

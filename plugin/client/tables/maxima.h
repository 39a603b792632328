/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Bags with pooling MAX. Servers refuse them: the client fetches the rows of the bags, finds the
 * maximum of each column, and pushes the gradients of the rows that hold a maximum.
 *
 * The first of equal values is the maximum, and a NaN wins over numbers. The vector of an empty bag
 * is zero. */

#pragma once

#include <thriftps/tables.h>

G_BEGIN_DECLS

/* Pools the bags of `query`, which must have been checked. `rows`, FLOAT32 [n_indices, dim], are
 * the rows of its indices, in their order. `output` becomes FLOAT32 [bags, dim], and `maxima` INT64
 * [bags, dim]: the id of the row that holds the maximum of a column, or -1 in an empty bag. Both
 * must be zero on entry; the caller owns them. Thread: any. */
void tps_maxima_find (const TpsBagQuery *query, TpsTensorView rows, TpsTensor *output,
                      TpsTensor *maxima);

/* The gradients of the rows that hold maxima: one bag for each of these rows, with only this
 * row. */
typedef struct
{
  TpsBagGradient gradient; /* borrows from the other fields */
  TpsTensor indices, offsets, values;
} TpsMaxGradient;

/* Converts the gradient of bags with pooling MAX. `maxima` is as from tps_maxima_find(). Each row
 * has the sum of the gradients of its cells, in the order of the bags, and 0 in all other columns.
 * The caller must clear `expanded`, which borrows the table name of `pooled`. Thread: any. */
void tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *pooled,
                            TpsTensorView maxima);
void tps_max_gradient_clear (TpsMaxGradient *expanded);

G_END_DECLS

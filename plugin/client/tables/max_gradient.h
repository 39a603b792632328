/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The gradient of maxima whose rows are in several places, as gradients of rows. */

#pragma once

#include "runtime/embedding/bag_query.h"

G_BEGIN_DECLS

/* Sums of bags that have one row each: what a server adds to the rows then is what it would have added for the maxima, in
 * the same order. */
typedef struct
{
  TpsBagGradient gradient; /* borrows from the rest */
  TpsTensor indices, offsets, values;
} TpsMaxGradient;

/* `maxima` is checked; `rows` FLOAT32 [n_indices, dim]: the rows of its indices, as they are now. */
void tps_max_gradient_init (TpsMaxGradient *expanded, const TpsBagGradient *maxima,
                            TpsTensorView rows);
void tps_max_gradient_clear (TpsMaxGradient *expanded);

G_END_DECLS

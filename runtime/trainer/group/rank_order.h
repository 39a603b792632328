/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* out = the sum of weights[p] * parts[p] in FLOAT32, in order and without parts of weight 0,
 * divided by `divisor` and rounded once. This is the averaging server's arithmetic for FLOAT16,
 * BFLOAT16 and FLOAT32. `out` may be one of the parts; it does not change if all weights are 0. */
void tps_average_in_rank_order (TpsDType dtype, gpointer out, const gconstpointer *parts,
                                const gdouble *weights, guint n_parts, gdouble divisor,
                                gsize n_elems);

G_END_DECLS

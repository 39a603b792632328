/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A growing sum of sparse gradients: rows in ascending order of their ids, each id once.
 *
 * The bits depend on the order in which gradients are added and on nothing else: a row of the sum
 * is the sum, in that order, of the gradients that have the row; one that has not adds nothing (not
 * zero).
 */

#pragma once

#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

/* sum += weight * gradient. `sum` is TPS_GRADIENT_NONE at first, then sparse with values in the
 * type in which the gradient's dtype is added up; its elements belong to nobody else. Rows that an
 * unsorted gradient repeats are combined first, in their given order. What `gradient` held may be
 * taken over; it is the caller's to clear in any case. Memory comes from `buffers`. Errors:
 * TPS_ERROR_RESOURCE_EXHAUSTED. Thread: one at a time per sum. */
gboolean tps_sparse_sum_add (TpsGradient *sum, TpsGradient *gradient, TpsBufferPool *buffers,
                             GError **error);

G_END_DECLS

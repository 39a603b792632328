/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A growing sum of sparse gradients: rows in ascending order of their ids, each id once.
 *
 * The bits depend only on the order in which gradients are added. A row of the sum is the sum, in
 * that order, of the gradients that contain the row; other gradients add nothing to it (not zero).
 */

#pragma once

#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

/* sum += weight * gradient. `sum` is TPS_GRADIENT_NONE at first, then sparse with values in the
 * type in which the gradient's dtype is added up; its elements must have no other owner. Rows that
 * an unsorted gradient repeats are combined first, in their given order. The memory of `gradient`
 * may be taken over; the caller must clear it in any case. Memory comes from `buffers`. Errors:
 * TPS_ERROR_RESOURCE_EXHAUSTED. Thread: one at a time for each sum. */
gboolean tps_sparse_sum_add (TpsGradient *sum, TpsGradient *gradient, TpsBufferPool *buffers,
                             GError **error);

G_END_DECLS

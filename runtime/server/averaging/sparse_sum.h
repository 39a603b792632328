/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A running sum of sparse gradients: rows in ascending order of their ids, each id once.
 *
 * The bits depend only on the order in which gradients are added. A row of the sum is the sum, in
 * this order, of the gradients that contain the row; other gradients leave the row unchanged (zero
 * is not added).
 */

#pragma once

#include "runtime/tensor/gradient.h"

G_BEGIN_DECLS

/* sum += weight * gradient. `sum` must be TPS_GRADIENT_NONE before the first call. It then is
 * sparse, with values of the type in which the gradients' dtype is added up; the elements of `sum`
 * must have no other owner. If an unsorted gradient repeats rows, these are combined first, in
 * their given order. May take over the memory of `gradient`; the caller must clear `gradient` in
 * any case. New memory comes from `buffers`. Errors: TPS_ERROR_RESOURCE_EXHAUSTED. Thread: one at a
 * time for each sum. */
gboolean tps_sparse_sum_add (TpsGradient *sum, TpsGradient *gradient, TpsBufferPool *buffers,
                             GError **error);

G_END_DECLS

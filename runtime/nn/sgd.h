/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The optimizer SGD, as torch.optim.SGD without dampening and Nesterov momentum, for the parameters
 * of a model. It keeps the velocities; values and gradients belong to others, and a gradient need
 * not be the one that the parameter points to. All lie in memory of the stream's device. Steps
 * enqueue: they follow what is queued on the stream, as a model's backward pass on its own, and
 * what they were given stays as it is until the stream has passed. One thread at a time.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/nn/model.h"

G_BEGIN_DECLS

typedef struct TpsSgd TpsSgd;

/* `stream` is borrowed. Factors: finite, >= 0; errors: INVALID_ARGUMENT naming which. */
TpsSgd *tps_sgd_new (TpsStream *stream, const TpsSgdFactors *factors, guint n_parameters,
                     GError **error);
/* Waits for the stream. */
void tps_sgd_free (TpsSgd *sgd);

/* Parameter number `index` makes a step along `gradient` [n_elems]. Errors, of its first step with
 * momentum, which allocates the velocity: RESOURCE_EXHAUSTED, DEVICE_LOST; then it made none. */
gboolean tps_sgd_step (TpsSgd *sgd, guint index, TpsParameter *parameter, const gfloat *gradient,
                       GError **error);

/* A step along some rows: a SPARSE FLOAT32 gradient, ids unique and in range. Other rows are not
 * touched: with momentum or weight decay this differs from PyTorch, where untouched rows go on
 * moving, or which refuses. Errors: as above. */
gboolean tps_sgd_step_rows (TpsSgd *sgd, guint index, TpsParameter *parameter,
                            const TpsGradient *gradient, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSgd, tps_sgd_free)

G_END_DECLS

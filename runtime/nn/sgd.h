/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The optimizer SGD for the parameters of a model, as torch.optim.SGD without dampening and
 * Nesterov momentum. It owns the velocities but neither values nor gradients; a gradient need not
 * be the one that the parameter points to. All of them lie in memory of the stream's device. Steps
 * enqueue on the stream, after its queued work such as the model's backward pass. Their arguments
 * must not change until the stream has passed. Thread: one at a time.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/nn/model.h"

G_BEGIN_DECLS

typedef struct TpsSgd TpsSgd;

/* Creates an optimizer, owned by the caller. `stream` is borrowed. Factors must be finite and >= 0.
 * Errors: INVALID_ARGUMENT naming the factor. */
TpsSgd *tps_sgd_new (TpsStream *stream, const TpsSgdFactors *factors, guint n_parameters,
                     GError **error);
/* Waits for the stream and frees the optimizer. */
void tps_sgd_free (TpsSgd *sgd);

/* Updates parameter number `index` by `gradient` [n_elems]. With momentum, the first step of a
 * parameter allocates its velocity. Errors of that step: RESOURCE_EXHAUSTED, DEVICE_LOST; then the
 * parameter has not changed. */
gboolean tps_sgd_step (TpsSgd *sgd, guint index, TpsParameter *parameter, const gfloat *gradient,
                       GError **error);

/* Updates some rows by a SPARSE FLOAT32 gradient, whose ids must be unique and in range. Other rows
 * do not change. With momentum or weight decay this differs from PyTorch, which keeps moving the
 * other rows or refuses the gradient. Errors: as above. */
gboolean tps_sgd_step_rows (TpsSgd *sgd, guint index, TpsParameter *parameter,
                            const TpsGradient *gradient, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSgd, tps_sgd_free)

G_END_DECLS

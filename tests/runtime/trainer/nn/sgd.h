/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The optimizer SGD for the parameters of a model, as torch.optim.SGD without dampening and
 * Nesterov momentum. The optimizer owns the velocities but neither values nor gradients; a gradient
 * need not be parameter->gradient. Values, gradients and velocities must lie in memory of the
 * stream's device. Steps only enqueue work on the stream. Their arguments must not change until the
 * stream has passed this work. Thread: one at a time.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/trainer/nn/model.h"

G_BEGIN_DECLS

typedef struct TpsSgd TpsSgd;

/* Creates an optimizer, owned by the caller, which borrows `stream`. Factors must be finite and >=
 * 0. Errors: INVALID_ARGUMENT (NULL); the message names the factor. */
TpsSgd *tps_sgd_new (TpsStream *stream, const TpsSgdFactors *factors, guint n_parameters,
                     GError **error);
/* Waits for the stream and frees the optimizer. Blocks. */
void tps_sgd_free (TpsSgd *sgd);

/* Updates parameter number `index` by `gradient` [n_elems]. With momentum, the first step of a
 * parameter allocates its velocity. Errors of this allocation: RESOURCE_EXHAUSTED, DEVICE_LOST; the
 * parameter has not changed then. */
gboolean tps_sgd_step (TpsSgd *sgd, guint index, TpsParameter *parameter, const gfloat *gradient,
                       GError **error);

/* As tps_sgd_step(), but updates only the rows of a SPARSE FLOAT32 gradient, whose ids must be
 * unique and in range. With momentum or weight decay, this differs from PyTorch, which also updates
 * the other rows or refuses the gradient. */
gboolean tps_sgd_step_rows (TpsSgd *sgd, guint index, TpsParameter *parameter,
                            const TpsGradient *gradient, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSgd, tps_sgd_free)

G_END_DECLS

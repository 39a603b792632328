/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The optimizer SGD, as torch.optim.SGD without dampening and Nesterov momentum, for the parameters of a model. It keeps
 * the velocities; values and gradients belong to others, and a gradient need not be the one that the parameter points to.
 * One thread at a time.
 */

#pragma once

#include "runtime/backend.h"
#include "runtime/nn/model.h"

G_BEGIN_DECLS

typedef struct TpsSgd TpsSgd;

/* `device`: where values and gradients lie; NULL = the CPU. Factors: finite, >= 0; errors: INVALID_ARGUMENT naming which. */
TpsSgd *tps_sgd_new (TpsDevice *device, const TpsSgdFactors *factors, guint n_parameters,
                     GError **error);
void tps_sgd_free (TpsSgd *sgd);

/* Parameter number `index` makes a step along `gradient` [n_elems]. */
void tps_sgd_step (TpsSgd *sgd, guint index, TpsParameter *parameter, const gfloat *gradient);

/* A step along some rows: a SPARSE FLOAT32 gradient, ids unique and in range. Other rows are not touched: with momentum or
 * weight decay this differs from PyTorch, where untouched rows go on moving, or which refuses. */
void tps_sgd_step_rows (TpsSgd *sgd, guint index, TpsParameter *parameter,
                        const TpsGradient *gradient);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSgd, tps_sgd_free)

G_END_DECLS

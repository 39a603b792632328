/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dense layers of one trainer. An all-reduce adds up the gradients of all trainers. The losses
 * of all trainers form one mean, so each trainer divides its gradients by the number of samples of
 * all trainers. */

#pragma once

#include "bench/dlrm/click_batch.h"
#include "runtime/trainer/nn/dlrm_model.h"
#include "runtime/trainer/ddp/ddp.h"

G_BEGIN_DECLS

/* The layers and the state of their passes. */
typedef struct
{
  TpsModel *model;
  TpsDdp *ddp;
  TpsHookContext context;
  gdouble learning_rate;
  gfloat *output_gradient; /* [max_samples] */
} TpsDlrmDense;

/* Creates the layers. `group` is borrowed. It must be freed before the layers, because it may still
 * use their memory. `seed` must be the same on all trainers. Errors: those of the model and of the
 * group. */
gboolean tps_dlrm_dense_init (TpsDlrmDense *dense, gsize dim, gsize max_samples, gint64 seed,
                              gdouble learning_rate, TpsProcessGroup *group, GError **error);
void tps_dlrm_dense_clear (TpsDlrmDense *dense);

/* Computes the logits of the samples and the gradient of their loss, divided by `divisor`. `logits`
 * is borrowed until the next pass. The pooled vectors must be in place (tps_dlrm_model_reserve()).
 * Errors: those of the model. */
gboolean tps_dlrm_dense_forward (TpsDlrmDense *dense, const TpsClickBatch *batch, gdouble divisor,
                                 const gfloat **logits, GError **error);

/* Runs the backward pass and the all-reduce, and updates the parameters. Blocks. Errors: those of
 * the group. */
gboolean tps_dlrm_dense_backward (TpsDlrmDense *dense, GError **error);

G_END_DECLS

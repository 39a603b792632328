/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dense part of a recommender: a bottom MLP of the dense features, the dot interaction of the
 * MLP's output with one pooled vector of each embedding table, and a top MLP with one output, the
 * logit of a click (Naumov et al., 2019). The tables are not a part of the model.
 *
 * A step: tps_dlrm_model_reserve(), the caller writes the vectors, forward, loss, backward. The
 * backward pass computes the gradient of the vectors first, so that its push overlaps the
 * computation of the parameters' gradients. The model computes on the CPU. It is not in the
 * registry of models, because its input consists of two parts; `create` and `check_batch` of its
 * class are NULL. */

#pragma once

#include "runtime/trainer/nn/model.h"

G_BEGIN_DECLS

#define TPS_DLRM_MAX_HIDDEN 3

/* The lists of the widths of hidden layers must end with 0. The bottom MLP ends with a layer of
 * width `dim`, and the top MLP with a layer of width 1. */
typedef struct
{
  gsize n_dense;  /* dense features of a sample */
  gsize n_tables; /* pooled vectors of a sample */
  gsize dim;      /* floats of a vector */
  gsize bottom[TPS_DLRM_MAX_HIDDEN + 1], top[TPS_DLRM_MAX_HIDDEN + 1];
} TpsDlrmShape;

/* Functions that the backward pass calls on its thread; either may be NULL. */
typedef struct
{
  /* Called when the gradient of the features, [rows, 1 + n_tables, dim], is complete. `gradient` is
   * borrowed until the next forward pass and must not be changed. The gradient of the first vector
   * of each row belongs to the model. */
  void (*features_ready) (gpointer user_data, gfloat *gradient, gsize rows);
  /* Called when the gradients of all parameters are complete. */
  void (*passed) (gpointer user_data);
  gpointer user_data;
} TpsDlrmWatch;

/* Creates a model. The caller owns it and must free it with model->klass->free(). Parameters:
 * bottom.0.weight, bottom.0.bias, …, top.0.weight, … Errors: INVALID_ARGUMENT (a size of 0);
 * DEVICE_LOST. */
TpsModel *tps_dlrm_model_new (const TpsDlrmShape *shape, GError **error);

/* Sets the functions of `watch`, which is copied. */
void tps_dlrm_model_watch (TpsModel *model, const TpsDlrmWatch *watch);

/* Makes room for `rows` samples. `features` receives an array [rows, 1 + n_tables, dim], which is
 * borrowed until the next call. Before the forward pass, the caller must write the pooled vectors
 * to vectors 1 to n_tables of each row; vector 0 belongs to the model. The forward pass must have
 * the same number of rows; its input is FLOAT32 [rows, n_dense], its output [rows, 1]. Errors:
 * RESOURCE_EXHAUSTED. */
gboolean tps_dlrm_model_reserve (TpsModel *model, gsize rows, gfloat **features, GError **error);

/* Computes the binary cross-entropy of logits [rows] with labels [rows], each 0 or 1, as
 * torch.nn.BCEWithLogitsLoss. Returns the sum over the rows. `gradient` [rows] receives the
 * gradient of the sum, divided by `divisor`. Thread: any. */
gdouble tps_binary_cross_entropy (const gfloat *logits, const gfloat *labels, gsize rows,
                                  gdouble divisor, gfloat *gradient);

G_END_DECLS

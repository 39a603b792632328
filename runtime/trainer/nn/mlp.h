/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A stack of fully connected layers, each followed by a ReLU. If `ends_linear`, no ReLU follows the
 * last layer. The passes only enqueue work on a stream. */

#pragma once

#include "runtime/trainer/nn/linear.h"

G_BEGIN_DECLS

#define TPS_MLP_MAX_LAYERS 4

/* Borrows its parameters and its arrays. `parameters` [2 * n_layers] are the weight and the bias of
 * each layer. The owner of the model must bind `outputs[i]` [rows, widths[i + 1]], the output of
 * layer i after its ReLU, and `gradients[i]` [rows, widths[i]], the gradient of the input of layer
 * i (for i > 0, before the ReLU that precedes the layer). */
typedef struct
{
  guint n_layers;
  gsize widths[TPS_MLP_MAX_LAYERS + 1];
  gboolean ends_linear;
  TpsParameter *parameters;
  TpsLinear layers[TPS_MLP_MAX_LAYERS];
  gfloat *outputs[TPS_MLP_MAX_LAYERS];
  gfloat *gradients[TPS_MLP_MAX_LAYERS];
} TpsMlp;

/* Initialises the stack with `n_layers` layers of the given widths, and names its parameters
 * PREFIX.0.weight, PREFIX.0.bias, PREFIX.1.weight, … The names are owned by the parameters. */
void tps_mlp_init (TpsMlp *mlp, const gchar *prefix, const gsize *widths, guint n_layers,
                   gboolean ends_linear, TpsParameter *parameters);

/* Fills the parameters as tps_linear_init_parameters() does, with the 2 * n_layers streams of the
 * generator that begin at number `stream`. */
void tps_mlp_init_parameters (const TpsMlp *mlp, gint64 seed, guint64 stream);

/* Computes all outputs from input [rows, widths[0]]. */
void tps_mlp_forward (const TpsMlp *mlp, TpsStream *stream, const gfloat *input, gsize rows);

/* Returns the output of the last forward pass, [rows, widths[n_layers]]. */
const gfloat *tps_mlp_get_output (const TpsMlp *mlp);

/* Computes gradients[i] for all layers i from the last one down to `first`. `output_gradient`
 * [rows, widths[n_layers]] must be the gradient of the last layer's output before its ReLU, if
 * any. */
void tps_mlp_backward_inputs (const TpsMlp *mlp, TpsStream *stream, const gfloat *output_gradient,
                              gsize rows, guint first);

/* Computes the gradients of all parameters, the last layer first. Must follow
 * tps_mlp_backward_inputs() with a `first` of at most 1. Calls `ready` for parameter number
 * first_number + i when the computation of the gradient of parameters[i] has been enqueued. */
void tps_mlp_backward_parameters (const TpsMlp *mlp, TpsStream *stream, const gfloat *input,
                                  const gfloat *output_gradient, gsize rows, guint first_number,
                                  TpsGradientReady ready, gpointer user_data);

G_END_DECLS

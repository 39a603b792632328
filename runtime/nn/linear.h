/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fully connected layer: output = input · weight' + bias. Same arithmetic as torch.nn.Linear, up
 * to the order of sums. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/nn/model.h"

G_BEGIN_DECLS

/* Borrows its parameters: weight [n_out, n_in], bias [n_out]. */
typedef struct
{
  gsize n_in, n_out;
  TpsParameter *weight, *bias;
} TpsLinear;

/* Uniform in ±1 / sqrt (n_in), as PyTorch's default; `stream` of the generator for the weight,
 * stream + 1 for the bias. */
void tps_linear_init_parameters (const TpsLinear *linear, gint64 seed, guint64 stream);

/* input [batch, n_in], output [batch, n_out]; enqueues on `stream`, as all below. */
void tps_linear_forward (const TpsLinear *linear, TpsStream *stream, const gfloat *input,
                         gfloat *output, gsize batch);

/* Fills the gradient of the bias from the gradient of the output [batch, n_out]. */
void tps_linear_backward_bias (const TpsLinear *linear, TpsStream *stream,
                               const gfloat *output_gradient, gsize batch);

/* Fills the gradient of the weight, from the input of the forward pass and the gradient of the
 * output. */
void tps_linear_backward_weight (const TpsLinear *linear, TpsStream *stream, const gfloat *input,
                                 const gfloat *output_gradient, gsize batch);

/* input_gradient [batch, n_in]. */
void tps_linear_backward_input (const TpsLinear *linear, TpsStream *stream,
                                const gfloat *output_gradient, gfloat *input_gradient, gsize batch);

G_END_DECLS

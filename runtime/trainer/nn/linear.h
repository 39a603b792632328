/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A fully connected layer: output = input · weight' + bias. The arithmetic is that of
 * torch.nn.Linear, except for the order of sums. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/trainer/nn/model.h"

/* Borrows its parameters: weight [n_out, n_in], bias [n_out]. */
typedef struct
{
  gsize n_in, n_out;
  TpsParameter *weight, *bias;
} TpsLinear;

/* Fills the parameters with uniform numbers in ±1 / sqrt (n_in), PyTorch's default. Stream `stream`
 * of the generator is used for the weight, and stream + 1 for the bias. */
void tps_linear_init_parameters (const TpsLinear *linear, gint64 seed, guint64 stream);

/* Computes output [batch, n_out] from input [batch, n_in]. This function and the functions below
 * only enqueue work on `stream`. */
void tps_linear_forward (const TpsLinear *linear, TpsStream *stream, const gfloat *input,
                         gfloat *output, gsize batch);

/* Computes the gradient of the bias from the gradient of the output [batch, n_out]. */
void tps_linear_backward_bias (const TpsLinear *linear, TpsStream *stream,
                               const gfloat *output_gradient, gsize batch);

/* Computes the gradient of the weight from the input of the forward pass and the gradient of the
 * output. */
void tps_linear_backward_weight (const TpsLinear *linear, TpsStream *stream, const gfloat *input,
                                 const gfloat *output_gradient, gsize batch);

/* Computes the gradient of the input, [batch, n_in]. */
void tps_linear_backward_input (const TpsLinear *linear, TpsStream *stream,
                                const gfloat *output_gradient, gfloat *input_gradient, gsize batch);

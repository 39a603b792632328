/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/linear.h"

#include <math.h>

#include "runtime/base/rng.h"
#include "runtime/trainer/dense/dense.h"

void
tps_linear_init_parameters (const TpsLinear *linear, gint64 seed, guint64 stream)
{
  gdouble bound = 1 / sqrt ((gdouble) linear->n_in);
  TpsRng rng;

  tps_rng_init (&rng, seed, stream);
  tps_rng_fill_uniform (&rng, linear->weight->value, linear->n_out * linear->n_in, -bound, bound);
  tps_rng_init (&rng, seed, stream + 1);
  tps_rng_fill_uniform (&rng, linear->bias->value, linear->n_out, -bound, bound);
}

void
tps_linear_forward (const TpsLinear *linear, TpsStream *stream, const gfloat *input, gfloat *output,
                    gsize batch)
{
  TpsGemm gemm = {
    .transpose_b = TRUE,
    .m = batch,
    .n = linear->n_out,
    .k = linear->n_in,
    .alpha = 1,
    .a = input,
    .b = linear->weight->value,
    .c = output,
  };

  tps_dense_ops (stream)->gemm (stream, &gemm);
  tps_dense_ops (stream)->bias_add (stream, output, linear->bias->value, batch, linear->n_out);
}

void
tps_linear_backward_bias (const TpsLinear *linear, TpsStream *stream, const gfloat *output_gradient,
                          gsize batch)
{
  tps_dense_ops (stream)->column_sum (stream, linear->bias->gradient, output_gradient, batch,
                                      linear->n_out);
}

void
tps_linear_backward_weight (const TpsLinear *linear, TpsStream *stream, const gfloat *input,
                            const gfloat *output_gradient, gsize batch)
{
  TpsGemm gemm = {
    .transpose_a = TRUE,
    .m = linear->n_out,
    .n = linear->n_in,
    .k = batch,
    .alpha = 1,
    .a = output_gradient,
    .b = input,
    .c = linear->weight->gradient,
  };

  tps_dense_ops (stream)->gemm (stream, &gemm);
}

void
tps_linear_backward_input (const TpsLinear *linear, TpsStream *stream,
                           const gfloat *output_gradient, gfloat *input_gradient, gsize batch)
{
  TpsGemm gemm = {
    .m = batch,
    .n = linear->n_in,
    .k = linear->n_out,
    .alpha = 1,
    .a = output_gradient,
    .b = linear->weight->value,
    .c = input_gradient,
  };

  tps_dense_ops (stream)->gemm (stream, &gemm);
}

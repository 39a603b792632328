/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/dense/layers.h"
#include "runtime/device/cpu/kernels/vectorize.h"

TPS_TARGET_CLONES void
tps_cpu_relu (gfloat *output, const gfloat *input, gsize n_elems)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n_elems; i++)
    output[i] = input[i] <= 0 ? 0 : input[i];
}

TPS_TARGET_CLONES void
tps_cpu_relu_backward (gfloat *input_gradient, const gfloat *output_gradient, const gfloat *output,
                       gsize n_elems)
{
  TPS_INDEPENDENT_ITERATIONS
  for (gsize i = 0; i < n_elems; i++)
    {
      gfloat gradient = output_gradient[i];

      input_gradient[i] = output[i] > 0 ? gradient : 0;
    }
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/cpu/layers.h"
#include "runtime/nn/criterion.h"

static gdouble
cross_entropy (TpsTensorView output, TpsTensorView target, gfloat *output_gradient)
{
  gdouble loss;

  tps_cpu_cross_entropy (&loss, output_gradient, output.data, target.data,
                         (gsize) output.shape.dims[0], (gsize) output.shape.dims[1]);
  return loss;
}

const TpsCriterion tps_criterion_cross_entropy = { "cel", cross_entropy };

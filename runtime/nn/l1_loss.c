/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/cpu/layers.h"
#include "runtime/nn/criterion.h"

static gdouble
l1_loss (TpsTensorView output, TpsTensorView target, gfloat *output_gradient)
{
  gdouble loss;

  tps_cpu_l1_loss (&loss, output_gradient, output.data, target.data,
                   (gsize) tps_shape_n_elems (&output.shape));
  return loss;
}

const TpsCriterion tps_criterion_l1 = { "l1", l1_loss };

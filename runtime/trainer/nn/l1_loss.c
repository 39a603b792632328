/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/criterion.h"

#include "runtime/trainer/dense/dense.h"

static void
l1_loss (TpsStream *stream, TpsTensorView output, TpsTensorView target, gdouble *loss,
         gfloat *output_gradient)
{
  tps_dense_ops (stream)->l1_loss (stream, loss, output_gradient, output.data, target.data,
                                   (gsize) tps_shape_n_elems (&output.shape));
}

const TpsCriterion tps_criterion_l1 = { "l1", l1_loss };

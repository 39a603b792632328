/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/criterion.h"

#include "runtime/trainer/dense/dense.h"

static void
cross_entropy (TpsStream *stream, TpsTensorView output, TpsTensorView target, gdouble *loss,
               gfloat *output_gradient)
{
  tps_dense_ops (stream)->cross_entropy (stream, loss, output_gradient, output.data, target.data,
                                         (gsize) output.shape.dims[0],
                                         (gsize) output.shape.dims[1]);
}

const TpsCriterion tps_criterion_cross_entropy = { "cel", cross_entropy };

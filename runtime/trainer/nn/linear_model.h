/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "LinearModel": one linear layer.
 *
 * Arguments: in_features, out_features. Input FLOAT32 [batch, in_features]; output and target
 * FLOAT32 [batch, out_features]. Parameters are named as in torch.nn.Linear: weight [out_features,
 * in_features], bias [out_features].
 */

#pragma once

#include "runtime/trainer/nn/model.h"

G_BEGIN_DECLS

extern const TpsModelClass tps_linear_model_class;

G_END_DECLS

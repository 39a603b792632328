/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The built-in losses. */

#pragma once

#include "runtime/trainer/nn/model.h"

G_BEGIN_DECLS

/* "cel": the cross-entropy of the softmax of the output [batch, classes] with the target INT64
 * [batch], averaged over the batch, as torch.nn.CrossEntropyLoss. */
extern const TpsCriterion tps_criterion_cross_entropy;

/* "l1": the mean of |output - target|, as torch.nn.L1Loss. Output and target must have the same
 * shape. */
extern const TpsCriterion tps_criterion_l1;

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "HybridModel": the dense part of the DDP + RPC scenario, whose sparse part lives on table
 * servers. Linear layers 512-256, 256-128, ReLU, 128-64, 64-32, 32-8: there is one ReLU only,
 * behind the second layer.
 *
 * No arguments. Input FLOAT32 [rows, 512]; output FLOAT32 [rows, 8], not normalised. Parameters as
 * those of the torch.nn.Sequential of the same layers: 0.weight, 0.bias, 1.weight, 1.bias,
 * 3.weight, …, 5.bias.
 *
 * Its backward pass first computes the gradient of the input, and tells who watches it, so that
 * pushing it to the table servers overlaps the gradients of the parameters, which come then, last
 * layer first.
 */

#pragma once

#include "runtime/nn/model.h"

G_BEGIN_DECLS

#define TPS_HYBRID_MODEL_INPUTS 512
#define TPS_HYBRID_MODEL_OUTPUTS 8

/* `gradient`: of the input, [rows, 512], in the memory of the model's device, there when the
 * model's stream has passed what is queued on it now; borrowed until the next forward pass. On the
 * thread of the backward pass. */
typedef void (*TpsInputGradientReady) (gpointer user_data, const gfloat *gradient, gsize rows);

/* Sets the callback; NULL = none. `model` must be of this class. */
void tps_hybrid_model_watch_input (TpsModel *model, TpsInputGradientReady ready,
                                   gpointer user_data);

extern const TpsModelClass tps_hybrid_model_class;

G_END_DECLS

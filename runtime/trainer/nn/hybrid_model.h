/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* "HybridModel": the dense part of the DDP + RPC scenario, whose sparse part lies on table servers.
 * The layers are linear: 512-256, 256-128, ReLU, 128-64, 64-32, 32-8. The only ReLU follows the
 * second layer.
 *
 * No arguments. Input FLOAT32 [rows, 512]; output FLOAT32 [rows, 8], not normalised. Parameters are
 * named as in a torch.nn.Sequential of the same layers: 0.weight, 0.bias, 1.weight, 1.bias,
 * 3.weight, …, 5.bias.
 *
 * The backward pass computes the gradient of the input first and reports it to a callback. So the
 * push of this gradient to the table servers overlaps the computation of the parameters' gradients,
 * which are computed afterwards, from the last layer to the first.
 */

#pragma once

#include "runtime/trainer/nn/model.h"

#define TPS_HYBRID_MODEL_INPUTS 512
#define TPS_HYBRID_MODEL_OUTPUTS 8

/* Called when the computation of the gradient of the input, `gradient` [rows, 512], has been
 * enqueued. The gradient lies in the memory of the model's device, is complete when the model's
 * stream has passed the work queued so far, and is borrowed until the next forward pass. Thread:
 * the thread of the backward pass. */
typedef void (*TpsInputGradientReady) (gpointer user_data, const gfloat *gradient, gsize rows);

/* Sets the callback; NULL removes it. `model` must be a HybridModel. */
void tps_hybrid_model_watch_input (TpsModel *model, TpsInputGradientReady ready,
                                   gpointer user_data);

extern const TpsModelClass tps_hybrid_model_class;

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tensors in a device's memory. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Allocates a tensor with undefined elements in memory of `device`, owned by the caller. May block.
 * Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; `tensor` is empty then. */
gboolean tps_device_tensor_init (TpsTensor *tensor, TpsDevice *device, const TpsShape *shape,
                                 GError **error);

G_END_DECLS

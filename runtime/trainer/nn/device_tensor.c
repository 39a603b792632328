/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/nn/device_tensor.h"

gboolean
tps_device_tensor_init (TpsTensor *tensor, TpsDevice *device, const TpsShape *shape, GError **error)
{
  TpsBuffer *buffer = device->ops->alloc (device, tps_shape_n_bytes (shape), error);

  *tensor = (TpsTensor) { 0 };
  if (buffer == NULL)
    return FALSE;
  tps_tensor_init_take (tensor, shape, buffer, 0);
  return TRUE;
}

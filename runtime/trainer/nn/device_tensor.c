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

/* -- staged tensor -- */

gboolean
tps_staged_tensor_init (TpsStagedTensor *staged, TpsDevice *device, const TpsShape *shape,
                        GError **error)
{
  gsize n_bytes = tps_shape_n_bytes (shape);
  g_autoptr (TpsBuffer) host = device->ops->alloc_host (device, n_bytes, error);
  TpsBuffer *copy;

  *staged = (TpsStagedTensor) { 0 };
  if (host == NULL)
    return FALSE;
  copy = device->is_host ? tps_buffer_ref (host) : device->ops->alloc (device, n_bytes, error);
  if (copy == NULL)
    return FALSE;
  tps_tensor_init_take (&staged->host, shape, g_steal_pointer (&host), 0);
  tps_tensor_init_take (&staged->device, shape, copy, 0);
  return TRUE;
}

void
tps_staged_tensor_clear (TpsStagedTensor *staged)
{
  tps_tensor_clear (&staged->host);
  tps_tensor_clear (&staged->device);
}

void
tps_staged_tensor_upload (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes)
{
  if (!stream->device->is_host)
    stream->device->ops->copy (stream, tps_tensor_data (&staged->device),
                               tps_tensor_data (&staged->host), n_bytes);
}

void
tps_staged_tensor_download (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes)
{
  if (!stream->device->is_host)
    stream->device->ops->copy (stream, tps_tensor_data (&staged->host),
                               tps_tensor_data (&staged->device), n_bytes);
}

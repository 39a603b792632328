/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/pinned_pool.h"

static TpsBuffer *
alloc_host (gpointer user_data, gsize n_bytes, GError **error)
{
  TpsDevice *device = user_data;

  return device->ops->alloc_host (device, n_bytes, error);
}

TpsBufferPool *
tps_pinned_pool_new (TpsDevice *device, gsize limit_bytes, gsize keep_bytes)
{
  TpsBufferSource source = { .alloc = alloc_host,
                             .user_data = device,
                             .min_bytes = TPS_PINNED_MIN_BYTES };

  if (device == NULL || device->is_host)
    return tps_buffer_pool_new (limit_bytes, keep_bytes);
  return tps_buffer_pool_new_from (limit_bytes, keep_bytes, &source);
}

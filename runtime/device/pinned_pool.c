/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/device/pinned_pool.h"

static TpsBuffer *
alloc_host (gpointer user_data, gsize n_bytes, GError **error)
{
  TpsDevice *device = user_data;

  return device->ops->alloc_host (device, n_bytes, error);
}

TpsBufferPool *
tps_pinned_pool_new (TpsDevice *device, TpsBudget *budget, TpsBudget *kept, gsize keep_bytes)
{
  TpsBufferSource source = { .alloc = alloc_host,
                             .user_data = device,
                             .min_bytes = TPS_PINNED_MIN_BYTES };

  if (device == NULL || device->is_host)
    return tps_buffer_pool_new (budget, kept, keep_bytes);
  return tps_buffer_pool_new_from (budget, kept, keep_bytes, &source);
}

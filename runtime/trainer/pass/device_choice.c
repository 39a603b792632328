/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/pass/device_choice.h"

#include "runtime/device/device_library.h"
#include "runtime/base/error.h"

TpsDevice *
tps_device_choose (const gchar *name, guint local_rank, GError **error)
{
  const GPtrArray *devices;

  if (name[0] == '\0')
    return tps_device_find ("cpu", error);
  if (!g_str_equal (name, "cuda"))
    return tps_device_find (name, error);
  devices = tps_device_library_get ()->devices;
  if (devices->len > 0)
    return g_ptr_array_index (devices, local_rank % devices->len);
  return tps_fail_null (error, TPS_ERROR_UNAVAILABLE,
                        "device \"cuda\": this process has no CUDA device (%s)",
                        tps_device_list_summary ());
}

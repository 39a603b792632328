/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The process group of the library that provides the devices: "nccl". */

#include "runtime/trainer/group/process_groups.h"
#include "runtime/device/device_library.h"
#include "runtime/base/error.h"

const TpsDeviceGroups *
tps_device_groups_find (GError **error)
{
  const TpsLoadedLibrary *loaded = tps_device_library_get ();
  const TpsDeviceGroups *groups = NULL;

  if (loaded->library != NULL)
    groups = loaded->library->find_interface (TPS_DEVICE_GROUPS_INTERFACE);
  if (groups == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND,
                 "backend 'nccl' needs a CUDA device, and this process has none; use gloo (%s)",
                 loaded->summary);
  return groups;
}

TpsProcessGroup *
tps_device_process_group_new (const TpsProcessGroupOptions *options, GError **error)
{
  const TpsDeviceGroups *groups = tps_device_groups_find (error);
  const GPtrArray *devices = tps_device_library_get ()->devices;
  TpsProcessGroupOptions chosen = *options;

  if (groups == NULL)
    return NULL;
  if (chosen.device == NULL)
    chosen.device = g_ptr_array_index (devices, options->rank % devices->len);
  return groups->group_new (&chosen, error);
}

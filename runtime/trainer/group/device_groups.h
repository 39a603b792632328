/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a library of devices (runtime/device/device_library.h) offers for process groups: its
 * interface of this name. */

#pragma once

#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

#define TPS_DEVICE_GROUPS_INTERFACE "process_groups"

typedef struct
{
  /* As tps_process_group_new(), on options->device, which is one of the library's. Besides its
   * errors: UNAVAILABLE, naming what of the machine is missing. */
  TpsProcessGroup *(*group_new) (const TpsProcessGroupOptions *options, GError **error);
  /* Whether groups can be made at all. Errors: UNAVAILABLE, as group_new(). Thread: any. */
  gboolean (*check_usable) (GError **error);
  /* Whether memory is a device's. Thread: any. */
  gboolean (*is_device_memory) (gconstpointer memory);
} TpsDeviceGroups;

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface for process groups of a library of devices (runtime/device/device_library.h), found
 * under this name. */

#pragma once

#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

#define TPS_DEVICE_GROUPS_INTERFACE "process_groups"

typedef struct
{
  /* As tps_process_group_new(), on options->device, which must be a device of the library.
   * Additional errors: UNAVAILABLE, naming the missing feature of the machine. */
  TpsProcessGroup *(*group_new) (const TpsProcessGroupOptions *options, GError **error);
  /* Returns TRUE if groups can be created. Errors: UNAVAILABLE, as group_new(). Thread: any. */
  gboolean (*check_usable) (GError **error);
  /* Returns TRUE for the memory of a device. Thread: any. */
  gboolean (*is_device_memory) (gconstpointer memory);
} TpsDeviceGroups;

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface for process groups in a device library (runtime/device/device_library.h), whose
 * find_interface() returns it under TPS_DEVICE_GROUPS_INTERFACE. */

#pragma once

#include "runtime/trainer/ports/process_group.h"

G_BEGIN_DECLS

#define TPS_DEVICE_GROUPS_INTERFACE "process_groups"

typedef struct
{
  /* As tps_process_group_new(), but on options->device, which must be a device of the library.
   * Errors: also UNAVAILABLE, naming the feature that the machine lacks. */
  TpsProcessGroup *(*group_new) (const TpsProcessGroupOptions *options, GError **error);
  /* Returns TRUE if groups can be created. Errors: UNAVAILABLE, as group_new(). Thread: any. */
  gboolean (*check_usable) (GError **error);
  /* Returns TRUE if `memory` is memory of a device. Thread: any. */
  gboolean (*is_device_memory) (gconstpointer memory);
} TpsDeviceGroups;

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Choice of the device that a role computes on. */

#pragma once

#include "runtime/device/backend.h"

/* Chooses a device by `name`. "" or "cpu" is the CPU. "cuda" is the CUDA device with number
 * `local_rank` modulo their count, so that the roles of a machine are spread over its devices
 * evenly. Any other name must be the name of a device ("cuda:1"). `local_rank` is the number of
 * this process among the roles of its machine. Drivers are loaded only if the name requires them.
 * The device is borrowed and lives as long as the process. Errors (NULL): NOT_FOUND (no such
 * device; the message lists the known devices), UNAVAILABLE ("cuda" on a machine without a CUDA
 * device; the message gives the reason). */
TpsDevice *tps_device_choose (const gchar *name, guint local_rank, GError **error);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The entry of the CPU in the list of devices. */

#pragma once

#include "runtime/device/backend.h"

/* Returns the CPU device, which lives as long as the process. Thread: any. */
TpsDevice *tps_cpu_device_get (void);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Operations that are queued, for the table of operations. */

#pragma once

#include "runtime/device/backend.h"

namespace fake_device {

void fill_operations (TpsDeviceOps *ops);

} // namespace fake_device

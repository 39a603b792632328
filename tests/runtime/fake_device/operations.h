/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the table of operations says of those that are queued. */

#pragma once

#include "runtime/device/backend.h"

namespace fake_device {

void fill_operations (TpsDeviceOps *ops);

} // namespace fake_device

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The fake's queued operations. */

#pragma once

#include "runtime/device/backend.h"

namespace fake_device {

/* Fills in the operations on elements, rows, layers and optimizers. */
void fill_operations (TpsDeviceOps *ops);

} // namespace fake_device

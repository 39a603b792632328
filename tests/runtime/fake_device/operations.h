/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The fake's queued operations. */

#pragma once

#include "runtime/device/dense.h"

namespace fake_device {

/* Fills in the operations on elements, rows and optimizers. */
void fill_operations (TpsDeviceOps *ops);

/* Layers, losses and SGD. */
extern const TpsDenseOps dense_operations;

} // namespace fake_device

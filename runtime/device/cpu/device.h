/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The CPU's entry in the list of devices. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Borrowed for ever. Thread: any. */
TpsDevice *tps_cpu_device_get (void);

G_END_DECLS

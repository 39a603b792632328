/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Memory service: opens and closes segments of shared memory for the connection of each call.
 * It has no state of its own. Its methods answer with UNAVAILABLE or PERMISSION_DENIED if the
 * connection shares no memory.
 */

#pragma once

#include "plugin/service/call.h"

TpsService tps_memory_service (void);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Memory service: segments of the connection that a call comes on. It has no state of its own,
 * and answers UNAVAILABLE or PERMISSION_DENIED where the connection shares nothing.
 */

#pragma once

#include "plugin/service/call.h"

G_BEGIN_DECLS

TpsService tps_memory_service (void);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pools of page-locked memory. If a frame is read from a socket into such memory, a device can copy
 * it from there: the copy needs no staging buffer and does not block. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The smallest page-locked buffer: smaller buffers are copied just as fast from ordinary memory. */
#define TPS_PINNED_MIN_BYTES ((gsize) 64 << 10)

/* Creates a pool as tps_buffer_pool_new(), but buffers of at least TPS_PINNED_MIN_BYTES, up to
 * `keep_bytes` in total, are page-locked: copies of `device` need not stage them (alloc_host). If
 * `device` is NULL or uses host memory, all buffers are ordinary memory. If page-locking is refused
 * (RLIMIT_MEMLOCK, no memory, a lost device), the pool uses ordinary memory instead and logs one
 * line. */
TpsBufferPool *tps_pinned_pool_new (TpsDevice *device, TpsBudget *budget, TpsBudget *kept,
                                    gsize keep_bytes);

G_END_DECLS

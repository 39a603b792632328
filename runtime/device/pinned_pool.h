/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pools of page-locked memory. A frame that is read from a socket into such memory is itself the
 * source of the copy to the device. The copy then needs no staging buffer and does not block. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Copies of smaller buffers are just as fast from ordinary memory. */
#define TPS_PINNED_MIN_BYTES ((gsize) 64 << 10)

/* Creates a pool as tps_buffer_pool_new(). Buffers of at least TPS_PINNED_MIN_BYTES, up to
 * `keep_bytes` in total, are memory that the copies of `device` need not stage (alloc_host). If
 * `device` is NULL or uses host memory, all buffers are ordinary memory. If page-locking is refused
 * (RLIMIT_MEMLOCK, no memory, a lost device), ordinary memory takes its place and one line is
 * logged. */
TpsBufferPool *tps_pinned_pool_new (TpsDevice *device, TpsBudget *budget, TpsBudget *kept,
                                    gsize keep_bytes);

G_END_DECLS

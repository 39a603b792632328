/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Pools of page-locked memory: a frame that is read from a socket into it is itself the source of
 * the copy to the device, which then needs no memory in between and does not wait. */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Smaller ones are copied as fast from ordinary memory. */
#define TPS_PINNED_MIN_BYTES ((gsize) 64 << 10)

/* A pool as tps_buffer_pool_new(). Buffers of TPS_PINNED_MIN_BYTES and more, up to `keep_bytes` in
 * all, are memory that the copies of `device` need not stage (alloc_host); NULL, or a device whose
 * memory is the host's: all of it is ordinary memory. Where page-locking is refused
 * (RLIMIT_MEMLOCK, no memory, a lost device), ordinary memory takes its place, with one line in the
 * log. */
TpsBufferPool *tps_pinned_pool_new (TpsDevice *device, TpsBudget *budget, TpsBudget *kept,
                                    gsize keep_bytes);

G_END_DECLS

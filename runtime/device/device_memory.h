/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elements that lie in a device's memory: where they are, and moving them at once, for callers
 * without a stream of their own.
 *
 * A copy blocks until it is done, on a stream that the process keeps for copies. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. Thread: any; callers must not hold a lock that other threads
 * wait for.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Whose memory it is where the host cannot read it; NULL = host memory. */
TpsDevice *tps_device_memory_of_buffer (const TpsBuffer *buffer);
/* The same; NULL also where there is no buffer. */
TpsDevice *tps_device_memory_of_tensor (const TpsTensor *tensor);

/* Between any two of: host memory, memory of `device`. Waits. */
gboolean tps_device_memory_copy (TpsDevice *device, gpointer to, gconstpointer from, gsize n_bytes,
                                 GError **error);

/* Zeros. Waits. */
gboolean tps_device_memory_clear (TpsDevice *device, gpointer memory, gsize n_bytes,
                                  GError **error);

/* Another owner of a copy in host memory that the device moves to without staging. Waits. */
gboolean tps_device_memory_download (TpsTensor *copy, const TpsTensor *tensor, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arrays of a case in memory of its device. They repeat a short pattern, which the device
 * copies. Thread: one thread for each struct. */

#pragma once

#include "bench/gpu_bundle/device_cases.h"

G_BEGIN_DECLS

/* Allocates and fills the arrays of `n_elems` elements. The caller must call
 * tps_device_work_clear(), after an error, too. Blocks. Errors: those of allocations and of the
 * stream. */
gboolean tps_device_work_init (TpsDeviceWork *work, TpsDevice *device, gsize n_elems,
                               const TpsDeviceCase *entry, GError **error);
void tps_device_work_clear (TpsDeviceWork *work);

/* Allocates host memory that the device can copy. The caller owns the result. Errors: those of the
 * allocation. */
TpsBuffer *tps_device_work_alloc_host (const TpsDeviceWork *work, gsize n_bytes, GError **error);

/* Returns an array of `n_bytes` on the device that repeats `host`, which must not be empty. The
 * caller owns the result. Blocks. Errors: those of the allocation and of the stream. */
TpsBuffer *tps_device_work_repeat (const TpsDeviceWork *work, TpsBuffer *host, gsize n_bytes,
                                   GError **error);

/* Returns TRUE if the device has memory for all arrays of a case with `n_elems` elements and for a
 * comparison. */
gboolean tps_device_has_memory_for (TpsDevice *device, gsize n_elems);

G_END_DECLS

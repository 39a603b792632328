/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The arrays of a case, in memory of its device. They repeat a short pattern, which the device
 * copies. Thread: one. */

#pragma once

#include "bench/gpu_bundle/device_cases.h"

G_BEGIN_DECLS

/* Allocates and fills the arrays of `n_elems` elements. tps_device_work_clear() must follow, also
 * after an error. */
gboolean tps_device_work_init (TpsDeviceWork *work, TpsDevice *device, gsize n_elems,
                               const TpsDeviceCase *entry, GError **error);
void tps_device_work_clear (TpsDeviceWork *work);

/* Returns memory of the host that the device can copy. Owned by the caller. */
TpsBuffer *tps_device_work_alloc_host (const TpsDeviceWork *work, gsize n_bytes, GError **error);

/* Returns an array of `n_bytes` that repeats `host`, which must not be empty. Owned by the
 * caller. */
TpsBuffer *tps_device_work_repeat (const TpsDeviceWork *work, TpsBuffer *host, gsize n_bytes,
                                   GError **error);

/* Returns whether the device has memory for all arrays of a case with `n_elems` elements, and for a
 * comparison. */
gboolean tps_device_has_memory_for (TpsDevice *device, gsize n_elems);

G_END_DECLS

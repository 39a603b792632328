/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elements in device memory: their location, and blocking copies for callers without a stream of
 * their own.
 *
 * A copy runs on a stream that the process caches for copies, and blocks until it is done. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. Thread: any. Callers should not hold a lock that other threads
 * need.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Returns the device in whose memory the buffer lies, borrowed, or NULL if the host can read the
 * buffer. */
TpsDevice *tps_device_memory_of_buffer (const TpsBuffer *buffer);
/* As tps_device_memory_of_buffer(), for the buffer of a tensor. Returns NULL for a tensor without a
 * buffer. */
TpsDevice *tps_device_memory_of_tensor (const TpsTensor *tensor);

/* Copies between host memory and memory of `device`, in any direction. Blocks. */
gboolean tps_device_memory_copy (TpsDevice *device, gpointer to, gconstpointer from, gsize n_bytes,
                                 GError **error);

/* Sets the bytes to zero. Blocks. */
gboolean tps_device_memory_clear (TpsDevice *device, gpointer memory, gsize n_bytes,
                                  GError **error);

/* Initialises `copy` as the owner of a copy of `tensor`, which must lie in device memory. The copy
 * lies in host memory from a pool of tps_pinned_pool_new(). Blocks. */
gboolean tps_device_memory_download (TpsTensor *copy, const TpsTensor *tensor, GError **error);

G_END_DECLS

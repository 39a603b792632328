/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elements in device memory: their location, and blocking copies for callers without a stream of
 * their own.
 *
 * A copy blocks until it is done, on a stream that the process caches for copies. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. Thread: any; callers must not hold a lock that other threads
 * wait for.
 */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* Returns the device whose memory this is if the host cannot read it; NULL for host memory. */
TpsDevice *tps_device_memory_of_buffer (const TpsBuffer *buffer);
/* The same for a tensor; NULL also if the tensor has no buffer. */
TpsDevice *tps_device_memory_of_tensor (const TpsTensor *tensor);

/* Copies between host memory and memory of `device`, in any direction. Blocks. */
gboolean tps_device_memory_copy (TpsDevice *device, gpointer to, gconstpointer from, gsize n_bytes,
                                 GError **error);

/* Sets the bytes to zero. Blocks. */
gboolean tps_device_memory_clear (TpsDevice *device, gpointer memory, gsize n_bytes,
                                  GError **error);

/* Initialises `copy` as the owner of a copy in host memory, from which the device copies without
 * staging. Blocks. */
gboolean tps_device_memory_download (TpsTensor *copy, const TpsTensor *tensor, GError **error);

G_END_DECLS

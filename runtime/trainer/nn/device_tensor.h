/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tensors in a device's memory. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

/* Allocates a tensor with undefined elements in memory of `device`, owned by the caller. May block.
 * Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; `tensor` is empty then. */
gboolean tps_device_tensor_init (TpsTensor *tensor, TpsDevice *device, const TpsShape *shape,
                                 GError **error);

/* -- staged tensor -- */

/* Elements that both the host and a model's device use: one tensor on the CPU, and on other devices
 * a page-locked tensor and its copy in the device's memory. */

/* All zero: the tensors are empty. */
typedef struct
{
  TpsTensor host;
  TpsTensor device; /* of the same shape; on the CPU, the same elements */
} TpsStagedTensor;

/* Initialises `staged` with undefined elements. The caller must clear it. May block. Errors:
 * RESOURCE_EXHAUSTED, DEVICE_LOST; `staged` is empty then. */
gboolean tps_staged_tensor_init (TpsStagedTensor *staged, TpsDevice *device, const TpsShape *shape,
                                 GError **error);

/* Releases the memory. Streams must have passed all work that uses it. */
void tps_staged_tensor_clear (TpsStagedTensor *staged);

/* Enqueue a copy of the first `n_bytes`, to the device (upload) or to the host (download). They do
 * nothing on the CPU. */
void tps_staged_tensor_upload (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes);
void tps_staged_tensor_download (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes);

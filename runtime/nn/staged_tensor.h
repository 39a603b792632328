/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elements that both the host and a model's device use. On the CPU this is one tensor; on other
 * devices it is a page-locked tensor and its copy in the device's memory. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* An all-zero value is empty. */
typedef struct
{
  TpsTensor host;
  TpsTensor device; /* the same shape; on the CPU the same elements */
} TpsStagedTensor;

/* Allocates undefined elements. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; `staged` is empty then. */
gboolean tps_staged_tensor_init (TpsStagedTensor *staged, TpsDevice *device, const TpsShape *shape,
                                 GError **error);

/* Releases the memory. The streams that use it must have passed that work. */
void tps_staged_tensor_clear (TpsStagedTensor *staged);

/* Enqueue a copy of the first `n_bytes`; they do nothing on the CPU. */
void tps_staged_tensor_upload (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes);
void tps_staged_tensor_download (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes);

G_END_DECLS

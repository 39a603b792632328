/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Elements that the host works with and a model's device too: one tensor on the CPU, elsewhere a
 * page-locked one and its copy in the device's memory. */

#pragma once

#include "runtime/device/backend.h"
#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

/* All zero = empty. */
typedef struct
{
  TpsTensor host;
  TpsTensor device; /* of the same shape; on the CPU the same elements */
} TpsStagedTensor;

/* Undefined elements. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; `staged` is empty then. */
gboolean tps_staged_tensor_init (TpsStagedTensor *staged, TpsDevice *device, const TpsShape *shape,
                                 GError **error);

/* When the streams that work with it have passed. */
void tps_staged_tensor_clear (TpsStagedTensor *staged);

/* Enqueue copies of the first `n_bytes`; nothing on the CPU. */
void tps_staged_tensor_upload (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes);
void tps_staged_tensor_download (TpsStagedTensor *staged, TpsStream *stream, gsize n_bytes);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The dense operations of any device. */

#pragma once

#include "runtime/device/dense.h"

G_BEGIN_DECLS

extern const TpsDenseOps tps_cpu_dense_ops;

/* Returns the dense operations of the device of `stream`; static. */
static inline const TpsDenseOps *
tps_dense_ops (const TpsStream *stream)
{
  return stream->device->dense != NULL ? stream->device->dense : &tps_cpu_dense_ops;
}

G_END_DECLS

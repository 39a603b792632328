/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Element types. */

#pragma once

#include <thriftps/tensor.h>

G_BEGIN_DECLS

gboolean tps_dtype_is_valid (gint value);

gboolean tps_dtype_is_floating (TpsDType dtype);

G_END_DECLS

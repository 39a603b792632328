/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model after one update: named parameters that no longer change. thriftps/client.h has the types
 * and references. */

#pragma once

#include <thriftps/client.h>

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

void tps_named_tensor_clear (TpsNamedTensor *parameter);

/* Creates a version with `n_parameters` empty parameters; there is no other way to create one. The
 * caller owns the reference. Thread: any. */
TpsModelVersion *tps_model_version_new (gint64 version, guint n_parameters);

G_END_DECLS

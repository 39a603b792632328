/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model as it was after one update: named parameters that no longer change. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;
  TpsTensor tensor;
} TpsNamedTensor;

void tps_named_tensor_clear (TpsNamedTensor *parameter);

/* Immutable once others have it; counted: it is made by tps_model_version_new() only. */
typedef struct
{
  gint64 version;
  guint n_parameters;
  TpsNamedTensor *parameters;
} TpsModelVersion;

/* Of `n_parameters` that are still empty. */
TpsModelVersion *tps_model_version_new (gint64 version, guint n_parameters);
TpsModelVersion *tps_model_version_ref (TpsModelVersion *model);
void tps_model_version_unref (TpsModelVersion *model);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsNamedTensor, tps_named_tensor_clear)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsModelVersion, tps_model_version_unref)

G_END_DECLS

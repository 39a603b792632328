/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A model after one update: named parameters that no longer change. */

#pragma once

#include "runtime/tensor/tensor.h"

G_BEGIN_DECLS

typedef struct
{
  gchar *name;
  TpsTensor tensor;
} TpsNamedTensor;

/* Releases the name and the tensor. */
void tps_named_tensor_clear (TpsNamedTensor *parameter);

/* A reference-counted version of a model, immutable after its publication. It must be created with
 * tps_model_version_new(). */
typedef struct
{
  gint64 version;
  guint n_parameters;
  TpsNamedTensor *parameters;
} TpsModelVersion;

/* Creates a version with `n_parameters` empty parameters. The caller owns the reference. Thread of
 * ref and unref: any. */
TpsModelVersion *tps_model_version_new (gint64 version, guint n_parameters);
TpsModelVersion *tps_model_version_ref (TpsModelVersion *model);
void tps_model_version_unref (TpsModelVersion *model);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsModelVersion, tps_model_version_unref)

G_END_DECLS

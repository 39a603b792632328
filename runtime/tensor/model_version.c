/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/tensor/model_version.h"

#include "runtime/base/sync.h"

typedef struct
{
  TpsModelVersion model; /* the public part; must be the first member */
  TpsRefcount refcount;
} CountedVersion;

void
tps_named_tensor_clear (TpsNamedTensor *parameter)
{
  g_clear_pointer (&parameter->name, g_free);
  tps_tensor_clear (&parameter->tensor);
}

TpsModelVersion *
tps_model_version_new (gint64 version, guint n_parameters)
{
  CountedVersion *counted = g_new0 (CountedVersion, 1);

  tps_refcount_init (&counted->refcount);
  counted->model.version = version;
  counted->model.n_parameters = n_parameters;
  counted->model.parameters = g_new0 (TpsNamedTensor, n_parameters);
  return &counted->model;
}

TpsModelVersion *
tps_model_version_ref (TpsModelVersion *model)
{
  tps_refcount_inc (&((CountedVersion *) model)->refcount);
  return model;
}

void
tps_model_version_unref (TpsModelVersion *model)
{
  if (!tps_refcount_dec (&((CountedVersion *) model)->refcount))
    return;
  for (guint i = 0; i < model->n_parameters; i++)
    tps_named_tensor_clear (&model->parameters[i]);
  g_free (model->parameters);
  g_free (model);
}

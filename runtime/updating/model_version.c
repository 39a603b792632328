/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/updating/model_version.h"

void
tps_named_tensor_clear (TpsNamedTensor *parameter)
{
  g_clear_pointer (&parameter->name, g_free);
  tps_tensor_clear (&parameter->tensor);
}

TpsModelVersion *
tps_model_version_new (gint64 version, guint n_parameters)
{
  TpsModelVersion *model = g_new0 (TpsModelVersion, 1);

  tps_refcount_init (&model->refcount);
  model->version = version;
  model->n_parameters = n_parameters;
  model->parameters = g_new0 (TpsNamedTensor, n_parameters);
  return model;
}

TpsModelVersion *
tps_model_version_ref (TpsModelVersion *model)
{
  tps_refcount_inc (&model->refcount);
  return model;
}

void
tps_model_version_unref (TpsModelVersion *model)
{
  if (!tps_refcount_dec (&model->refcount))
    return;
  for (guint i = 0; i < model->n_parameters; i++)
    tps_named_tensor_clear (&model->parameters[i]);
  g_free (model->parameters);
  g_free (model);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/nn/model.h"

#include "runtime/nn/dummy_model.h"
#include "runtime/nn/hybrid_model.h"
#include "runtime/nn/linear_model.h"
#include "runtime/registry.h"

static const gconstpointer built_in[] = { &tps_dummy_model_class, &tps_hybrid_model_class,
                                          &tps_linear_model_class };

static TpsRegistry models = TPS_REGISTRY_INIT ("model", built_in);

const TpsModelClass *
tps_model_class_find (const gchar *name, GError **error)
{
  return tps_registry_find (&models, name, error);
}

void
tps_model_class_register (const TpsModelClass *klass)
{
  tps_registry_add (&models, klass);
}

const gchar **
tps_model_class_list (void)
{
  return tps_registry_list (&models);
}

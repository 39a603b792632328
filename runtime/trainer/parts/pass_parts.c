/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/parts/pass_parts.h"

#include "runtime/trainer/ddp_rpc/ddp_rpc_trainer.h"
#include "runtime/base/registry.h"
#include "runtime/trainer/batch_update/batch_update_trainer.h"

static const gconstpointer built_in_trainer_class[] = { &tps_ddp_trainer_class,
                                                        &tps_ddp_rpc_trainer_class,
                                                        &tps_batch_update_trainer_class };
static const gconstpointer built_in_preprocess[] = { &tps_preprocess_dummy_data };
static const gconstpointer built_in_ddp_model_maker[] = { &tps_basic_ddp_model };
static const gconstpointer built_in_iteration_step[] = { &tps_basic_iteration_step };

static TpsRegistry trainer_class_registry = TPS_REGISTRY_INIT ("trainer", built_in_trainer_class);
static TpsRegistry preprocess_registry = TPS_REGISTRY_INIT ("preprocessing", built_in_preprocess);
static TpsRegistry ddp_model_maker_registry = TPS_REGISTRY_INIT ("ddp model",
                                                                 built_in_ddp_model_maker);
static TpsRegistry iteration_step_registry = TPS_REGISTRY_INIT ("iteration step",
                                                                built_in_iteration_step);

const TpsTrainerClass *
tps_trainer_class_find (const gchar *name, GError **error)
{
  return tps_registry_find (&trainer_class_registry, name, error);
}

void
tps_trainer_class_register (const TpsTrainerClass *klass)
{
  tps_registry_add (&trainer_class_registry, klass);
}

const gchar **
tps_trainer_class_list (void)
{
  return tps_registry_list (&trainer_class_registry);
}

const TpsPreprocess *
tps_preprocess_find (const gchar *name, GError **error)
{
  return tps_registry_find (&preprocess_registry, name, error);
}

void
tps_preprocess_register (const TpsPreprocess *preprocess)
{
  tps_registry_add (&preprocess_registry, preprocess);
}

const gchar **
tps_preprocess_list (void)
{
  return tps_registry_list (&preprocess_registry);
}

const TpsDdpModelMaker *
tps_ddp_model_maker_find (const gchar *name, GError **error)
{
  return tps_registry_find (&ddp_model_maker_registry, name, error);
}

void
tps_ddp_model_maker_register (const TpsDdpModelMaker *maker)
{
  tps_registry_add (&ddp_model_maker_registry, maker);
}

const gchar **
tps_ddp_model_maker_list (void)
{
  return tps_registry_list (&ddp_model_maker_registry);
}

const TpsIterationStep *
tps_iteration_step_find (const gchar *name, GError **error)
{
  return tps_registry_find (&iteration_step_registry, name, error);
}

void
tps_iteration_step_register (const TpsIterationStep *step)
{
  tps_registry_add (&iteration_step_registry, step);
}

const gchar **
tps_iteration_step_list (void)
{
  return tps_registry_list (&iteration_step_registry);
}

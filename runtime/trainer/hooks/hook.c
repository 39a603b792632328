/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ports/hook.h"

#include "runtime/trainer/hooks/built_in_hooks.h"
#include "runtime/base/registry.h"

static const gconstpointer built_in_hooks[] = {
  &tps_allreduce_hook,
  &tps_hybrid_hook,
  &tps_rpc_hook,
  &tps_sparse_rpc_hook,
};

static const gconstpointer built_in_states[] = {
  &tps_basic_hook_state_class,
};

static TpsRegistry hooks = TPS_REGISTRY_INIT ("ddp hook", built_in_hooks);
static TpsRegistry states = TPS_REGISTRY_INIT ("hook state", built_in_states);

const TpsHook *
tps_hook_find (const gchar *name, GError **error)
{
  return tps_registry_find (&hooks, name, error);
}

void
tps_hook_register (const TpsHook *hook)
{
  tps_registry_add (&hooks, hook);
}

const gchar **
tps_hook_list (void)
{
  return tps_registry_list (&hooks);
}

const TpsHookStateClass *
tps_hook_state_class_find (const gchar *name, GError **error)
{
  return tps_registry_find (&states, name, error);
}

void
tps_hook_state_class_register (const TpsHookStateClass *klass)
{
  tps_registry_add (&states, klass);
}

const gchar **
tps_hook_state_class_list (void)
{
  return tps_registry_list (&states);
}

void
tps_bucket_call_finish (TpsBucketCall *call, TpsGradient *reduced, const GError *error)
{
  g_assert ((reduced == NULL) == (error != NULL));
  call->done (call, reduced, error);
}

void
tps_bucket_call_report_failure (TpsBucketCall *call, const GError *error)
{
  call->failing (call, error);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/ports/hook.h"

#include "runtime/trainer/hooks/all_reduce.h"
#include "runtime/trainer/hooks/server_reduce.h"

/* -- hooks -- */

static void
reduce_by_group (const TpsHookContext *context, TpsBucketCall *call)
{
  if (call->is_sparse)
    tps_hook_all_reduce_sparse (context, call, TPS_METRIC_HOOK_FUTURE);
  else
    tps_hook_all_reduce_dense (context, call);
}

static void
reduce_by_group_as_c10d (const TpsHookContext *context, TpsBucketCall *call)
{
  if (call->is_sparse)
    tps_hook_all_reduce_sparse (context, call, TPS_METRIC_HOOK_C10D);
  else
    tps_hook_all_reduce_dense (context, call);
}

static void
reduce_rows_by_server (const TpsHookContext *context, TpsBucketCall *call)
{
  if (call->is_sparse)
    tps_hook_reduce_with_server (context, call);
  else
    tps_hook_all_reduce_dense (context, call);
}

/* All buckets are all-reduced among the trainers, without servers. */
static const TpsHook allreduce_hook = {
  .name = "allreduce_hook",
  .needs = TPS_HOOK_NEEDS_GROUP,
  .get_reach = tps_hook_get_all_reduce_reach,
  .get_memory = tps_hook_get_group_memory,
  .reduce = reduce_by_group,
};

/* As allreduce_hook, but sparse buckets have a metric type of their own. */
static const TpsHook hybrid_hook = {
  .name = "hybrid_hook",
  .needs = TPS_HOOK_NEEDS_GROUP,
  .get_reach = tps_hook_get_all_reduce_reach,
  .get_memory = tps_hook_get_group_memory,
  .reduce = reduce_by_group_as_c10d,
};

/* All buckets go to parameter servers. */
static const TpsHook rpc_hook = {
  .name = "rpc_hook",
  .needs = TPS_HOOK_NEEDS_SERVERS,
  .get_reach = tps_hook_get_server_reach,
  .get_memory = tps_hook_get_server_memory,
  .reduce = tps_hook_reduce_with_server,
};

/* Sparse buckets go to parameter servers. Dense buckets are all-reduced among the trainers. */
static const TpsHook sparse_rpc_hook = {
  .name = "sparse_rpc_hook",
  .needs = TPS_HOOK_NEEDS_SERVERS | TPS_HOOK_NEEDS_GROUP,
  .get_reach = tps_hook_get_all_reduce_reach,
  .get_memory = tps_hook_get_group_memory,
  .reduce = reduce_rows_by_server,
};

static const gconstpointer built_in_hooks[] = { &allreduce_hook, &hybrid_hook, &rpc_hook,
                                                &sparse_rpc_hook };

TpsRegistry tps_hook_registry = TPS_REGISTRY_INIT ("ddp hook", built_in_hooks);

/* -- the basic state -- */

static const TpsHookStateClass basic_hook_state_class;

static TpsHookState *
basic_hook_state_create (void)
{
  TpsHookState *state = g_new0 (TpsHookState, 1);

  state->klass = &basic_hook_state_class;
  state->batch_number = -1;
  return state;
}

static void
basic_hook_state_free (TpsHookState *state)
{
  g_free (state);
}

static void
basic_hook_state_next_batch (TpsHookState *state)
{
  state->batch_number++;
}

static gchar *
basic_hook_state_get_key (const TpsHookState *state, guint bucket)
{
  return g_strdup_printf ("%" G_GINT64_FORMAT ",%u", state->batch_number, bucket);
}

static const TpsHookStateClass basic_hook_state_class = {
  .name = "BasicHookState",
  .create = basic_hook_state_create,
  .free = basic_hook_state_free,
  .next_batch = basic_hook_state_next_batch,
  .get_key = basic_hook_state_get_key,
};

static const gconstpointer built_in_states[] = { &basic_hook_state_class };

TpsRegistry tps_hook_state_class_registry = TPS_REGISTRY_INIT ("hook state", built_in_states);

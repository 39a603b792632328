/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sparse buckets go to parameter servers. Dense buckets are all-reduced among the trainers. */

#include "runtime/trainer/hooks/built_in_hooks.h"

static void
sparse_rpc_reduce (const TpsHookContext *context, TpsBucketCall *call)
{
  if (call->is_sparse)
    tps_hook_reduce_with_server (context, call);
  else
    tps_hook_all_reduce_dense (context, call);
}

const TpsHook tps_sparse_rpc_hook = {
  .name = "sparse_rpc_hook",
  .needs = TPS_HOOK_NEEDS_SERVERS | TPS_HOOK_NEEDS_GROUP,
  .get_reach = tps_hook_get_all_reduce_reach,
  .get_memory = tps_hook_get_group_memory,
  .reduce = sparse_rpc_reduce,
};

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All buckets are all-reduced among the trainers, without servers. */

#include "runtime/trainer/hooks/built_in_hooks.h"

static void
allreduce_reduce (const TpsHookContext *context, TpsBucketCall *call)
{
  if (call->is_sparse)
    tps_hook_all_reduce_sparse (context, call, TPS_METRIC_HOOK_FUTURE);
  else
    tps_hook_all_reduce_dense (context, call);
}

const TpsHook tps_allreduce_hook = {
  .name = "allreduce_hook",
  .needs = TPS_HOOK_NEEDS_GROUP,
  .get_reach = tps_hook_get_all_reduce_reach,
  .get_memory = tps_hook_get_group_memory,
  .reduce = allreduce_reduce,
};

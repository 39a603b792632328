/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Dense buckets use the group of the pass, and sparse buckets the group of the CPU. Without a GPU
 * both are the same group, and only the metric type distinguishes the two. */

#include "runtime/trainer/hooks/built_in_hooks.h"

static void
hybrid_reduce (const TpsHookContext *context, TpsBucketCall *call)
{
  if (call->is_sparse)
    tps_hook_all_reduce_sparse (context, call, TPS_METRIC_HOOK_C10D);
  else
    tps_hook_all_reduce_dense (context, call);
}

const TpsHook tps_hybrid_hook = {
  .name = "hybrid_hook",
  .needs = TPS_HOOK_NEEDS_GROUP,
  .get_reach = tps_hook_get_all_reduce_reach,
  .get_memory = tps_hook_get_group_memory,
  .reduce = hybrid_reduce,
};

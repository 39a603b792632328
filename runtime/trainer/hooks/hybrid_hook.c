/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All buckets are all-reduced through the group of the pass. Dense buckets may lie in device
 * memory, and sparse buckets always travel through host memory. Sparse buckets have a metric type
 * of their own. */

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

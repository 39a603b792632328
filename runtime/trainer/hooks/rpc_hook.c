/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* All buckets go to parameter servers. */

#include "runtime/trainer/hooks/built_in_hooks.h"

static void
rpc_reduce (const TpsHookContext *context, TpsBucketCall *call)
{
  tps_hook_reduce_with_server (context, call);
}

const TpsHook tps_rpc_hook = {
  .name = "rpc_hook",
  .needs = TPS_HOOK_NEEDS_SERVERS,
  .get_reach = tps_hook_get_server_reach,
  .get_memory = tps_hook_get_server_memory,
  .reduce = rpc_reduce,
};

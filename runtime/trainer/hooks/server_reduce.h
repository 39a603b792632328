/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reduction of a bucket by its parameter servers. Internal to this folder. */

#pragma once

#include "runtime/trainer/ports/hook.h"

/* TpsHook.get_reach and TpsHook.get_memory of hooks that use tps_hook_reduce_with_server(). */
TpsHookReach tps_hook_get_server_reach (const TpsHookContext *context, const TpsBucketCall *call);
TpsBuffer *tps_hook_get_server_memory (const TpsHookContext *context, const TpsBucketCall *call,
                                       TpsBuffer *current);

/* Sends the pieces of the bucket to their servers. The result of a bucket with one piece is the
 * server's reply, whose buffers are not copied; otherwise the averages of the pieces are copied to
 * one buffer, dense pieces as they arrive and rows after the last reply. Metric:
 * hook_future_metric, rpc_dense or rpc_sparse, for the whole bucket. */
void tps_hook_reduce_with_server (const TpsHookContext *context, TpsBucketCall *call);

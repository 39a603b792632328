/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reduction of a bucket by the process group. Metrics: `metric_type` or hook_future_metric, with
 * the name <backend>_dense_allreduce or <backend>_sparse_allreduce. Internal to this folder. */

#pragma once

#include "runtime/trainer/ports/hook.h"

/* TpsHook.get_reach and TpsHook.get_memory of hooks that use tps_hook_all_reduce_dense(). */
TpsHookReach tps_hook_get_all_reduce_reach (const TpsHookContext *context,
                                            const TpsBucketCall *call);
TpsBuffer *tps_hook_get_group_memory (const TpsHookContext *context, const TpsBucketCall *call,
                                      TpsBuffer *current);

/* All-reduces a dense bucket in place; the result is the bucket's storage, with the same bits on
 * all ranks. A bucket that travels as rows is reduced by tps_hook_all_reduce_sparse(). */
void tps_hook_all_reduce_dense (const TpsHookContext *context, TpsBucketCall *call);

/* Gathers counts, ids and rows from all ranks, then adds them in rank order on the group's thread,
 * with the arithmetic of the averaging server. */
void tps_hook_all_reduce_sparse (const TpsHookContext *context, TpsBucketCall *call,
                                 const gchar *metric_type);

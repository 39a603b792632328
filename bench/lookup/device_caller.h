/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A caller whose model computes on the GPU that holds the server's tables. It makes pooled lookups
 * by RPC over a Unix socket. A lookup ends when its result is in the caller's array, in memory of
 * that GPU. */

#pragma once

#include "bench/lookup/bags.h"
#include "bench/lookup/server.h"

G_BEGIN_DECLS

typedef struct TpsLookupDeviceCaller TpsLookupDeviceCaller;

/* The path of a result to the caller's array. */
typedef enum
{
  TPS_LOOKUP_THROUGH_HOST, /* results lie in host memory, and are copied to the device */
  TPS_LOOKUP_ON_DEVICE,    /* results lie in memory of the device that the processes share */
} TpsLookupWay;
#define TPS_LOOKUP_N_WAYS 2

/* Connects a client to `table`, which must be filled. With ON_DEVICE, repeats lookups until the
 * first result lies in memory of the device. `bags` is borrowed. The result is owned by the caller.
 * Blocks. Errors (NULL): UNAVAILABLE if no result lies in memory of the device; RESOURCE_EXHAUSTED,
 * DEVICE_LOST. */
TpsLookupDeviceCaller *tps_lookup_device_caller_new (const TpsLookupServer *server,
                                                     const TpsLookupBags *bags, const gchar *table,
                                                     TpsDevice *device, TpsLookupWay way,
                                                     GError **error);
void tps_lookup_device_caller_free (TpsLookupDeviceCaller *caller);

/* Runs `n_batches` batches from number `first` on. Returns the duration in seconds, or -1 with an
 * error. `checksum` receives the sum of the caller's array after the last batch. Blocks. */
gdouble tps_lookup_device_caller_run (TpsLookupDeviceCaller *caller, gsize first, gsize n_batches,
                                      gdouble *checksum, GError **error);

/* Returns the number of results of all runs. `n_there` receives the number of results that lay in
 * memory of the device. */
guint tps_lookup_device_caller_count (const TpsLookupDeviceCaller *caller, guint *n_there);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupDeviceCaller, tps_lookup_device_caller_free)

G_END_DECLS

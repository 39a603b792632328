/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A caller whose model computes on the GPU of the server's tables: pooled lookups by RPC over a
 * Unix socket, until each result is in an array of the caller in memory of the device. */

#pragma once

#include "bench/lookup/bags.h"
#include "bench/lookup/server.h"

G_BEGIN_DECLS

typedef struct TpsLookupDeviceCaller TpsLookupDeviceCaller;

/* The way of results to the caller's array. */
typedef enum
{
  TPS_LOOKUP_THROUGH_HOST, /* results lie in host memory, and are copied to the device */
  TPS_LOOKUP_ON_DEVICE,    /* results lie in memory of the device that the processes share */
} TpsLookupWay;
#define TPS_LOOKUP_N_WAYS 2

/* Connects a client to `table`, which must be filled. `bags` is borrowed. ON_DEVICE: looks up until
 * the first result is in memory of the device. Owned by the caller. Blocks. Errors (NULL):
 * UNAVAILABLE if results do not get there; RESOURCE_EXHAUSTED, DEVICE_LOST. */
TpsLookupDeviceCaller *tps_lookup_device_caller_new (const TpsLookupServer *server,
                                                     const TpsLookupBags *bags, const gchar *table,
                                                     TpsDevice *device, TpsLookupWay way,
                                                     GError **error);
void tps_lookup_device_caller_free (TpsLookupDeviceCaller *caller);

/* Runs `n_batches` batches from number `first` on. Returns the seconds, or -1. `checksum` receives
 * the sum of the last result, as it is in the array. Blocks. */
gdouble tps_lookup_device_caller_run (TpsLookupDeviceCaller *caller, gsize first, gsize n_batches,
                                      gdouble *checksum, GError **error);

/* The number of results of all runs, and of those that were in memory of the device. */
guint tps_lookup_device_caller_count (const TpsLookupDeviceCaller *caller, guint *n_there);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupDeviceCaller, tps_lookup_device_caller_free)

G_END_DECLS

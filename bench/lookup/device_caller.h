/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A caller whose model computes on the GPU that has the tables of the server. It makes pooled
 * lookups by RPC over a Unix socket. A lookup ends when the result is in the array of the caller,
 * in memory of that GPU. */

#pragma once

#include "bench/lookup/bags.h"
#include "bench/lookup/server.h"

G_BEGIN_DECLS

typedef struct TpsLookupDeviceCaller TpsLookupDeviceCaller;

/* The path of a result to the array of the caller. */
typedef enum
{
  TPS_LOOKUP_THROUGH_HOST, /* the result is in host memory, and is copied to the device */
  TPS_LOOKUP_ON_DEVICE,    /* the result is in memory of the device that both processes share */
} TpsLookupWay;
#define TPS_LOOKUP_N_WAYS 2

/* Connects a client to `table`, which must be filled. With TPS_LOOKUP_ON_DEVICE, repeats lookups
 * until the first result is in memory of the device. `bags` and `table` are borrowed. The caller
 * owns the result. Blocks. Errors (NULL): UNAVAILABLE (no result is in memory of the device);
 * RESOURCE_EXHAUSTED, DEVICE_LOST. */
TpsLookupDeviceCaller *tps_lookup_device_caller_new (const TpsLookupServer *server,
                                                     const TpsLookupBags *bags, const gchar *table,
                                                     TpsDevice *device, TpsLookupWay way,
                                                     GError **error);
void tps_lookup_device_caller_free (TpsLookupDeviceCaller *caller);

/* Runs `n_batches` batches from number `first` on. Returns the duration in seconds; -1 with an
 * error. `*checksum` receives the sum of the array of the caller after the last batch. Blocks. */
gdouble tps_lookup_device_caller_run (TpsLookupDeviceCaller *caller, gsize first, gsize n_batches,
                                      gdouble *checksum, GError **error);

/* Returns the number of results of all runs. `*n_there` receives the number of results that were in
 * memory of the device. */
guint tps_lookup_device_caller_count (const TpsLookupDeviceCaller *caller, guint *n_there);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLookupDeviceCaller, tps_lookup_device_caller_free)

G_END_DECLS

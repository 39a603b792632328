/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Chunks service: calls that come in chunks and answers that are fetched in chunks, over the
 * store of plugin/chunks/transfer_store.h.
 */

#pragma once

#include "plugin/service/carrier.h"
#include "plugin/access/access.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/budgets.h"

G_BEGIN_DECLS

#define TPS_CHUNKS_SERVICE_NAME "Chunks"

typedef struct TpsChunks TpsChunks;

typedef struct
{
  TpsWorkerPool
      *workers; /* borrowed, until the service is shut down: runs the timer that forgets */
  /* Of all transfers, announced or kept; 0 = four fifths of what their budget can hold. */
  gsize max_bytes;
  const TpsBudgets *budgets; /* `transfers` is charged; a reference is taken; NULL = no limits */
  guint max_transfers;       /* 0 = 256 */
  /* where the calls that come in chunks are counted; a reference is taken; NULL = nowhere */
  TpsMetrics *metrics;
  TpsAccess *access;        /* a reference is taken; NULL = calls are checked as they come */
  gsize answer_chunk_bytes; /* of answers; shorter ones go back whole; 0 = TPS_CHUNK_BYTES */
} TpsChunksOptions;

TpsChunks *tps_chunks_new (const TpsChunksOptions *options);

/* Whoever served it has stopped, and every call been answered. */
void tps_chunks_free (TpsChunks *chunks);

/* What calls in chunks reach: these services, as for tps_dispatcher_new(), Chunks itself left out.
 * At least once before the service is served; what was set before stays where it fails. Thread:
 * any. */
gboolean tps_chunks_set_services (TpsChunks *chunks, const TpsService *services, guint n_services,
                                  const gchar *default_service, GError **error);

/* Transfers that are under way, or kept for their clients. Thread: any. */
guint tps_chunks_get_n_transfers (TpsChunks *chunks);

TpsService tps_chunk_service (TpsChunks *chunks);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsChunks, tps_chunks_free)

G_END_DECLS

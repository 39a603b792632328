/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The Chunks service: receives requests in chunks and sends replies in chunks, with the store of
 * plugin/chunks/transfer_store.h.
 */

#pragma once

#include "plugin/service/dispatch.h"
#include "plugin/access/access.h"
#include "runtime/base/worker_pool.h"
#include "runtime/server/budgets.h"

G_BEGIN_DECLS

#define TPS_CHUNKS_SERVICE_NAME "Chunks"

typedef struct TpsChunks TpsChunks;

typedef struct
{
  TpsWorkerPool *workers; /* borrowed until the service is shut down; runs the expiry timer */
  /* The limit on the bytes of all transfers, announced or kept; 0 = four fifths of their budget. */
  gsize max_bytes;
  const TpsBudgets *budgets; /* only `transfers` is charged, and referenced; NULL = no limits */
  guint max_transfers;       /* 0 = 256 */
  gint64 idle_ns;            /* after this time without progress a transfer is dropped; 0 = 60 s */
  /* Counts the calls that come in chunks; a reference is taken; NULL = none are counted. */
  TpsMetrics *metrics;
  TpsAccess *access;        /* a reference is taken; NULL = rights are checked for each call */
  gsize answer_chunk_bytes; /* of replies; shorter ones are sent whole; 0 = TPS_CHUNK_BYTES */
} TpsChunksOptions;

/* Copies `options`. The caller owns the result. */
TpsChunks *tps_chunks_new (const TpsChunksOptions *options);
/* Frees the object. The server must have stopped, and every call must have been answered. */
void tps_chunks_free (TpsChunks *chunks);

/* Creates a dispatcher of calls in chunks, as tps_dispatcher_new() does, but leaves out the Chunks
 * service itself. The caller owns the dispatcher. */
TpsDispatcher *tps_chunks_dispatcher_new (const TpsService *services, guint n_services,
                                          const gchar *default_service, GError **error);

/* Sets the services that calls in chunks reach by default, unless tps_dispatcher_set_transferred()
 * was called for the dispatcher of the run_transfer call. Must be called at least once before a
 * dispatcher without its own setting serves Chunks. If it fails, the previous services stay.
 * Errors: those of tps_dispatcher_new(). Thread: any. */
gboolean tps_chunks_set_services (TpsChunks *chunks, const TpsService *services, guint n_services,
                                  const gchar *default_service, GError **error);

/* Returns the number of transfers that are incomplete, running, or kept. Thread: any. */
guint tps_chunks_get_n_transfers (TpsChunks *chunks);

/* Returns the service for a dispatcher. It borrows `chunks`. */
TpsService tps_chunk_service (TpsChunks *chunks);

G_END_DECLS

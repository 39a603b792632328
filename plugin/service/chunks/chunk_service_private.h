/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Inside of the Chunks service: chunk_service.c keeps its life and its clock, chunk_feed.c takes
 * chunks in, chunk_run.c runs calls and gives answers out.
 *
 * A chunk comes in -> it joins the queue of its transfer -> a worker takes the queue's chunks one
 * by one: checks, feeds, answers. One worker at a time, so that the chunks of a transfer stay in
 * order, while their bytes are looked at without the lock and off the I/O threads.
 *
 * run_transfer hands the call to the dispatcher with a carrier of its own, whose finish() keeps the
 * answer's writer in the transfer and answers everybody who asked. The first who asked lends its
 * workers to the call.
 *
 * Answers leave from where they were written: a reply to get_chunk borrows the bytes and holds a
 * reference of the transfer until it has been sent.
 *
 * With the answer to the last call the service may be gone: so nothing of it is looked at
 * afterwards.
 *
 * Lock: one, for the store, its transfers and what stands here; not held while bytes are looked at
 * or calls are answered. */

#pragma once

#include "plugin/chunks/transfer_store.h"
#include "plugin/service/chunks/chunk_service.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

struct TpsChunks
{
  TpsWorkerPool *workers;
  gsize answer_chunk_bytes;
  TpsMetrics *metrics; /* NULL = none */
  TpsAccess *access;   /* a reference; NULL = none */
  TpsBudget *replies;  /* of calls that came in transfers; a reference */
  GError *closing_error;

  TpsMutex lock; /* guards everything below */
  TpsCond fired;
  TpsDispatcher *dispatcher; /* what transfers call; NULL = nothing */
  TpsTransferStore *store;
  GHashTable *feeds;    /* by transfer: Feed, while chunks wait or are looked at */
  GHashTable *runs;     /* by transfer: Run, while it runs */
  guint64 timer_id;     /* 0 = none */
  gboolean timer_fires; /* its function has not ended */
  gboolean closing;
};

/* With the lock held, after a transfer has come or has been answered: sees to it that it is
 * forgotten in time. */
void tps_chunks_arm_timer (TpsChunks *chunks);

/* With the lock held: a transfer that the caller may use; borrowed. Errors: NOT_FOUND, also for the
 * transfer of another principal. */
TpsTransfer *tps_chunks_find (TpsChunks *chunks, TpsCall *call, const gchar *name, GError **error);

/* Methods. */
void tps_chunks_handle_put_chunk (TpsCall *call, gpointer service);
void tps_chunks_handle_run_transfer (TpsCall *call, gpointer service);
void tps_chunks_handle_get_chunk (TpsCall *call, gpointer service);

G_END_DECLS

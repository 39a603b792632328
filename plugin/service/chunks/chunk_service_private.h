/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the Chunks service: chunk_service.c creates and frees it and has its clock,
 * chunk_feed.c receives chunks, chunk_run.c runs calls and sends replies.
 *
 * A chunk comes in -> it joins the queue of its transfer -> a worker takes the queue's chunks one
 * by one: checks, feeds, answers. There is one worker at a time, so the chunks of a transfer stay
 * in order, and their bytes are processed without the lock and off the I/O threads.
 *
 * run_transfer passes the transferred call to the dispatcher with a carrier of its own. The
 * carrier's finish() keeps the reply's writer in the transfer, and answers all calls of
 * run_transfer for the transfer. The transferred call uses the workers of the first of these calls.
 *
 * Replies are sent without a copy: a reply to get_chunk borrows the bytes and has a reference to
 * the transfer until it has been sent.
 *
 * The service may be freed once its last call has been answered, so its memory must not be used
 * after that answer.
 *
 * One lock guards the store, its transfers and the fields marked below. It is not held while bytes
 * are processed or calls are answered. */

#pragma once

#include "plugin/chunks/transfer_store.h"
#include "plugin/service/chunks/chunk_service.h"
#include "runtime/server/shell.h"

G_BEGIN_DECLS

struct TpsChunks
{
  TpsWorkerPool *workers;
  gsize answer_chunk_bytes;
  TpsMetrics *metrics; /* NULL = none */
  TpsAccess *access;   /* a reference; NULL = none */
  TpsBudget *replies;  /* of calls that came in transfers; a reference */
  GError *closing_error;

  TpsShell shell;            /* its lock guards all fields below */
  TpsDispatcher *dispatcher; /* set with tps_chunks_set_services(); NULL = none */
  TpsTransferStore *store;
  GHashTable *feeds; /* by transfer: Feed, while chunks are queued or processed */
  GHashTable *runs;  /* by transfer: Run, while it runs */
};

/* Sets the deadline of the next expiry. Must be called after a transfer has begun or has been
 * answered. The lock must be held. */
void tps_chunks_arm_timer (TpsChunks *chunks);

/* Returns a transfer that the caller may use, borrowed. The lock must be held. Errors (NULL):
 * NOT_FOUND, also for a transfer of a different principal. */
TpsTransfer *tps_chunks_find (TpsChunks *chunks, TpsCall *call, const gchar *name, GError **error);

/* The methods put_chunk, run_transfer and get_chunk: see TpsMethod.handle. */
void tps_chunks_handle_put_chunk (TpsCall *call, gpointer service);
void tps_chunks_handle_run_transfer (TpsCall *call, gpointer service);
void tps_chunks_handle_get_chunk (TpsCall *call, gpointer service);

G_END_DECLS

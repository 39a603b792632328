/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One message in chunks, the call in it, and the reply: the server's side of thrift/chunks.thrift,
 * without clock, lock or thread.
 *
 *   RECEIVING --last chunk--> COMPLETE --take_call--> RUNNING --answer--> ANSWERED
 *
 * A chunk takes three steps: check, feed and advance. The first two take long and need no lock, but
 * only one thread at a time; all other functions must be called with the lock that guards the
 * transfer. Chunks are fed into a scanner, so each large tensor is copied only once. */

#pragma once

#include "plugin/chunks/chunk_layout.h"
#include "plugin/wire/wire_chunks.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef enum
{
  TPS_TRANSFER_RECEIVING,
  TPS_TRANSFER_COMPLETE,
  TPS_TRANSFER_RUNNING,
  TPS_TRANSFER_ANSWERED,
  TPS_TRANSFER_N_STATES,
} TpsTransferState;

typedef enum
{
  TPS_CHUNK_REFUSED,  /* the error is set, and nothing has changed */
  TPS_CHUNK_NEXT,     /* the chunk must be fed */
  TPS_CHUNK_REPEATED, /* the chunk has already been received */
} TpsChunkVerdict;

/* Read-only, but for `owner`, which may be set before other threads know the transfer. */
typedef struct
{
  TpsRefcount refcount;
  gchar *name;
  gchar *owner;   /* the only principal that may use it; NULL = all that know its name */
  gint64 n_bytes; /* announced size of the call; 0 if the call came in a frame */
  gint32 n_chunks;

  /* The fields below belong to the thread that feeds chunks. */
  TpsMessageBuilder builder;
  gsize n_each_bytes; /* of a chunk; 0 = none was received */
  gint32 n_fed;

  TpsTransferState state;
  gint32 n_received; /* chunks, in order from 0 */
  TpsWriter *answer; /* when ANSWERED; does not change any more */
  gsize n_answer_bytes;
} TpsTransfer;

/* Begins a message of `n_bytes` in `n_chunks`. Its bodies come from `bodies` (a reference is taken;
 * NULL = the default pool). Copies `name`. The caller owns a reference. Errors: INVALID_ARGUMENT
 * (impossible numbers). */
TpsTransfer *tps_transfer_new (const gchar *name, gint64 n_bytes, gint32 n_chunks,
                               TpsBufferPool *bodies, GError **error);

/* Creates a transfer for the reply to a call that did not come in chunks. Takes ownership of
 * `answer`, which must have been ended for a transfer. The caller owns a reference. */
TpsTransfer *tps_transfer_new_answered (const gchar *name, TpsWriter *answer);
TpsTransfer *tps_transfer_ref (TpsTransfer *transfer);
void tps_transfer_unref (TpsTransfer *transfer);

/* Returns TRUE if `principal`, which may be NULL, may use the transfer. */
gboolean tps_transfer_may_use (const TpsTransfer *transfer, const gchar *principal);

const gchar *tps_transfer_state_name (TpsTransferState state);

/* Returns the number of bytes that count against a limit: the announced length of the call, and
 * later the length of the reply. */
gint64 tps_transfer_get_n_bytes (const TpsTransfer *transfer);

/* Checks the numbers, the length and the CRC of a chunk. Errors: INVALID_ARGUMENT. */
TpsChunkVerdict tps_transfer_check (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);

/* Feeds the next chunk, which must have been checked. Errors: INVALID_ARGUMENT if the bytes are not
 * a message of the announced length; the transfer must then not be used any more. */
gboolean tps_transfer_feed (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);

/* Counts the chunk that was fed as received. After the last chunk, the transfer is COMPLETE. */
void tps_transfer_advance (TpsTransfer *transfer);

/* Returns the call of a complete transfer, which is RUNNING from then on. The caller owns the call.
 * The transfer must be RECEIVING or COMPLETE. Errors: INVALID_ARGUMENT (chunks are missing, or the
 * message is not a call). */
TpsMessage *tps_transfer_take_call (TpsTransfer *transfer, GError **error);

/* Takes ownership of the reply of a running transfer. `answer` must have been ended for a transfer.
 * The transfer is then ANSWERED. */
void tps_transfer_take_answer (TpsTransfer *transfer, TpsWriter *answer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTransfer, tps_transfer_unref)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One message in chunks, the call in it, and its reply: the server's side of thrift/chunks.thrift,
 * without clock, lock or thread.
 *
 *   RECEIVING --last chunk--> COMPLETE --take_call--> RUNNING --answer--> ANSWERED
 *
 * A chunk takes three steps, so that the two long ones need no lock: check, feed, advance. Only one
 * thread at a time may check and feed a transfer. `advance` and all other functions must be called
 * with the lock that guards the transfer. Chunks are fed into a scanner as they come, so the
 * message is in its final place after the last one: large tensors are in buffers of their own, and
 * were copied once.
 */

#pragma once

#include "plugin/chunks/chunk_layout.h"
#include "plugin/wire/wire_chunks.h"

G_BEGIN_DECLS

typedef struct TpsTransfer TpsTransfer;

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
  TPS_CHUNK_NEXT,     /* must be fed */
  TPS_CHUNK_REPEATED, /* was received before */
} TpsChunkVerdict;

/* Begins a message of `n_bytes` in `n_chunks`. Its bodies come from `bodies` (a reference is taken;
 * NULL = the default pool). Errors: INVALID_ARGUMENT for impossible numbers. */
TpsTransfer *tps_transfer_new (const gchar *name, gint64 n_bytes, gint32 n_chunks,
                               TpsBufferPool *bodies, GError **error);

/* Keeps the reply to a call that did not come in chunks. Takes over `answer`, which was ended for a
 * transfer. */
TpsTransfer *tps_transfer_new_answered (const gchar *name, TpsWriter *answer);

/* Thread: any. */
TpsTransfer *tps_transfer_ref (TpsTransfer *transfer);
void tps_transfer_unref (TpsTransfer *transfer);

/* Sets the only principal that may use the transfer; NULL (the default) = all that know its name.
 * Copied. May be called once, before others know the transfer. */
void tps_transfer_set_owner (TpsTransfer *transfer, const gchar *owner);
gboolean tps_transfer_may_use (const TpsTransfer *transfer, const gchar *principal);

/* Borrowed. */
const gchar *tps_transfer_get_name (const TpsTransfer *transfer);
TpsTransferState tps_transfer_get_state (const TpsTransfer *transfer);
/* Returns the name of a state, for errors; static. */
const gchar *tps_transfer_state_name (TpsTransferState state);

/* The number of chunks received, in order from 0. */
gint32 tps_transfer_get_n_received (const TpsTransfer *transfer);

/* The bytes that count against a limit: the announced ones, later those of the reply. */
gint64 tps_transfer_get_n_bytes (const TpsTransfer *transfer);

/* Whether the transfer was begun with these numbers. */
gboolean tps_transfer_is_of (const TpsTransfer *transfer, gint64 n_bytes, gint32 n_chunks);

/* Checks a chunk's numbers, then its CRC. Errors: INVALID_ARGUMENT. */
TpsChunkVerdict tps_transfer_check (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);

/* Feeds the next chunk. Errors: INVALID_ARGUMENT if the bytes are no message of the announced
 * length; the transfer must then not be used any more. */
gboolean tps_transfer_feed (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);

/* Counts the chunk that was fed as received. */
void tps_transfer_advance (TpsTransfer *transfer);

/* Returns the call of a complete transfer, which is RUNNING from then on. Errors: INVALID_ARGUMENT
 * (chunks are missing, not a call). The transfer must be RECEIVING or COMPLETE. */
TpsMessage *tps_transfer_take_call (TpsTransfer *transfer, GError **error);

/* Takes over the reply of a running transfer, which was ended for a transfer. */
void tps_transfer_take_answer (TpsTransfer *transfer, TpsWriter *answer);

/* The reply, borrowed; it does not change any more. The transfer must be ANSWERED. */
TpsWriter *tps_transfer_get_answer (TpsTransfer *transfer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTransfer, tps_transfer_unref)

G_END_DECLS

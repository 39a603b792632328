/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One message on its way in chunks, the call that it is, and the answer that is kept: the server's
 * side of thrift/chunks.thrift, without clock, lock or thread.
 *
 *   RECEIVING --last chunk--> COMPLETE --take_call--> RUNNING --answer--> ANSWERED
 *
 * A chunk goes through three steps, so that the two long ones need no lock: check, feed, advance.
 * Who feeds a transfer is the only one to do so; `advance` and everything else is called with the
 * lock that guards the transfer. Chunks are fed into a scanner as they come, so that the message is
 * in its final place when the last one is there: large tensors in buffers of their own, copied
 * once.
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
  TPS_CHUNK_REFUSED,  /* an error was set, and nothing changed */
  TPS_CHUNK_NEXT,     /* to be fed */
  TPS_CHUNK_REPEATED, /* was here before */
} TpsChunkVerdict;

/* A message of `n_bytes` in `n_chunks`; its bodies come from `bodies` (a reference is taken; NULL =
 * the default pool). Errors: INVALID_ARGUMENT for numbers that fit no message. */
TpsTransfer *tps_transfer_new (const gchar *name, gint64 n_bytes, gint32 n_chunks,
                               TpsBufferPool *bodies, GError **error);

/* An answer that is kept, of a call that did not come in chunks. Takes over `answer`, which was
 * ended for a transfer. */
TpsTransfer *tps_transfer_new_answered (const gchar *name, TpsWriter *answer);

/* Thread: any. */
TpsTransfer *tps_transfer_ref (TpsTransfer *transfer);
void tps_transfer_unref (TpsTransfer *transfer);

/* The principal that alone may use the transfer; NULL (at first) = each that knows its name.
 * Copied; set once, before others know the transfer. */
void tps_transfer_set_owner (TpsTransfer *transfer, const gchar *owner);
gboolean tps_transfer_may_use (const TpsTransfer *transfer, const gchar *principal);

const gchar *tps_transfer_get_name (const TpsTransfer *transfer);
TpsTransferState tps_transfer_get_state (const TpsTransfer *transfer);
const gchar *tps_transfer_state_name (TpsTransferState state);

/* Chunks [0, this) are there. */
gint32 tps_transfer_get_n_received (const TpsTransfer *transfer);

/* What it counts against a limit: the announced bytes, later those of the answer. */
gint64 tps_transfer_get_n_bytes (const TpsTransfer *transfer);

/* Whether it was begun with these numbers. */
gboolean tps_transfer_is_of (const TpsTransfer *transfer, gint64 n_bytes, gint32 n_chunks);

/* Looks at a chunk's numbers, then at its CRC. Errors: INVALID_ARGUMENT. */
TpsChunkVerdict tps_transfer_check (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);

/* Feeds the next chunk. Errors: INVALID_ARGUMENT where the bytes are no message of the announced
 * length; the transfer is then of no use any more. */
gboolean tps_transfer_feed (TpsTransfer *transfer, const TpsChunk *chunk, GError **error);

/* The chunk that was fed is there. */
void tps_transfer_advance (TpsTransfer *transfer);

/* Takes the call out of a complete transfer, which runs from now on. Errors: INVALID_ARGUMENT
 * (chunks are missing, not a call). Only while RECEIVING or COMPLETE. */
TpsMessage *tps_transfer_take_call (TpsTransfer *transfer, GError **error);

/* Takes over the answer of a running transfer, ended for a transfer. */
void tps_transfer_take_answer (TpsTransfer *transfer, TpsWriter *answer);

/* The answer, borrowed; it does not change any more. Only while ANSWERED. */
TpsWriter *tps_transfer_get_answer (TpsTransfer *transfer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTransfer, tps_transfer_unref)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/chunks/transfer.h"

#include "plugin/chunks/chunk_layout.h"
#include "runtime/base/error.h"

#define BIT(state) (1u << (state))

static const struct
{
  const gchar *name;
  guint next;
} states[TPS_TRANSFER_N_STATES] = {
  [TPS_TRANSFER_RECEIVING] = { "receiving", BIT (TPS_TRANSFER_COMPLETE) },
  [TPS_TRANSFER_COMPLETE] = { "complete", BIT (TPS_TRANSFER_RUNNING) },
  [TPS_TRANSFER_RUNNING] = { "running", BIT (TPS_TRANSFER_ANSWERED) },
  [TPS_TRANSFER_ANSWERED] = { "answered", 0 },
};

/* ---- creation and release ------------------------------------------------------------------- */

static TpsTransfer *
allocate (const gchar *name, TpsTransferState state)
{
  TpsTransfer *transfer = g_new0 (TpsTransfer, 1);

  tps_refcount_init (&transfer->refcount);
  transfer->name = g_strdup (name);
  transfer->state = state;
  return transfer;
}

TpsTransfer *
tps_transfer_new (const gchar *name, gint64 n_bytes, gint32 n_chunks, TpsBufferPool *bodies,
                  GError **error)
{
  TpsTransfer *transfer;

  if (n_bytes <= 0 || n_chunks <= 0 || n_chunks > n_bytes)
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                          "%" G_GINT64_FORMAT
                          " bytes in %d chunks: expected at least 1 byte and 1 chunk, "
                          "and no more chunks than bytes",
                          n_bytes, n_chunks);
  transfer = allocate (name, TPS_TRANSFER_RECEIVING);
  transfer->n_bytes = n_bytes;
  transfer->n_chunks = n_chunks;
  tps_message_builder_init (&transfer->builder, (gsize) n_bytes, bodies);
  return transfer;
}

static void
set_answer (TpsTransfer *transfer, TpsWriter *answer)
{
  guint n_pieces;

  transfer->answer = answer;
  tps_writer_get_pieces (answer, &n_pieces, &transfer->n_answer_bytes);
}

TpsTransfer *
tps_transfer_new_answered (const gchar *name, TpsWriter *answer)
{
  TpsTransfer *transfer = allocate (name, TPS_TRANSFER_ANSWERED);

  set_answer (transfer, answer);
  return transfer;
}

TPS_DEFINE_REF (TpsTransfer, tps_transfer)

void
tps_transfer_unref (TpsTransfer *transfer)
{
  if (!tps_refcount_dec (&transfer->refcount))
    return;
  tps_message_builder_clear (&transfer->builder);
  tps_writer_free (transfer->answer);
  g_free (transfer->name);
  g_free (transfer->owner);
  g_free (transfer);
}

gboolean
tps_transfer_may_use (const TpsTransfer *transfer, const gchar *principal)
{
  return transfer->owner == NULL || g_strcmp0 (transfer->owner, principal) == 0;
}

static void
set_state (TpsTransfer *transfer, TpsTransferState state)
{
  g_assert ((states[transfer->state].next & BIT (state)) != 0);
  transfer->state = state;
}

const gchar *
tps_transfer_state_name (TpsTransferState state)
{
  return states[state].name;
}

gint64
tps_transfer_get_n_bytes (const TpsTransfer *transfer)
{
  return transfer->answer != NULL ? (gint64) transfer->n_answer_bytes : transfer->n_bytes;
}

/* ---- chunks --------------------------------------------------------------------------------- */

static gboolean
check_length (const TpsTransfer *transfer, const TpsChunk *chunk, GError **error)
{
  gsize n_bytes = g_bytes_get_size (chunk->data.received);
  TpsChunkLayout layout = {
    .n_bytes = transfer->n_bytes,
    .n_chunks = transfer->n_chunks,
    .n_each_bytes = transfer->n_each_bytes > 0 ? transfer->n_each_bytes : n_bytes,
  };

  if (tps_chunk_layout_is_possible (layout.n_bytes, layout.n_chunks, layout.n_each_bytes)
      && n_bytes == tps_chunk_layout_get_length (&layout, chunk->index))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "chunk %d of %d has %" G_GSIZE_FORMAT " bytes, which does not fit a message of "
                   "%" G_GINT64_FORMAT " bytes: all chunks but the last must have the same length",
                   chunk->index, chunk->count, n_bytes, transfer->n_bytes);
}

TpsChunkVerdict
tps_transfer_check (TpsTransfer *transfer, const TpsChunk *chunk, GError **error)
{
  if (chunk->count != transfer->n_chunks || chunk->index < 0 || chunk->index >= chunk->count)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "chunk %d of %d: transfer %s was begun with %d chunks", chunk->index,
                   chunk->count, transfer->name, transfer->n_chunks);
      return TPS_CHUNK_REFUSED;
    }
  if (chunk->index > transfer->n_fed)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "chunk %d of %d comes after a gap: send chunk %d next", chunk->index,
                   chunk->count, transfer->n_fed);
      return TPS_CHUNK_REFUSED;
    }
  if (!check_length (transfer, chunk, error)
      || !tps_crc32c_check_chunk (chunk, TPS_ERROR_INVALID_ARGUMENT, error))
    return TPS_CHUNK_REFUSED;
  return chunk->index < transfer->n_fed ? TPS_CHUNK_REPEATED : TPS_CHUNK_NEXT;
}

gboolean
tps_transfer_feed (TpsTransfer *transfer, const TpsChunk *chunk, GError **error)
{
  g_autoptr (GError) why = NULL;
  gboolean is_last = chunk->index == transfer->n_chunks - 1;

  if (!tps_message_builder_feed (&transfer->builder, chunk->data.received, is_last, &why))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "transfer %s holds no message in binary protocol: %s", transfer->name,
                     why->message);
  transfer->n_each_bytes = MAX (transfer->n_each_bytes, g_bytes_get_size (chunk->data.received));
  transfer->n_fed++;
  return TRUE;
}

void
tps_transfer_advance (TpsTransfer *transfer)
{
  transfer->n_received++;
  if (transfer->n_received == transfer->n_chunks)
    set_state (transfer, TPS_TRANSFER_COMPLETE);
}

/* ---- call and reply ------------------------------------------------------------------------- */

TpsMessage *
tps_transfer_take_call (TpsTransfer *transfer, GError **error)
{
  if (transfer->state == TPS_TRANSFER_RECEIVING)
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                          "chunks of transfer %s are missing: %d of %d are there", transfer->name,
                          transfer->n_received, transfer->n_chunks);
  if (transfer->builder.message->kind != TPS_MESSAGE_CALL)
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                          "transfer %s holds a message of type %d, expected a call (1)",
                          transfer->name, (gint) transfer->builder.message->kind);
  set_state (transfer, TPS_TRANSFER_RUNNING);
  return g_steal_pointer (&transfer->builder.message);
}

void
tps_transfer_take_answer (TpsTransfer *transfer, TpsWriter *answer)
{
  set_state (transfer, TPS_TRANSFER_ANSWERED);
  set_answer (transfer, answer);
}

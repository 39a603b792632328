/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_chunks.h"

#include "plugin/wire/value_kinds.h"

#define SERVICE "Chunks"

void
tps_chunk_clear (TpsChunk *chunk)
{
  g_clear_pointer (&chunk->transfer, g_free);
  g_clear_pointer (&chunk->data.received, g_bytes_unref);
}

void
tps_transfer_arguments_clear (TpsTransferArguments *arguments)
{
  g_clear_pointer (&arguments->transfer, g_free);
}

void
tps_large_answer_clear (TpsLargeAnswer *answer)
{
  g_clear_pointer (&answer->message.received, g_bytes_unref);
}

/* ---- data ----------------------------------------------------------------------------------- */

static gboolean
read_data (TpsReader *in, const TpsFieldPath *path, const TpsField *field, gpointer object,
           GError **error)
{
  /* tps_kind_bytes reads into the first member. */
  G_STATIC_ASSERT (G_STRUCT_OFFSET (TpsChunkData, received) == 0);
  return tps_kind_bytes.read (in, path, field, object, error);
}

static void
write_data (TpsWriter *out, const TpsField *field, gconstpointer object)
{
  const TpsChunkData *data = TPS_FIELD_CONST_VALUE (field, object);

  if (data->received != NULL)
    tps_kind_bytes.write (out, field, object);
  else
    tps_writer_binary_pieces (out, data->pieces, data->n_pieces);
}

static gboolean
is_data_set (const TpsField *field, gconstpointer object)
{
  const TpsChunkData *data = TPS_FIELD_CONST_VALUE (field, object);

  return data->received != NULL || data->pieces != NULL;
}

static const TpsValueKind data_kind = { TPS_WIRE_BINARY, "binary", read_data, write_data,
                                        is_data_set };

/* ---- structs -------------------------------------------------------------------------------- */

#define TRANSFER(of)                                                                        \
  {                                                                                         \
    "transfer", 1, TPS_FIELD_REQUIRED, &tps_kind_name, NULL, G_STRUCT_OFFSET (of, transfer) \
  }

#define NUMBER(of, field, id, kind)                                         \
  {                                                                         \
#field, id, TPS_FIELD_REQUIRED, &kind, NULL, G_STRUCT_OFFSET(of, field) \
  }

static const TpsField chunk_fields[] = {
  TRANSFER (TpsChunk),
  NUMBER (TpsChunk, index, 2, tps_kind_i32),
  NUMBER (TpsChunk, count, 3, tps_kind_i32),
  NUMBER (TpsChunk, crc32c, 4, tps_kind_i32),
  { "data", 5, TPS_FIELD_REQUIRED, &data_kind, NULL, G_STRUCT_OFFSET (TpsChunk, data) },
  { NULL },
};

static const TpsField state_fields[] = {
  { "received", 1, TPS_FIELD_REQUIRED, &tps_kind_i32 },
  { NULL },
};

static const TpsField answer_fields[] = {
  NUMBER (TpsLargeAnswer, bytes, 1, tps_kind_i64),
  NUMBER (TpsLargeAnswer, count, 2, tps_kind_i32),
  { "message", 3, TPS_FIELD_OPTIONAL, &data_kind, NULL, G_STRUCT_OFFSET (TpsLargeAnswer, message) },
  { NULL },
};

static const TpsStruct chunk_struct = { "Chunk", chunk_fields };
static const TpsStruct state_struct = { "TransferState", state_fields };
static const TpsStruct answer_struct = { "LargeAnswer", answer_fields };

/* ---- methods -------------------------------------------------------------------------------- */

static const TpsField begin_arguments[] = {
  TRANSFER (TpsTransferArguments),
  NUMBER (TpsTransferArguments, bytes, 2, tps_kind_i64),
  NUMBER (TpsTransferArguments, count, 3, tps_kind_i32),
  { NULL },
};

static const TpsField put_arguments[] = {
  { "chunk", 1, TPS_FIELD_REQUIRED, &tps_kind_struct, &chunk_struct },
  { NULL },
};

static const TpsField get_arguments[] = {
  TRANSFER (TpsTransferArguments),
  NUMBER (TpsTransferArguments, index, 2, tps_kind_i32),
  { NULL },
};

static const TpsField name_arguments[] = {
  TRANSFER (TpsTransferArguments),
  { NULL },
};

static const TpsField state_result = { "state", .kind = &tps_kind_struct, .of = &state_struct };
static const TpsField answer_result = { "answer", .kind = &tps_kind_struct, .of = &answer_struct };
static const TpsField chunk_result = { "chunk", .kind = &tps_kind_struct, .of = &chunk_struct };

const TpsRpc tps_begin_transfer_rpc = { SERVICE, "begin_transfer", begin_arguments, &state_result };
const TpsRpc tps_put_chunk_rpc = { SERVICE, "put_chunk", put_arguments };
const TpsRpc tps_run_transfer_rpc = { SERVICE, "run_transfer", name_arguments, &answer_result };
const TpsRpc tps_get_chunk_rpc = { SERVICE, "get_chunk", get_arguments, &chunk_result };
const TpsRpc tps_end_transfer_rpc = { SERVICE, "end_transfer", name_arguments };

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_chunks.h"

void
tps_chunk_clear (TpsChunk *chunk)
{
  g_clear_pointer (&chunk->transfer, g_free);
  g_clear_pointer (&chunk->data, g_bytes_unref);
}

void
tps_transfer_arguments_clear (TpsTransferArguments *arguments)
{
  g_clear_pointer (&arguments->transfer, g_free);
}

void
tps_large_answer_clear (TpsLargeAnswer *answer)
{
  g_clear_pointer (&answer->message, g_bytes_unref);
}

/* ---- reading -------------------------------------------------------------------------------- */

#define TRANSFER_FIELD(of)                                                  \
  {                                                                         \
    .name = "transfer", .id = 1, .type = TPS_WIRE_BINARY, .required = TRUE, \
    .offset = G_STRUCT_OFFSET (of, transfer), .read = tps_field_read_name   \
  }

#define NUMBER_FIELD(of, field, number, kind)                     \
  {                                                               \
    .name = #field, .id = number, .type = kind, .required = TRUE, \
    .offset = G_STRUCT_OFFSET (of, field)                         \
  }

static const TpsFieldSpec chunk_fields[] = {
  TRANSFER_FIELD (TpsChunk),
  NUMBER_FIELD (TpsChunk, index, 2, TPS_WIRE_I32),
  NUMBER_FIELD (TpsChunk, count, 3, TPS_WIRE_I32),
  NUMBER_FIELD (TpsChunk, crc32c, 4, TPS_WIRE_I32),
  { "data", 5, TPS_WIRE_BINARY, .required = TRUE, .offset = G_STRUCT_OFFSET (TpsChunk, data),
    .read = tps_field_read_bytes },
  { NULL },
};

static const TpsFieldSpec begin_fields[] = {
  TRANSFER_FIELD (TpsTransferArguments),
  NUMBER_FIELD (TpsTransferArguments, bytes, 2, TPS_WIRE_I64),
  NUMBER_FIELD (TpsTransferArguments, count, 3, TPS_WIRE_I32),
  { NULL },
};

static const TpsFieldSpec get_fields[] = {
  TRANSFER_FIELD (TpsTransferArguments),
  NUMBER_FIELD (TpsTransferArguments, index, 2, TPS_WIRE_I32),
  { NULL },
};

static const TpsFieldSpec name_fields[] = {
  TRANSFER_FIELD (TpsTransferArguments),
  { NULL },
};

static const TpsFieldSpec state_fields[] = {
  { "received", 1, TPS_WIRE_I32, .required = TRUE },
  { NULL },
};

static const TpsFieldSpec answer_fields[] = {
  NUMBER_FIELD (TpsLargeAnswer, bytes, 1, TPS_WIRE_I64),
  NUMBER_FIELD (TpsLargeAnswer, count, 2, TPS_WIRE_I32),
  { "message", 3, TPS_WIRE_BINARY, .offset = G_STRUCT_OFFSET (TpsLargeAnswer, message),
    .read = tps_field_read_bytes },
  { NULL },
};

gboolean
tps_begin_transfer_arguments_decode (TpsReader *in, TpsTransferArguments *arguments, GError **error)
{
  return tps_fields_read (in, NULL, begin_fields, arguments, NULL, error);
}

static gboolean
read_chunk (TpsReader *in, const TpsFieldPath *path, gpointer target, GError **error)
{
  return tps_fields_read (in, path, chunk_fields, target, NULL, error);
}

gboolean
tps_put_chunk_arguments_decode (TpsReader *in, TpsChunk *chunk, GError **error)
{
  static const TpsFieldSpec put_fields[] = {
    { "chunk", 1, TPS_WIRE_STRUCT, .required = TRUE, .read = read_chunk },
    { NULL },
  };

  return tps_fields_read (in, NULL, put_fields, chunk, NULL, error);
}

gboolean
tps_run_transfer_arguments_decode (TpsReader *in, TpsTransferArguments *arguments, GError **error)
{
  return tps_fields_read (in, NULL, name_fields, arguments, NULL, error);
}

gboolean
tps_get_chunk_arguments_decode (TpsReader *in, TpsTransferArguments *arguments, GError **error)
{
  return tps_fields_read (in, NULL, get_fields, arguments, NULL, error);
}

gboolean
tps_end_transfer_arguments_decode (TpsReader *in, TpsTransferArguments *arguments, GError **error)
{
  return tps_fields_read (in, NULL, name_fields, arguments, NULL, error);
}

static gboolean
read_result (TpsReader *in, const gchar *name, TpsWireType type, const TpsFieldSpec *fields,
             gpointer target, GError **error)
{
  TpsFieldPath path = { .name = name };

  return tps_field_check_type (&path, type, TPS_WIRE_STRUCT, error)
         && tps_fields_read (in, &path, fields, target, NULL, error);
}

gboolean
tps_begin_transfer_result_decode (TpsReader *in, TpsWireType type, gpointer received,
                                  GError **error)
{
  return read_result (in, "state", type, state_fields, received, error);
}

gboolean
tps_run_transfer_result_decode (TpsReader *in, TpsWireType type, gpointer answer, GError **error)
{
  return read_result (in, "answer", type, answer_fields, answer, error);
}

gboolean
tps_get_chunk_result_decode (TpsReader *in, TpsWireType type, gpointer chunk, GError **error)
{
  return read_result (in, "chunk", type, chunk_fields, chunk, error);
}

/* ---- writing -------------------------------------------------------------------------------- */

void
tps_begin_transfer_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsTransferArguments *arguments = data;

  tps_field_write_string (out, 1, arguments->transfer);
  tps_field_write_i64 (out, 2, arguments->bytes);
  tps_field_write_i32 (out, 3, arguments->count);
}

static void
encode_chunk (TpsWriter *out, gint16 id, const TpsChunkPieces *chunk)
{
  tps_writer_field (out, id, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_string (out, 1, chunk->transfer);
  tps_field_write_i32 (out, 2, chunk->index);
  tps_field_write_i32 (out, 3, chunk->count);
  tps_field_write_i32 (out, 4, chunk->crc32c);
  tps_writer_field (out, 5, TPS_WIRE_BINARY);
  tps_writer_binary_pieces (out, chunk->pieces, chunk->n_pieces);
  tps_writer_struct_end (out);
}

void
tps_put_chunk_arguments_encode (TpsWriter *out, gconstpointer data)
{
  encode_chunk (out, 1, data);
}

void
tps_run_transfer_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsTransferArguments *arguments = data;

  tps_field_write_string (out, 1, arguments->transfer);
}

void
tps_get_chunk_arguments_encode (TpsWriter *out, gconstpointer data)
{
  const TpsTransferArguments *arguments = data;

  tps_field_write_string (out, 1, arguments->transfer);
  tps_field_write_i32 (out, 2, arguments->index);
}

void
tps_end_transfer_arguments_encode (TpsWriter *out, gconstpointer data)
{
  tps_run_transfer_arguments_encode (out, data);
}

void
tps_begin_transfer_result_encode (TpsWriter *out, gconstpointer received)
{
  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_i32 (out, 1, *(const gint32 *) received);
  tps_writer_struct_end (out);
}

void
tps_run_transfer_result_encode (TpsWriter *out, gconstpointer data)
{
  const TpsLargeAnswerPieces *answer = data;

  tps_writer_field (out, 0, TPS_WIRE_STRUCT);
  tps_writer_struct_begin (out);
  tps_field_write_i64 (out, 1, answer->bytes);
  tps_field_write_i32 (out, 2, answer->count);
  if (answer->count == 0)
    {
      tps_writer_field (out, 3, TPS_WIRE_BINARY);
      tps_writer_binary_pieces (out, answer->pieces, answer->n_pieces);
    }
  tps_writer_struct_end (out);
}

void
tps_get_chunk_result_encode (TpsWriter *out, gconstpointer data)
{
  encode_chunk (out, 0, data);
}

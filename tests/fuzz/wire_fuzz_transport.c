/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/wire/wire_chunks.h"
#include "plugin/wire/wire_memory.h"
#include "tests/fuzz/wire_fuzz.h"

/* ---- Memory --------------------------------------------------------------------------------- */

static gboolean
decode_open_segment (TpsReader *in, gboolean resend)
{
  TpsOpenSegmentArguments arguments = { 0 };
  GError *error = NULL;
  gboolean ok = tps_open_segment_arguments_decode (in, &arguments, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage) again = tps_fuzz_send (tps_open_segment_arguments_encode, &arguments,
                                                    TPS_PROTOCOL_COMPACT);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_open_segment (in, FALSE));
    }
  return ok;
}

static gboolean
decode_segment_ids (TpsReader *in, gboolean resend)
{
  g_autoptr (GArray) ids = NULL;
  GError *error = NULL;
  gboolean ok = tps_segment_ids_arguments_decode (in, &ids, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage)
          again = tps_fuzz_send (tps_segment_ids_arguments_encode, ids, TPS_PROTOCOL_COMPACT);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_segment_ids (in, FALSE));
    }
  return ok;
}

static void
decode_segment (const TpsMessage *message)
{
  TpsSegmentInfo info = { 0 };
  GError *error = NULL;
  gboolean ok;
  TpsReader in;
  TpsWireType type = tps_fuzz_begin_result (&in, message);

  ok = tps_open_segment_result_decode (&in, type, &info, &error);
  tps_fuzz_judge (ok, error);
}

/* ---- Chunks --------------------------------------------------------------------------------- */

static gboolean
decode_put_chunk (TpsReader *in, gboolean resend)
{
  g_auto (TpsChunk) chunk = { 0 };
  GError *error = NULL;
  gboolean ok = tps_put_chunk_arguments_decode (in, &chunk, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      struct iovec piece = { .iov_base = (gpointer) (gsize) g_bytes_get_data (chunk.data, NULL),
                             .iov_len = g_bytes_get_size (chunk.data) };
      TpsChunkPieces pieces = { chunk.transfer, chunk.index, chunk.count, chunk.crc32c, &piece, 1 };
      g_autoptr (TpsMessage)
          again = tps_fuzz_send (tps_put_chunk_arguments_encode, &pieces, TPS_PROTOCOL_BINARY);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_put_chunk (in, FALSE));
    }
  return ok;
}

static const struct
{
  gboolean (*decode) (TpsReader *in, TpsTransferArguments *arguments, GError **error);
  TpsFuzzWrite encode;
} transfer_methods[] = {
  { tps_begin_transfer_arguments_decode, tps_begin_transfer_arguments_encode },
  { tps_run_transfer_arguments_decode, tps_run_transfer_arguments_encode },
  { tps_get_chunk_arguments_decode, tps_get_chunk_arguments_encode },
  { tps_end_transfer_arguments_decode, tps_end_transfer_arguments_encode },
};

static gboolean
decode_transfer (guint i, TpsReader *in, gboolean resend)
{
  g_auto (TpsTransferArguments) arguments = { 0 };
  GError *error = NULL;
  gboolean ok = transfer_methods[i].decode (in, &arguments, &error);

  if (tps_fuzz_judge (ok, error) && resend)
    {
      g_autoptr (TpsMessage)
          again = tps_fuzz_send (transfer_methods[i].encode, &arguments, TPS_PROTOCOL_COMPACT);

      tps_reader_init (in, again);
      tps_fuzz_check (decode_transfer (i, in, FALSE));
    }
  return ok;
}

static void
decode_chunk_values (const TpsMessage *message)
{
  g_auto (TpsLargeAnswer) answer = { 0 };
  g_auto (TpsChunk) chunk = { 0 };
  GError *error = NULL;
  gint32 received;
  gboolean ok;
  TpsReader in;
  TpsWireType type = tps_fuzz_begin_result (&in, message);

  ok = tps_begin_transfer_result_decode (&in, type, &received, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_run_transfer_result_decode (&in, type, &answer, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
  type = tps_fuzz_begin_result (&in, message);
  ok = tps_get_chunk_result_decode (&in, type, &chunk, &error);
  tps_fuzz_judge (ok, g_steal_pointer (&error));
}

void
tps_fuzz_decode_transport (const TpsMessage *message)
{
  TpsReader in;

  tps_reader_init (&in, message);
  decode_open_segment (&in, TRUE);
  tps_reader_init (&in, message);
  decode_segment_ids (&in, TRUE);
  decode_segment (message);
  tps_reader_init (&in, message);
  decode_put_chunk (&in, TRUE);
  for (guint i = 0; i < G_N_ELEMENTS (transfer_methods); i++)
    {
      tps_reader_init (&in, message);
      decode_transfer (i, &in, TRUE);
    }
  decode_chunk_values (message);
}

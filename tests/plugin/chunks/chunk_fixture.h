/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Builds messages in the form that a transfer needs, and their chunks. */

#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plugin/chunks/chunk_layout.h"
#include "plugin/chunks/transfer.h"

namespace thriftps {

/* Returns bytes that depend on their position. */
inline std::string
pattern (gsize n_bytes, guint32 seed = 1)
{
  std::string bytes (n_bytes, '\0');

  for (gsize i = 0; i < n_bytes; i++)
    {
      seed = seed * 1664525 + 1013904223;
      bytes[i] = static_cast<char> (seed >> 24);
    }
  return bytes;
}

/* Returns a finished call or reply of "Service:method" with one binary argument, in the form for a
 * transfer. The caller owns it. */
inline TpsWriter *
new_message (const std::string &argument, TpsMessageKind kind = TPS_MESSAGE_CALL)
{
  TpsWriter *out = tps_writer_new (TPS_PROTOCOL_BINARY, FALSE);

  tps_writer_message_begin (out, "Service:method", kind, 7);
  tps_writer_struct_begin (out);
  tps_writer_field (out, 1, TPS_WIRE_BINARY);
  tps_writer_binary (out, argument.data (), argument.size ());
  tps_writer_struct_end (out);
  EXPECT_TRUE (tps_writer_message_end_transferred (out, nullptr));
  return out;
}

inline std::string
join (TpsWriter *message)
{
  guint n_pieces;
  const struct iovec *pieces = tps_writer_get_pieces (message, &n_pieces, nullptr);
  std::string bytes;

  for (guint i = 0; i < n_pieces; i++)
    bytes.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
  return bytes;
}

inline std::string
message_bytes (const std::string &argument, TpsMessageKind kind = TPS_MESSAGE_CALL)
{
  g_autoptr (TpsWriter) message = new_message (argument, kind);

  return join (message);
}

/* A chunk that its destructor frees. */
class Chunk
{
public:
  Chunk (const std::string &name, gint32 index, gint32 count, const std::string &data)
  {
    chunk.transfer = g_strdup (name.c_str ());
    chunk.index = index;
    chunk.count = count;
    chunk.crc32c = static_cast<gint32> (tps_crc32c (0, data.data (), data.size ()));
    chunk.data.received = g_bytes_new (data.data (), data.size ());
  }
  Chunk (const Chunk &) = delete;
  Chunk &operator= (const Chunk &) = delete;
  ~Chunk ()
  {
    tps_chunk_clear (&chunk);
  }
  TpsChunk *
  operator->()
  {
    return &chunk;
  }

  TpsChunk chunk = {};
};

/* Returns the binary argument of a message. */
inline std::string
argument_of (const TpsMessage *message)
{
  TpsWireType type;
  TpsReader in;
  gint16 id;

  tps_reader_init (&in, message);
  EXPECT_TRUE (tps_reader_field (&in, &id, &type));
  TpsBytesView view = tps_reader_binary (&in);
  EXPECT_FALSE (in.bad);
  return std::string (reinterpret_cast<const char *> (view.data), view.n_bytes);
}

} // namespace thriftps

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Helpers for bytes and scanners in these tests. */

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "plugin/frame/scan.h"
#include "plugin/frame/writer.h"

namespace thriftps {

using Bytes = std::string;

/* Returns all pieces of a finished writer, joined. */
inline Bytes
join_pieces (TpsWriter *out)
{
  guint n_pieces;
  gsize n_bytes;
  const struct iovec *pieces = tps_writer_get_pieces (out, &n_pieces, &n_bytes);
  Bytes bytes;

  for (guint i = 0; i < n_pieces; i++)
    bytes.append (static_cast<const char *> (pieces[i].iov_base), pieces[i].iov_len);
  return bytes;
}

struct Scan
{
  std::vector<TpsMessage *> messages;
  std::string error; /* "" = none */
  int code = 0;
  bool idle = false;
  gint framed = -1;

  Scan () = default;
  Scan (const Scan &) = delete;
  Scan &operator= (const Scan &) = delete;
  Scan (Scan &&other) = default;
  Scan &operator= (Scan &&other) = default;

  ~Scan ()
  {
    for (TpsMessage *message : messages)
      tps_message_free (message);
  }
};

struct ScanOptions
{
  gsize max_message_bytes = 64 << 20;
  gsize max_head_bytes = 0;
  TpsBufferPool *pool = nullptr;
  bool transferred = false;
  /* Returns the size of the next chunk. If it is empty, all bytes come at once. */
  std::function<gsize ()> chunk_size;
  /* Returns true if the next body bytes go through tps_scanner_get_body(), as on a connection, and
   * not through tps_scanner_feed(). */
  std::function<bool ()> use_get_body;
};

/* Feeds bytes to a scanner as a connection does. */
inline Scan
scan_bytes (const Bytes &bytes, const ScanOptions &options = {})
{
  TpsScannerOptions scanner_options = {};
  Scan scan;
  gsize position = 0;

  scanner_options.max_message_bytes = options.max_message_bytes;
  scanner_options.max_head_bytes = options.max_head_bytes;
  scanner_options.bodies = options.pool;
  scanner_options.transferred = options.transferred;
  g_autoptr (TpsScanner) scanner = tps_scanner_new (&scanner_options);
  g_autoptr (GError) error = nullptr;
  while (position < bytes.size () && error == nullptr)
    {
      gsize n_bytes = options.chunk_size ? options.chunk_size () : bytes.size ();
      guint8 *dest;
      gsize n_missing, n_consumed;

      n_bytes = std::min (n_bytes, bytes.size () - position);
      if (options.use_get_body && options.use_get_body ()
          && tps_scanner_get_body (scanner, &dest, &n_missing))
        {
          n_bytes = std::min (n_bytes, n_missing);
          memcpy (dest, bytes.data () + position, n_bytes);
          tps_scanner_body_received (scanner, n_bytes, &error);
          position += n_bytes;
          continue;
        }
      /* The chunk is a separate allocation, so a sanitizer detects reads beyond its end. */
      std::vector<guint8> chunk (bytes.begin () + position, bytes.begin () + position + n_bytes);
      tps_scanner_feed (scanner, chunk.data (), n_bytes, &n_consumed, &error);
      position += n_consumed;
      while (TpsMessage *message = tps_scanner_take (scanner))
        scan.messages.push_back (message);
    }
  if (error != nullptr)
    {
      scan.error = error->message;
      scan.code = error->code;
    }
  scan.idle = tps_scanner_is_idle (scanner);
  scan.framed = tps_scanner_get_framed (scanner);
  return scan;
}

/* Returns the whole content of a message as a string. Equal messages have equal strings.
 * `with_transport` adds the framing. */
inline std::string
describe (const TpsMessage *message, bool with_transport = false)
{
  std::string text = std::to_string (message->kind) + " " + std::to_string (message->seqid) + " "
                     + message->name;

  if (with_transport)
    text += " " + std::to_string (message->protocol) + (message->framed ? " framed" : " unframed");
  text += " head ";
  text.append (reinterpret_cast<const char *> (message->head->data), message->head->len);
  for (guint i = 0; i < message->n_bodies; i++)
    {
      const TpsBody *body = &message->bodies[i];

      text += " body " + std::to_string (body->head_offset) + " ";
      text.append (reinterpret_cast<const char *> (tps_buffer_get_data (body->buffer)),
                   body->n_bytes);
    }
  return text;
}

} // namespace thriftps

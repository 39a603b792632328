/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The incremental scanner: bytes of a connection in, messages out.
 *
 * The one place that looks at the structure of hostile bytes. It owns no socket: the caller reads,
 * feeds, and where the scanner asks for a body reads straight into the body's memory.
 *
 *   scanner = tps_scanner_new (&limits);
 *   loop:
 *     if tps_scanner_get_body (scanner, &dest, &n)
 *       recv (fd, dest, n) and tps_scanner_body_received (scanner, got)
 *     else
 *       recv (fd, chunk, …) and tps_scanner_feed (scanner, chunk, …)
 *     while ((message = tps_scanner_take (scanner)))
 *       handle it
 *
 * The first bytes of a connection tell framed from unframed and, for every message, binary from
 * compact: 0x80 0x01 = binary, 0x82 = compact, anything below 0x80 in the first byte = a frame
 * length. Old-style binary messages without a version are refused. A frame that begins with 0x0fff
 * is a THeader frame: a header with key/value pairs (tps_message_get_header()) stands before its
 * message. Frames of both kinds may follow each other.
 *
 * Limits come before memory: a frame longer than max_message_bytes is refused by its length prefix;
 * an unframed message when its bytes or a declared length pass it. Memory for a head grows with
 * what has arrived, not with what is announced; a body's buffer is taken from the pool when its
 * length prefix has been read. The message itself and its head are charged too. A message that
 * finds no memory is read to its end and dropped but for its name (TpsMessage.n_bytes_refused).
 * After an error the scanner stays bad. Not thread-safe.
 */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct TpsScanner TpsScanner;

typedef struct
{
  gsize max_message_bytes; /* frame limit; unframed: of all bytes of a message */
  /* of a message without its bodies; 0 = 64 MiB or max_message_bytes, the smaller */
  gsize max_head_bytes;
  TpsBufferPool *bodies; /* a reference is taken; NULL = the default pool */
  /* A message that comes in chunks (thrift/chunks.thrift): unframed, and a binary of 2^31 bytes and
   * more has the length -1 and then its length as an i64. */
  gboolean transferred;
} TpsScannerOptions;

TpsScanner *tps_scanner_new (const TpsScannerOptions *options);
void tps_scanner_free (TpsScanner *scanner);

/* Consumes bytes up to the end of a message or the start of a body; sets `n_consumed`. Feed the
 * rest again after tps_scanner_take() or after the body: body bytes that are already in the chunk
 * may be fed too (they are copied). Errors: TPS_ERROR_PROTOCOL (the connection must be closed; the
 * message says what was wrong), TPS_ERROR_RESOURCE_EXHAUSTED (a frame beyond the limit; equally
 * final). */
gboolean tps_scanner_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes,
                           gsize *n_consumed, GError **error);

/* TRUE when the next bytes of the connection belong into a body: `dest` (borrowed) and how many are
 * missing. For a refused body `dest` is scratch memory, and at most that much is asked for at a
 * time. */
gboolean tps_scanner_get_body (TpsScanner *scanner, guint8 **dest, gsize *n_missing);

/* `n_bytes` were written to `dest`. */
gboolean tps_scanner_body_received (TpsScanner *scanner, gsize n_bytes, GError **error);

/* The finished message, owned by the caller, or NULL. */
TpsMessage *tps_scanner_take (TpsScanner *scanner);

/* Whether the connection could end here without cutting a message. */
gboolean tps_scanner_is_idle (const TpsScanner *scanner);

/* How the connection frames, known after the first bytes: -1 unknown, 0 unframed, 1 framed. */
gint tps_scanner_get_framed (const TpsScanner *scanner);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsScanner, tps_scanner_free)

G_END_DECLS

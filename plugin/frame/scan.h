/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The incremental scanner: it takes bytes of a connection and returns messages.
 *
 * The scanner is the only code that parses the structure of hostile bytes. It owns no socket. The
 * caller receives bytes and feeds them; if the scanner needs a body, the caller receives straight
 * into the body's memory.
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
 * The first bytes of a connection distinguish framed from unframed, and the first bytes of each
 * message binary from compact protocol: 0x80 0x01 = binary, 0x82 = compact, a first byte below 0x80
 * = a frame length. Old binary messages without a version are refused. A frame that begins with
 * 0x0fff is a THeader frame, in which a header with key/value pairs (tps_message_get_header())
 * precedes the message. A connection may mix frames of both kinds.
 *
 * Limits come before memory. A frame longer than max_message_bytes is refused by its length prefix,
 * and an unframed message when its bytes or a declared length exceed it. Memory for a head grows
 * with the received bytes, not with announced lengths. A body's buffer is taken from the pool when
 * its length prefix has been read. The message itself and its head are charged, too. If there is no
 * memory for a message, it is read to its end, and everything but its name is dropped
 * (TpsMessage.n_bytes_refused). After an error the scanner stays bad. Not thread-safe.
 */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct TpsScanner TpsScanner;

typedef struct
{
  gsize max_message_bytes; /* limit of a frame, or of all bytes of an unframed message */
  /* Limit of a message without its bodies; 0 = the smaller of 64 MiB and max_message_bytes. */
  gsize max_head_bytes;
  TpsBufferPool *bodies; /* a reference is taken; NULL = the default pool */
  /* For messages that come in chunks (thrift/chunks.thrift): they are unframed, and a binary of
   * 2^31 bytes and more has the length -1, followed by its length as an i64. */
  gboolean transferred;
} TpsScannerOptions;

/* Creates a scanner for one connection; copies the options. The caller owns it. */
TpsScanner *tps_scanner_new (const TpsScannerOptions *options);
void tps_scanner_free (TpsScanner *scanner);

/* Consumes bytes up to the end of a message or the start of a body, and sets `n_consumed`. The
 * caller must feed the rest again after tps_scanner_take() or after the body. Body bytes that are
 * already in the chunk may be fed, too (they are copied). Errors: TPS_ERROR_PROTOCOL, which
 * describes the defect, and TPS_ERROR_RESOURCE_EXHAUSTED (a frame exceeds the limit); after either
 * the connection must be closed. */
gboolean tps_scanner_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes,
                           gsize *n_consumed, GError **error);

/* Returns TRUE if the next bytes of the connection belong to a body: `dest` (borrowed) is their
 * destination, and `n_missing` their number. For a refused body, `dest` is memory of the calling
 * thread, and `n_missing` is at most its size. */
gboolean tps_scanner_get_body (TpsScanner *scanner, guint8 **dest, gsize *n_missing);

/* Must be called when `n_bytes` were written to `dest`. */
gboolean tps_scanner_body_received (TpsScanner *scanner, gsize n_bytes, GError **error);

/* Returns the finished message, which the caller owns, or NULL. */
TpsMessage *tps_scanner_take (TpsScanner *scanner);

/* Returns whether the connection could end here without a partial message. */
gboolean tps_scanner_is_idle (const TpsScanner *scanner);

/* Returns the framing of the connection, known after the first bytes: -1 unknown, 0 unframed, 1
 * framed. */
gint tps_scanner_get_framed (const TpsScanner *scanner);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsScanner, tps_scanner_free)

G_END_DECLS

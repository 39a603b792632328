/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The incremental scanner, which converts the bytes of a connection to messages.
 *
 * The scanner is the only code that parses the structure of untrusted bytes. It uses no socket: the
 * caller receives bytes and passes them to the scanner. If the next bytes belong to a body, the
 * caller should receive them directly into the body's memory.
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
 * The first bytes of a connection determine whether it is framed: a first byte below 0x80 begins a
 * frame length. The first bytes of each message determine its protocol: 0x80 0x01 = binary, 0x82 =
 * compact. Old binary messages without a version are refused. A frame that begins with 0x0fff
 * is a THeader frame, in which a header with key/value pairs (tps_message_get_header()) precedes
 * the message. A connection may contain frames with and without a header.
 *
 * Limits are checked before memory is reserved. A frame longer than max_message_bytes is refused
 * when its length prefix has been read, and an unframed message when its bytes or a declared length
 * exceed max_message_bytes. Memory for a head grows with the received bytes, not with announced
 * lengths. The buffer of a body is taken from the pool when the body's length prefix has been read.
 * The message and its head are charged to the budget of the pool. If there is no memory for a
 * message, it is read to its end, and everything but its name is dropped
 * (TpsMessage.n_bytes_refused). After an error the scanner stays bad. Not thread-safe.
 */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct TpsScanner TpsScanner;

typedef struct
{
  gsize max_message_bytes; /* limit of a frame, or of all bytes of an unframed message */
  /* Limit of a message, not counting its bodies, at most 1 GiB; 0 = the smaller of 64 MiB and
   * max_message_bytes. */
  gsize max_head_bytes;
  TpsBufferPool *bodies; /* a reference is taken; NULL = the default pool */
  /* Optional: returns the pool for the message that begins, borrowed. If it is not `bodies`, the
   * first TPS_MESSAGE_FREE_BYTES of the message, not counting bodies, are not charged. */
  TpsBufferPool *(*choose_bodies) (gpointer user_data);
  gpointer user_data;
  /* The messages come in chunks (thrift/chunks.thrift): they are unframed, and the length prefix of
   * a binary of 2^31 bytes or more is -1, followed by the length as an i64. */
  gboolean transferred;
} TpsScannerOptions;

/* Creates a scanner for one connection; copies the options. The caller owns it. */
TpsScanner *tps_scanner_new (const TpsScannerOptions *options);
void tps_scanner_free (TpsScanner *scanner);

/* Consumes bytes up to the end of a message or the start of a body, and sets `n_consumed`; the rest
 * must be fed again, after tps_scanner_take() at the end of a message. Bytes of a body may be fed
 * as well; they are copied. Errors: PROTOCOL, with the defect, or RESOURCE_EXHAUSTED if a message
 * exceeds a limit; the connection must then be closed. */
gboolean tps_scanner_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes,
                           gsize *n_consumed, GError **error);

/* Returns TRUE if the next bytes of the connection belong to a body: sets `dest` (borrowed) to
 * their destination, and `n_missing` to their number. For a refused body, `dest` is a buffer of the
 * calling thread whose contents are ignored, and `n_missing` is at most the size of that buffer. */
gboolean tps_scanner_get_body (TpsScanner *scanner, guint8 **dest, gsize *n_missing);

/* Records that the caller has written `n_bytes` to `dest` of tps_scanner_get_body(). Errors: those
 * of tps_scanner_feed(). */
gboolean tps_scanner_body_received (TpsScanner *scanner, gsize n_bytes, GError **error);

/* Returns the finished message, which the caller owns; NULL if no message is finished. */
TpsMessage *tps_scanner_take (TpsScanner *scanner);

/* Returns TRUE if the scanner is between messages, so that the connection may end here. */
gboolean tps_scanner_is_idle (const TpsScanner *scanner);

/* Returns the framing of the connection: -1 not known yet, 0 unframed, 1 framed. */
gint tps_scanner_get_framed (const TpsScanner *scanner);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsScanner, tps_scanner_free)

G_END_DECLS

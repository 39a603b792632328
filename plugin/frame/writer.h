/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes one message in binary or compact protocol, framed or not, as a list of pieces that go out
 * by scatter-gather.
 *
 * Large binaries are not copied: the writer keeps a reference of their buffer (or borrows, for
 * tps_writer_binary_borrowed) and the bytes go out from where they lie.
 * A writer may be reset and used again. Not thread-safe.
 */

#pragma once

#include <sys/uio.h>

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct TpsWriter TpsWriter;

/* How a message is to be written. */
typedef struct
{
  TpsProtocolKind protocol;
  gboolean framed;
  gboolean has_header; /* for tps_writer_set_header(), with the frame's sequence id */
  gint32 header_seqid;
  TpsBudget *budget; /* for tps_writer_set_budget(); borrowed, may be NULL */
} TpsWriterForm;

TpsWriter *tps_writer_new (TpsProtocolKind protocol, gboolean framed);
void tps_writer_free (TpsWriter *out);

/* As new, but with the memory that it has. Lets go of what it borrowed and holds. */
void tps_writer_reset (TpsWriter *out, TpsProtocolKind protocol, gboolean framed);

/* Charges `budget` for the writer and the bytes that it copies, until it is freed or reset; takes a
 * reference. What is borrowed or referenced is not charged here. What the writer has allocated at
 * the time of the call is charged only if there is room: a small reply must leave whatever the
 * budget says. A message that then needs more than there is memory for fails, see
 * tps_writer_fail(). */
void tps_writer_set_budget (TpsWriter *out, TpsBudget *budget);

/* Has a framed message go in a THeader frame with this sequence id; its protocol is that of the
 * message. Before tps_writer_message_begin(); until the writer is reset. */
void tps_writer_set_header (TpsWriter *out, gint32 seqid);

/* Adds a pair to the header of that frame, after tps_writer_set_header(). Both are copied. They
 * must be UTF-8, a key must come once, and all pairs together must stay within the limits of
 * readers (TPS_MESSAGE_MAX_HEADER_BYTES). */
void tps_writer_add_header (TpsWriter *out, const gchar *key, const gchar *value);

/* A node, with the writer as its data, for the one queue that it may stand in. The writer's. */
GList *tps_writer_get_link (TpsWriter *out);

void tps_writer_message_begin (TpsWriter *out, const gchar *name, TpsMessageKind kind,
                               gint32 seqid);

/* Ends the message: fills in the frame length and computes the pieces. Errors:
 * TPS_ERROR_RESOURCE_EXHAUSTED when the message is longer than a frame can say (2^31 - 1). */
gboolean tps_writer_message_end (TpsWriter *out, GError **error);

/* Ends a message that goes in a transfer (thrift/chunks.thrift), however long it is: without the
 * frame's length, and with binaries of 2^31 bytes and more. Also after tps_writer_message_end(),
 * whatever that said. Errors: TPS_ERROR_RESOURCE_EXHAUSTED for a list, or in compact protocol a
 * binary, of more than 2^31 - 1. */
gboolean tps_writer_message_end_transferred (TpsWriter *out, GError **error);

void tps_writer_struct_begin (TpsWriter *out);
void tps_writer_struct_end (TpsWriter *out); /* writes the stop */
void tps_writer_field (TpsWriter *out, gint16 id, TpsWireType type);

/* As a field's value after tps_writer_field (…, TPS_WIRE_BOOL), or as a list element. */
void tps_writer_bool (TpsWriter *out, gboolean value);
void tps_writer_byte (TpsWriter *out, gint8 value);
void tps_writer_i16 (TpsWriter *out, gint16 value);
void tps_writer_i32 (TpsWriter *out, gint32 value);
void tps_writer_i64 (TpsWriter *out, gint64 value);
void tps_writer_double (TpsWriter *out, gdouble value);
void tps_writer_string (TpsWriter *out, const gchar *value);
void tps_writer_binary (TpsWriter *out, gconstpointer data, gsize n_bytes); /* copies */

/* Takes a reference of `buffer`; bytes [offset, offset + n_bytes) go out from there. Small ones,
 * and those of shared buffers, are copied. */
void tps_writer_binary_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes);

/* Borrows `data` until the writer is freed or reset. Small ones are copied. */
void tps_writer_binary_borrowed (TpsWriter *out, gconstpointer data, gsize n_bytes);

/* One binary whose bytes lie in `n_pieces` pieces; borrows them until the writer is freed or reset.
 * Small ones are copied. */
void tps_writer_binary_pieces (TpsWriter *out, const struct iovec *pieces, guint n_pieces);

/* Lets large tensors of this message lie in shared memory. Takes a reference until the writer is
 * freed or reset; NULL = none, as at first. */
void tps_writer_set_sharing (TpsWriter *out, TpsSharing *sharing);

/* Places bytes there. FALSE: they are to be written inline (no shared memory, too few, no room). */
gboolean tps_writer_share (TpsWriter *out, gconstpointer data, gsize n_bytes,
                           TpsSharedSlice *slice);

/* The same of bytes in memory of `device`. */
gboolean tps_writer_share_device (TpsWriter *out, TpsDevice *device, gconstpointer data,
                                  gsize n_bytes, TpsSharedSlice *slice);

/* What was to be written cannot be had: both ways to end the message fail with the first such
 * error. Takes `error`. */
void tps_writer_fail (TpsWriter *out, GError *error);

/* Has `func (user_data)` called once: when the message has its place among those that go out, so
 * that whatever is sent from then on comes after it, or when the writer is freed or reset without.
 * Called under the connection's lock: must not block or call back. */
void tps_writer_set_queued (TpsWriter *out, GDestroyNotify func, gpointer user_data);
void tps_writer_queued (TpsWriter *out); /* for the connection; does nothing the second time */

/* A file descriptor goes to the peer with the message's first byte (Unix sockets). Takes it over:
 * closed with the writer. */
void tps_writer_take_descriptor (TpsWriter *out, gint fd);
gint tps_writer_get_descriptor (const TpsWriter *out); /* borrowed; -1 = none */

void tps_writer_list_begin (TpsWriter *out, TpsWireType type, guint32 n_elems);
void tps_writer_set_begin (TpsWriter *out, TpsWireType type, guint32 n_elems);
void tps_writer_map_begin (TpsWriter *out, TpsWireType key_type, TpsWireType value_type,
                           guint32 n_elems);

/* After message_end: the pieces, borrowed until the writer is changed; `n_bytes` (may be NULL) is
 * their sum. */
const struct iovec *tps_writer_get_pieces (TpsWriter *out, guint *n_pieces, gsize *n_bytes);

/* Has `func (user_data)` called once, when the writer is next freed or reset: from then on nothing
 * that it borrowed is looked at again. Called on the thread that frees, which may hold locks:
 * `func` must not block or call back. */
void tps_writer_set_released (TpsWriter *out, GDestroyNotify func, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsWriter, tps_writer_free)

G_END_DECLS

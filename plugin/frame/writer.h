/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes one message in binary or compact protocol, framed or not, as a list of pieces for
 * scatter-gather output.
 *
 * Large binaries are not copied: the writer keeps a reference of their buffer (or borrows them,
 * with tps_writer_binary_borrowed), and they are sent from their own memory. A writer may be reset
 * and used again. Not thread-safe.
 */

#pragma once

#include <sys/uio.h>

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct TpsWriter TpsWriter;

/* The format of a message. */
typedef struct
{
  TpsProtocolKind protocol;
  gboolean framed;
  gboolean has_header; /* for tps_writer_set_header(), with the frame's sequence id */
  gint32 header_seqid;
  TpsBudget *budget; /* for tps_writer_set_budget(); borrowed, may be NULL */
} TpsWriterForm;

/* Returns an empty writer, which the caller owns. */
TpsWriter *tps_writer_new (TpsProtocolKind protocol, gboolean framed);
void tps_writer_free (TpsWriter *out);

/* Resets the writer to its initial state, but keeps its memory. Releases everything that it
 * borrowed and holds. */
void tps_writer_reset (TpsWriter *out, TpsProtocolKind protocol, gboolean framed);

/* Charges `budget` for the writer and the bytes that it copies, until it is freed or reset; takes a
 * reference. Borrowed and referenced bytes are not charged here. The memory that the writer has at
 * the time of the call is charged only if there is room, because a small reply must be sent even if
 * the budget is exhausted. If a message then needs memory beyond the budget, it fails; see
 * tps_writer_fail(). */
void tps_writer_set_budget (TpsWriter *out, TpsBudget *budget);

/* Sends a framed message in a THeader frame with this sequence id, with the protocol of the
 * message. Must be called before tps_writer_message_begin(); applies until the writer is reset. */
void tps_writer_set_header (TpsWriter *out, gint32 seqid);

/* Adds a pair to the header of that frame; both strings are copied. Must be called after
 * tps_writer_set_header(). The strings must be UTF-8, a key must not occur twice, and all pairs
 * together must stay within the limits of readers (TPS_MESSAGE_MAX_HEADER_BYTES). */
void tps_writer_add_header (TpsWriter *out, const gchar *key, const gchar *value);

/* Returns a list node whose data is the writer, for the one queue that it may be in; owned by the
 * writer. */
GList *tps_writer_get_link (TpsWriter *out);

/* Begins the message. `name` is "Service:method" for a multiplexed call; it is copied. */
void tps_writer_message_begin (TpsWriter *out, const gchar *name, TpsMessageKind kind,
                               gint32 seqid);

/* Ends the message: fills in the frame length and computes the pieces. Errors:
 * TPS_ERROR_RESOURCE_EXHAUSTED if the message is longer than the maximum of a frame (2^31 - 1). */
gboolean tps_writer_message_end (TpsWriter *out, GError **error);

/* Ends a message of any length that goes in a transfer (thrift/chunks.thrift): without the frame's
 * length, and with binaries of 2^31 bytes and more. May also be called after
 * tps_writer_message_end(), even if that failed. Errors: TPS_ERROR_RESOURCE_EXHAUSTED for a list,
 * or in compact protocol a binary, of more than 2^31 - 1. */
gboolean tps_writer_message_end_transferred (TpsWriter *out, GError **error);

/* Begin and end a struct, and begin one of its fields, whose value must be written next. */
void tps_writer_struct_begin (TpsWriter *out);
void tps_writer_struct_end (TpsWriter *out); /* writes the stop field */
void tps_writer_field (TpsWriter *out, gint16 id, TpsWireType type);

/* Each writes one value of the type in its name: that of the field that tps_writer_field() has
 * begun, or an element of a container. */
void tps_writer_bool (TpsWriter *out, gboolean value);
void tps_writer_byte (TpsWriter *out, gint8 value);
void tps_writer_i16 (TpsWriter *out, gint16 value);
void tps_writer_i32 (TpsWriter *out, gint32 value);
void tps_writer_i64 (TpsWriter *out, gint64 value);
void tps_writer_double (TpsWriter *out, gdouble value);
void tps_writer_string (TpsWriter *out, const gchar *value);
void tps_writer_binary (TpsWriter *out, gconstpointer data, gsize n_bytes); /* copies */

/* Takes a reference of `buffer`, whose bytes [offset, offset + n_bytes) are sent without a copy.
 * Small ones, and those of shared buffers, are copied. */
void tps_writer_binary_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes);

/* Borrows `data` until the writer is freed or reset. Small binaries are copied. */
void tps_writer_binary_borrowed (TpsWriter *out, gconstpointer data, gsize n_bytes);

/* Writes one binary whose bytes lie in `n_pieces` pieces, which are borrowed until the writer is
 * freed or reset. Small ones are copied. */
void tps_writer_binary_pieces (TpsWriter *out, const struct iovec *pieces, guint n_pieces);

/* Lets large tensors of this message lie in shared memory. Takes a reference until the writer is
 * freed or reset; NULL = no shared memory, the default. */
void tps_writer_set_sharing (TpsWriter *out, TpsSharing *sharing);

/* Copies bytes into shared memory. FALSE: they must be written inline (no shared memory, too few
 * bytes, no room). */
gboolean tps_writer_share (TpsWriter *out, gconstpointer data, gsize n_bytes,
                           TpsSharedSlice *slice);

/* As tps_writer_share(), for bytes of `buffer`. The sharing may keep a reference to the buffer
 * instead of copying the bytes. */
gboolean tps_writer_share_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes,
                                  TpsSharedSlice *slice);

/* As tps_writer_share(), for bytes in memory of `device`. */
gboolean tps_writer_share_device (TpsWriter *out, TpsDevice *device, gconstpointer data,
                                  gsize n_bytes, TpsSharedSlice *slice);

/* Makes the message fail, because a part of it is not available: both functions that end the
 * message then return the first such error. Takes ownership of `error`. */
void tps_writer_fail (TpsWriter *out, GError *error);

/* Sets a function that is called once: when the message has been queued, so that all later messages
 * follow it, or when the writer is freed or reset before. It is called under the connection's lock,
 * and must not block or call back. */
void tps_writer_set_queued (TpsWriter *out, GDestroyNotify func, gpointer user_data);
void tps_writer_queued (TpsWriter *out); /* for the connection; only the first call has an effect */

/* Sends a file descriptor to the peer with the message's first byte (Unix sockets). Takes
 * ownership: the descriptor is closed with the writer. */
void tps_writer_take_descriptor (TpsWriter *out, gint fd);
gint tps_writer_get_descriptor (const TpsWriter *out); /* borrowed; -1 = none */

/* Begin a container of `n_elems` elements, or pairs of a map, which the caller must write next. */
void tps_writer_list_begin (TpsWriter *out, TpsWireType type, guint32 n_elems);
void tps_writer_set_begin (TpsWriter *out, TpsWireType type, guint32 n_elems);
void tps_writer_map_begin (TpsWriter *out, TpsWireType key_type, TpsWireType value_type,
                           guint32 n_elems);

/* Returns the pieces after message_end, borrowed until the writer is changed; `n_bytes` (may be
 * NULL) is their total size. */
const struct iovec *tps_writer_get_pieces (TpsWriter *out, guint *n_pieces, gsize *n_bytes);

/* Sets a function that is called once, when the writer is next freed or reset. From then on, the
 * writer does not read borrowed memory. It is called on the freeing thread, which may hold locks,
 * and must not block or call back. */
void tps_writer_set_released (TpsWriter *out, GDestroyNotify func, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsWriter, tps_writer_free)

G_END_DECLS

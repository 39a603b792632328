/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes one message in binary or compact protocol, framed or not, as a list of pieces for
 * scatter-gather output. Large binaries are referenced (or borrowed, with
 * tps_writer_binary_borrowed()), not copied. A writer may be reset and used again. Not
 * thread-safe. */

#pragma once

#include <sys/uio.h>
#include <thriftps/wire.h>

#include "plugin/frame/message.h"

G_BEGIN_DECLS

/* The format of a message. */
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

/* Resets the writer to its initial state. Releases all references and borrowed memory; keeps up to
 * 16 KiB of its own memory for reuse. */
void tps_writer_reset (TpsWriter *out, TpsProtocolKind protocol, gboolean framed);

/* Charges `budget`, to which a reference is taken, for the writer and the bytes that it copies,
 * until it is freed or reset. The memory that it has now is charged only if there is room, because
 * a small reply must be sent even without. A message that needs more fails; see
 * tps_writer_fail(). */
void tps_writer_set_budget (TpsWriter *out, TpsBudget *budget);

/* Makes the writer send the framed message in a THeader frame with this sequence id. Must be called
 * before tps_writer_message_begin(). */
void tps_writer_set_header (TpsWriter *out, gint32 seqid);

/* Adds a key/value pair, which is copied, to the header of the THeader frame, between
 * tps_writer_set_header() and tps_writer_message_begin(). UTF-8; keys must not repeat; all together
 * at most TPS_MESSAGE_MAX_HEADER_BYTES and TPS_MESSAGE_MAX_HEADERS. */
void tps_writer_add_header (TpsWriter *out, const gchar *key, const gchar *value);

/* Returns a list node whose data is the writer, borrowed from the writer. With this node, a GQueue
 * can hold the writer without an allocation. The writer may be in one queue at a time. */
GList *tps_writer_get_link (TpsWriter *out);

/* Begins the message. `name` is "Service:method" for a multiplexed call; it is copied. */
void tps_writer_message_begin (TpsWriter *out, const gchar *name, TpsMessageKind kind,
                               gint32 seqid);

/* Ends the message: fills in the frame length and computes the pieces. Errors:
 * TPS_ERROR_RESOURCE_EXHAUSTED if the message is longer than 2^31 - 1 bytes, the maximum of a
 * frame; the error of tps_writer_fail(). */
gboolean tps_writer_message_end (TpsWriter *out, GError **error);

/* Ends a message of any length that is sent as a transfer (thrift/chunks.thrift): without frame
 * length or header; binaries may have 2^31 bytes and more. May follow tps_writer_message_end(),
 * even if that failed. Errors: RESOURCE_EXHAUSTED (a list or, in compact protocol, a binary of 2^31
 * or more); that of tps_writer_fail(). */
gboolean tps_writer_message_end_transferred (TpsWriter *out, GError **error);

/* Begin and end a struct, and begin one of its fields, whose value must be written next. */
void tps_writer_struct_begin (TpsWriter *out);
void tps_writer_struct_end (TpsWriter *out); /* writes the stop field */
void tps_writer_field (TpsWriter *out, gint16 id, TpsWireType type);

/* Each function writes one value of the type in its name: the value of the field that
 * tps_writer_field() has begun, or an element of a container. The bytes are copied. */
void tps_writer_bool (TpsWriter *out, gboolean value);
void tps_writer_byte (TpsWriter *out, gint8 value);
void tps_writer_i16 (TpsWriter *out, gint16 value);
void tps_writer_i32 (TpsWriter *out, gint32 value);
void tps_writer_i64 (TpsWriter *out, gint64 value);
void tps_writer_double (TpsWriter *out, gdouble value);
void tps_writer_string (TpsWriter *out, const gchar *value);
void tps_writer_binary (TpsWriter *out, gconstpointer data, gsize n_bytes);

/* Writes a binary of the bytes [offset, offset + n_bytes) of `buffer`. Takes a reference to
 * `buffer` and sends the bytes without a copy; small binaries and bytes of shared buffers are
 * copied. */
void tps_writer_binary_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes);

/* Writes a binary; borrows `data` until the writer is freed or reset, or copies a small one. */
void tps_writer_binary_borrowed (TpsWriter *out, gconstpointer data, gsize n_bytes);

/* Writes one binary that consists of `pieces` [n_pieces], whose bytes are borrowed until the writer
 * is freed or reset. Small pieces are copied. */
void tps_writer_binary_pieces (TpsWriter *out, const struct iovec *pieces, guint n_pieces);

/* Allows large tensors of this message to be placed in shared memory. Takes a reference to
 * `sharing` until the writer is freed or reset; NULL = no shared memory, the default. */
void tps_writer_set_sharing (TpsWriter *out, TpsSharing *sharing);

/* Copies bytes into shared memory and sets `slice`, which the caller must write. Returns FALSE if
 * there is no shared memory, if the bytes are too few, or if there is no room; the caller must then
 * write the bytes inline. */
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
 * message then report the first such error. Takes ownership of `error`. */
void tps_writer_fail (TpsWriter *out, GError *error);

/* Sets a function that is called once: either when the message has been queued (all later messages
 * then follow it), or when the writer is freed or reset without being queued. The connection calls
 * it with its lock held, so it must not block or call back. */
void tps_writer_set_queued (TpsWriter *out, GDestroyNotify func, gpointer user_data);
void tps_writer_queued (TpsWriter *out); /* for the connection; only the first call has an effect */

/* Sends a file descriptor to the peer with the message's first byte (Unix sockets). Takes
 * ownership: the descriptor is closed when the writer is freed or reset. */
void tps_writer_take_descriptor (TpsWriter *out, gint fd);
gint tps_writer_get_descriptor (const TpsWriter *out); /* borrowed; -1 = none */

/* Begin a container, whose `n_elems` elements, or pairs of a map, the caller must write next. */
void tps_writer_list_begin (TpsWriter *out, TpsWireType type, guint32 n_elems);
void tps_writer_set_begin (TpsWriter *out, TpsWireType type, guint32 n_elems);
void tps_writer_map_begin (TpsWriter *out, TpsWireType key_type, TpsWireType value_type,
                           guint32 n_elems);

/* Returns the pieces of the message, borrowed until the writer is changed, and sets `n_bytes` (may
 * be NULL) to their total size. Must not be called before the message has been ended. */
const struct iovec *tps_writer_get_pieces (TpsWriter *out, guint *n_pieces, gsize *n_bytes);

/* Sets a function that is called once, when the writer is next freed or reset and no longer reads
 * borrowed memory. The function runs on the thread that frees the writer, which may hold locks, so
 * it must not block or call back. */
void tps_writer_set_released (TpsWriter *out, GDestroyNotify func, gpointer user_data);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsWriter, tps_writer_free)

G_END_DECLS

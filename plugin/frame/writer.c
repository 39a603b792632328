/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/frame/writer.h"

#include <string.h>
#include <unistd.h>

#include "runtime/base/error.h"
#include "runtime/base/magazine.h"

/* All output goes into one growing array, the head. A large binary leaves a splice: an offset of
 * the head and the bytes to send there. The head may move as it grows, so the pieces are computed
 * at the end. */

#define MAX_DEPTH 64 /* nesting of structs in written messages */
#define FIRST_HEAD_BYTES 256
#define MAX_KEPT_HEAD_BYTES 16384
#define MAX_KEPT_SPLICES 64
#define FRAME_LENGTH_BYTES 4
#define WRITER_BYTES 768 /* size of a writer with its arrays */

struct TpsWriter
{
  GList link;
  gboolean compact;
  gboolean framed;
  gboolean too_long;   /* a length or count exceeds 31 bits */
  gboolean impossible; /* a length or count that the protocol cannot express */
  GError *failure;     /* NULL = none */

  guint8 *head;
  gsize n_head;
  gsize n_allocated;
  TpsCharge charge; /* for the head and copies; with a reference to the budget */
  gsize n_copies;   /* charged bytes of copies outside the head */
  gsize n_spliced_bytes;
  gsize n_prefix;  /* bytes of the head before the message: the frame's length and header */
  gsize n_skipped; /* bytes of the head that are not sent: the prefix, in a transfer */
  GArray *splices; /* binaries that are sent between bytes of the head */
  GArray *pieces;  /* of struct iovec */

  gboolean bool_pending;
  gint16 bool_id;
  guint depth;
  gint16 last_ids[MAX_DEPTH + 1]; /* [0] is not used: fields occur only in structs */

  TpsSharing *sharing;
  gint descriptor; /* -1 = none */

  GDestroyNotify queued;
  gpointer queued_data;

  GDestroyNotify released;
  gpointer released_data;
};

typedef struct
{
  gsize head_offset;
  const guint8 *data;
  gsize n_bytes;
  TpsBuffer *buffer; /* a reference that keeps `data`; NULL = `data` is borrowed */
} Splice;

static void
release_splice (gpointer data)
{
  Splice *splice = data;

  g_clear_pointer (&splice->buffer, tps_buffer_unref);
}

/* Releases buffers and borrowed memory. */
static void
release_contents (TpsWriter *out)
{
  GDestroyNotify released = g_steal_pointer (&out->released);

  tps_writer_queued (out);
  tps_charge_clear (&out->charge);
  g_clear_pointer (&out->charge.budget, tps_budget_unref);
  g_clear_error (&out->failure);
  if (out->splices->len > 0)
    g_array_set_size (out->splices, 0);
  if (out->pieces->len > 0)
    g_array_set_size (out->pieces, 0);
  tps_writer_set_sharing (out, NULL);
  if (out->descriptor >= 0)
    close (out->descriptor);
  out->descriptor = -1;
  /* Must come last, because the owner may then free the borrowed memory. */
  if (released != NULL)
    released (out->released_data);
}

static void
release (gpointer data)
{
  TpsWriter *out = data;

  g_array_unref (out->splices);
  g_array_unref (out->pieces);
  g_free (out->head);
  g_free (out);
}

/* Writers are created and freed with every call, so they are kept for reuse with their arrays,
 * unless these are large. */
static TpsDepot depot = TPS_DEPOT_INIT (release);
static _Thread_local TpsMagazine magazine;

TpsWriter *
tps_writer_new (TpsProtocolKind protocol, gboolean framed)
{
  TpsWriter *out = tps_magazine_take (&magazine, &depot);

  if (out == NULL)
    {
      out = g_new0 (TpsWriter, 1);
      out->link.data = out;
      out->n_allocated = FIRST_HEAD_BYTES;
      out->head = g_malloc (out->n_allocated);
      out->descriptor = -1;
      out->splices = g_array_new (FALSE, FALSE, sizeof (Splice));
      g_array_set_clear_func (out->splices, release_splice);
      out->pieces = g_array_new (FALSE, FALSE, sizeof (struct iovec));
    }
  tps_writer_reset (out, protocol, framed);
  return out;
}

void
tps_writer_free (TpsWriter *out)
{
  gboolean is_large;

  if (out == NULL)
    return;
  is_large = out->n_allocated > MAX_KEPT_HEAD_BYTES || out->splices->len > MAX_KEPT_SPLICES;
  release_contents (out);
  if (is_large)
    release (out);
  else
    tps_magazine_put (&magazine, &depot, out);
}

void
tps_writer_reset (TpsWriter *out, TpsProtocolKind protocol, gboolean framed)
{
  release_contents (out);
  if (out->n_allocated > MAX_KEPT_HEAD_BYTES)
    {
      g_free (out->head);
      out->n_allocated = FIRST_HEAD_BYTES;
      out->head = g_malloc (out->n_allocated);
    }
  out->compact = protocol == TPS_PROTOCOL_COMPACT;
  out->framed = framed;
  out->too_long = FALSE;
  out->impossible = FALSE;
  out->n_prefix = 0;
  out->n_skipped = 0;
  out->n_head = 0;
  out->n_spliced_bytes = 0;
  out->n_copies = 0;
  out->bool_pending = FALSE;
  out->depth = 0;
}

static gboolean
charge_all (TpsWriter *out, gsize n_allocated, GError **error)
{
  return tps_charge_set (&out->charge, WRITER_BYTES + n_allocated + out->n_copies, error);
}

void
tps_writer_set_budget (TpsWriter *out, TpsBudget *budget)
{
  out->charge = (TpsCharge) { tps_budget_ref (budget), 0 };
  charge_all (out, out->n_allocated, NULL);
}

static gboolean
grow_to (TpsWriter *out, gsize n_allocated, GError **error)
{
  guint8 *head;

  if (!charge_all (out, n_allocated, error))
    return FALSE;
  head = g_try_realloc (out->head, n_allocated);
  if (head == NULL)
    {
      charge_all (out, out->n_allocated, NULL);
      return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                       "no memory for a message of %" G_GSIZE_FORMAT " bytes", n_allocated);
    }
  out->n_allocated = n_allocated;
  out->head = head;
  return TRUE;
}

/* Reserves `n_bytes` at the end of the head. If there is no memory, the message fails, and later
 * bytes overwrite the head from its beginning. Returns FALSE if the head then has no room for
 * `n_bytes`. */
static gboolean
grow (TpsWriter *out, gsize n_bytes)
{
  gsize n_allocated = out->n_allocated;
  GError *error = NULL;

  while (n_bytes > n_allocated - out->n_head)
    n_allocated *= 2;
  if (out->failure == NULL && grow_to (out, n_allocated, &error))
    return TRUE;
  if (error != NULL)
    tps_writer_fail (out, error);
  out->n_head = 0;
  return n_bytes <= out->n_allocated;
}

/* Appends `n_bytes`, at most 16, to the head, and returns their memory, which the caller must fill
 * in. Returns memory even if the message has failed. */
static inline guint8 *
extend (TpsWriter *out, gsize n_bytes)
{
  if (G_UNLIKELY (n_bytes > out->n_allocated - out->n_head))
    grow (out, n_bytes);
  out->n_head += n_bytes;
  return out->head + out->n_head - n_bytes;
}

static inline void
put_bytes (TpsWriter *out, gconstpointer bytes, gsize n_bytes)
{
  if (n_bytes == 0 || (n_bytes > out->n_allocated - out->n_head && !grow (out, n_bytes)))
    return;
  memcpy (out->head + out->n_head, bytes, n_bytes);
  out->n_head += n_bytes;
}

/* ---- numbers and lengths -------------------------------------------------------------------- */

/* Values in the two protocols. Compact protocol needs two kinds of state. The first is the last
 * field id of each open struct. The second is the id of a boolean field, whose header contains its
 * value. */

static void
put_byte (TpsWriter *out, guint8 byte)
{
  *extend (out, 1) = byte;
}

static void
put_be16 (TpsWriter *out, guint16 value)
{
  value = GUINT16_TO_BE (value);
  memcpy (extend (out, sizeof value), &value, sizeof value);
}

static void
put_be32 (TpsWriter *out, guint32 value)
{
  value = GUINT32_TO_BE (value);
  memcpy (extend (out, sizeof value), &value, sizeof value);
}

static void
put_be64 (TpsWriter *out, guint64 value)
{
  value = GUINT64_TO_BE (value);
  memcpy (extend (out, sizeof value), &value, sizeof value);
}

static void
put_varint (TpsWriter *out, guint64 value)
{
  guint8 bytes[10];
  guint n_bytes = 0;

  while (value >= 0x80)
    {
      bytes[n_bytes++] = (guint8) (value | 0x80);
      value >>= 7;
    }
  bytes[n_bytes++] = (guint8) value;
  put_bytes (out, bytes, n_bytes);
}

static void
put_zigzag (TpsWriter *out, gint64 value)
{
  put_varint (out, ((guint64) value << 1) ^ (guint64) (value >> 63));
}

static guint8
compact_type (TpsWireType type)
{
  static const guint8 compact_types[16] = {
    [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 3,   [TPS_WIRE_I16] = 4,     [TPS_WIRE_I32] = 5,
    [TPS_WIRE_I64] = 6,  [TPS_WIRE_DOUBLE] = 7, [TPS_WIRE_BINARY] = 8,  [TPS_WIRE_LIST] = 9,
    [TPS_WIRE_SET] = 10, [TPS_WIRE_MAP] = 11,   [TPS_WIRE_STRUCT] = 12,
  };

  return compact_types[type];
}

static void
put_length (TpsWriter *out, gsize length)
{
  if (length > G_MAXINT32)
    out->too_long = out->impossible = TRUE;
  if (out->compact)
    put_varint (out, (guint32) length);
  else
    put_be32 (out, (guint32) length);
}

/* Writes the length prefix of a binary. A length of more than 31 bits is possible in a transfer
 * only. */
static void
put_binary_length (TpsWriter *out, gsize length)
{
  if (length <= G_MAXINT32 || out->compact)
    {
      put_length (out, length);
      return;
    }
  out->too_long = TRUE;
  put_be32 (out, TPS_MESSAGE_LONG_LENGTH);
  put_be64 (out, length);
}

/* ---- bytes and pieces ----------------------------------------------------------------------- */

GList *
tps_writer_get_link (TpsWriter *out)
{
  return &out->link;
}

void
tps_writer_set_released (TpsWriter *out, GDestroyNotify func, gpointer user_data)
{
  out->released = func;
  out->released_data = user_data;
}

void
tps_writer_set_sharing (TpsWriter *out, TpsSharing *sharing)
{
  TpsSharing *before = out->sharing;

  out->sharing = sharing;
  if (sharing != NULL)
    sharing->ops->ref (sharing);
  if (before != NULL)
    tps_sharing_unref (before);
}

gboolean
tps_writer_share (TpsWriter *out, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice)
{
  return out->sharing != NULL && n_bytes >= TPS_SHARING_MIN_BYTES
         && out->sharing->ops->place (out->sharing, data, n_bytes, slice);
}

gboolean
tps_writer_share_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes,
                         TpsSharedSlice *slice)
{
  if (out->sharing == NULL || n_bytes < TPS_SHARING_MIN_BYTES
      || out->sharing->ops->place_buffer == NULL)
    return tps_writer_share (out, tps_buffer_get_data (buffer) + offset, n_bytes, slice);
  return out->sharing->ops->place_buffer (out->sharing, buffer, offset, n_bytes, slice);
}

gboolean
tps_writer_share_device (TpsWriter *out, TpsDevice *device, gconstpointer data, gsize n_bytes,
                         TpsSharedSlice *slice)
{
  return out->sharing != NULL && out->sharing->ops->place_device != NULL
         && n_bytes >= TPS_SHARING_MIN_BYTES
         && out->sharing->ops->place_device (out->sharing, device, data, n_bytes, slice);
}

void
tps_writer_fail (TpsWriter *out, GError *error)
{
  if (out->failure == NULL)
    out->failure = error;
  else
    g_error_free (error);
}

/* Returns TRUE if the message has not failed. Errors: the error of tps_writer_fail(). */
static gboolean
check_failure (const TpsWriter *out, GError **error)
{
  if (out->failure == NULL)
    return TRUE;
  g_propagate_error (error, g_error_copy (out->failure));
  return FALSE;
}

void
tps_writer_set_queued (TpsWriter *out, GDestroyNotify func, gpointer user_data)
{
  out->queued = func;
  out->queued_data = user_data;
}

void
tps_writer_queued (TpsWriter *out)
{
  GDestroyNotify queued = g_steal_pointer (&out->queued);

  if (queued != NULL)
    queued (out->queued_data);
}

void
tps_writer_take_descriptor (TpsWriter *out, gint fd)
{
  out->descriptor = fd;
}

gint
tps_writer_get_descriptor (const TpsWriter *out)
{
  return out->descriptor;
}

static void
add_piece (TpsWriter *out, const guint8 *bytes, gsize n_bytes)
{
  struct iovec piece = { .iov_base = (gpointer) (guintptr) bytes, .iov_len = n_bytes };

  if (n_bytes > 0)
    g_array_append_val (out->pieces, piece);
}

static void
compute_pieces (TpsWriter *out)
{
  gsize n_done = out->n_skipped;

  g_array_set_size (out->pieces, 0);
  for (guint i = 0; i < out->splices->len; i++)
    {
      const Splice *splice = &g_array_index (out->splices, Splice, i);

      add_piece (out, out->head + n_done, splice->head_offset - n_done);
      add_piece (out, splice->data, splice->n_bytes);
      n_done = splice->head_offset;
    }
  add_piece (out, out->head + n_done, out->n_head - n_done);
}

gboolean
tps_writer_message_end (TpsWriter *out, GError **error)
{
  gsize n_bytes = out->n_head + out->n_spliced_bytes;
  guint32 frame_length;

  if (!check_failure (out, error))
    return FALSE;
  if (out->framed)
    n_bytes -= FRAME_LENGTH_BYTES;
  if (out->too_long || n_bytes > G_MAXINT32)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "a message has %" G_GSIZE_FORMAT " bytes; at most %d can be sent", n_bytes,
                     G_MAXINT32);
  frame_length = GUINT32_TO_BE ((guint32) n_bytes);
  if (out->framed)
    memcpy (out->head, &frame_length, sizeof frame_length);
  compute_pieces (out);
  return TRUE;
}

gboolean
tps_writer_message_end_transferred (TpsWriter *out, GError **error)
{
  if (!check_failure (out, error))
    return FALSE;
  if (out->impossible)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "a tensor or a list of the message is longer than %d, the limit of the %s "
                     "protocol",
                     G_MAXINT32, out->compact ? "compact" : "binary");
  out->n_skipped = out->n_prefix;
  compute_pieces (out);
  return TRUE;
}

const struct iovec *
tps_writer_get_pieces (TpsWriter *out, guint *n_pieces, gsize *n_bytes)
{
  *n_pieces = out->pieces->len;
  if (n_bytes != NULL)
    *n_bytes = out->n_head - out->n_skipped + out->n_spliced_bytes;
  return (const struct iovec *) (gpointer) out->pieces->data;
}

/* Takes ownership of the reference of `buffer`. */
static void
splice_bytes (TpsWriter *out, const guint8 *data, gsize n_bytes, TpsBuffer *buffer)
{
  Splice piece = { .head_offset = out->n_head, .data = data, .n_bytes = n_bytes, .buffer = buffer };

  out->n_spliced_bytes += n_bytes;
  g_array_append_val (out->splices, piece);
}

static void
splice (TpsWriter *out, const guint8 *data, gsize n_bytes, TpsBuffer *buffer)
{
  put_binary_length (out, n_bytes);
  splice_bytes (out, data, n_bytes, buffer);
}

/* Copies shared memory, because the peer may change it while the writer is queued. If there is no
 * memory for the copy, the message fails. */
static void
splice_copy (TpsWriter *out, gconstpointer data, gsize n_bytes)
{
  gsize cost = tps_buffer_pool_get_cost (n_bytes);
  GError *error = NULL;
  TpsBuffer *copy = NULL;

  out->n_copies += cost;
  if (charge_all (out, out->n_allocated, &error))
    copy = tps_buffer_pool_get (tps_buffer_pool_get_default (), n_bytes, &error);
  if (copy == NULL)
    {
      out->n_copies -= cost;
      charge_all (out, out->n_allocated, NULL);
      tps_writer_fail (out, error);
      return;
    }
  memcpy (tps_buffer_get_data (copy), data, n_bytes);
  splice (out, tps_buffer_get_data (copy), n_bytes, copy);
}

void
tps_writer_binary_buffer (TpsWriter *out, TpsBuffer *buffer, gsize offset, gsize n_bytes)
{
  const guint8 *data = tps_buffer_get_data (buffer) + offset;

  if (n_bytes < TPS_MESSAGE_BODY_THRESHOLD)
    tps_writer_binary (out, data, n_bytes);
  else if (tps_buffer_is_shared (buffer))
    splice_copy (out, data, n_bytes);
  else
    splice (out, data, n_bytes, tps_buffer_ref (buffer));
}

void
tps_writer_binary_borrowed (TpsWriter *out, gconstpointer data, gsize n_bytes)
{
  if (n_bytes < TPS_MESSAGE_BODY_THRESHOLD)
    tps_writer_binary (out, data, n_bytes);
  else
    splice (out, data, n_bytes, NULL);
}

void
tps_writer_binary_pieces (TpsWriter *out, const struct iovec *pieces, guint n_pieces)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < n_pieces; i++)
    n_bytes += pieces[i].iov_len;
  put_binary_length (out, n_bytes);
  for (guint i = 0; i < n_pieces; i++)
    if (pieces[i].iov_len < TPS_MESSAGE_BODY_THRESHOLD)
      put_bytes (out, pieces[i].iov_base, pieces[i].iov_len);
    else
      splice_bytes (out, pieces[i].iov_base, pieces[i].iov_len, NULL);
}

/* ---- header of a THeader frame (layout: scan.c) -------------------------------------- */

#define HEADER_MAGIC 0x0fff
#define HEADER_FIXED_BYTES 14 /* with the frame's length before it */
#define HEADER_SIZE_OFFSET 12
#define HEADER_PROTOCOL_BINARY 0
#define HEADER_PROTOCOL_COMPACT 2
#define HEADER_INFO_PAIRS 1

void
tps_writer_set_header (TpsWriter *out, gint32 seqid)
{
  put_be32 (out, 0); /* the frame's length */
  put_be16 (out, HEADER_MAGIC);
  put_be16 (out, 0); /* flags */
  put_be32 (out, (guint32) seqid);
  put_be16 (out, 0); /* the header's size, filled in at its end */
  put_byte (out, out->compact ? HEADER_PROTOCOL_COMPACT : HEADER_PROTOCOL_BINARY);
  put_byte (out, 0); /* transforms */
  out->n_prefix = out->n_head;
}

static void
put_header_text (TpsWriter *out, const gchar *text)
{
  gsize n_bytes = strlen (text);

  put_varint (out, n_bytes);
  put_bytes (out, text, n_bytes);
}

void
tps_writer_add_header (TpsWriter *out, const gchar *key, const gchar *value)
{
  put_byte (out, HEADER_INFO_PAIRS);
  put_byte (out, 1); /* a block of one pair */
  put_header_text (out, key);
  put_header_text (out, value);
}

/* ---- messages ------------------------------------------------------------------------------- */

void
tps_writer_message_begin (TpsWriter *out, const gchar *name, TpsMessageKind kind, gint32 seqid)
{
  gsize n_name = strlen (name);

  if (out->n_prefix > 0)
    {
      guint16 size;

      while (out->n_head % 4 != HEADER_FIXED_BYTES % 4)
        put_byte (out, 0);
      size = GUINT16_TO_BE ((guint16) ((out->n_head - HEADER_FIXED_BYTES) / 4));
      memcpy (out->head + HEADER_SIZE_OFFSET, &size, sizeof size);
    }
  else if (out->framed)
    put_be32 (out, 0); /* the length, filled in at the end */
  out->n_prefix = out->n_head;
  if (out->compact)
    {
      put_byte (out, 0x82);
      put_byte (out, (guint8) (kind << 5 | 1));
      put_varint (out, (guint32) seqid);
      put_length (out, n_name);
      put_bytes (out, name, n_name);
      return;
    }
  put_be32 (out, 0x80010000u | kind);
  put_length (out, n_name);
  put_bytes (out, name, n_name);
  put_be32 (out, (guint32) seqid);
}

void
tps_writer_struct_begin (TpsWriter *out)
{
  g_assert (out->depth < MAX_DEPTH);
  out->last_ids[++out->depth] = 0;
}

void
tps_writer_struct_end (TpsWriter *out)
{
  g_assert (out->depth > 0);
  put_byte (out, TPS_WIRE_STOP);
  out->depth--;
}

static void
put_compact_field (TpsWriter *out, gint16 id, guint8 type)
{
  gint16 *last_id = &out->last_ids[out->depth];
  gint delta = id - *last_id;

  if (delta >= 1 && delta <= 15)
    put_byte (out, (guint8) (delta << 4 | type));
  else
    {
      put_byte (out, type);
      put_zigzag (out, id);
    }
  *last_id = id;
}

void
tps_writer_field (TpsWriter *out, gint16 id, TpsWireType type)
{
  if (!out->compact)
    {
      put_byte (out, (guint8) type);
      put_be16 (out, (guint16) id);
      return;
    }
  out->bool_pending = type == TPS_WIRE_BOOL;
  out->bool_id = id;
  if (!out->bool_pending)
    put_compact_field (out, id, compact_type (type));
}

void
tps_writer_bool (TpsWriter *out, gboolean value)
{
  guint8 compact_value = value ? 1 : 2;

  if (!out->compact)
    put_byte (out, value ? 1 : 0);
  else if (out->bool_pending)
    put_compact_field (out, out->bool_id, compact_value);
  else
    put_byte (out, compact_value);
  out->bool_pending = FALSE;
}

void
tps_writer_byte (TpsWriter *out, gint8 value)
{
  put_byte (out, (guint8) value);
}

void
tps_writer_i16 (TpsWriter *out, gint16 value)
{
  if (out->compact)
    put_zigzag (out, value);
  else
    put_be16 (out, (guint16) value);
}

void
tps_writer_i32 (TpsWriter *out, gint32 value)
{
  if (out->compact)
    put_zigzag (out, value);
  else
    put_be32 (out, (guint32) value);
}

void
tps_writer_i64 (TpsWriter *out, gint64 value)
{
  if (out->compact)
    put_zigzag (out, value);
  else
    put_be64 (out, (guint64) value);
}

void
tps_writer_double (TpsWriter *out, gdouble value)
{
  guint64 bits;

  memcpy (&bits, &value, sizeof bits);
  /* Compact protocol has little-endian doubles. */
  put_be64 (out, out->compact ? GUINT64_SWAP_LE_BE (bits) : bits);
}

void
tps_writer_string (TpsWriter *out, const gchar *value)
{
  tps_writer_binary (out, value, strlen (value));
}

void
tps_writer_binary (TpsWriter *out, gconstpointer data, gsize n_bytes)
{
  put_length (out, n_bytes);
  if (n_bytes <= G_MAXINT32)
    put_bytes (out, data, n_bytes);
}

static void
begin_elements (TpsWriter *out, TpsWireType type, guint32 n_elems)
{
  if (!out->compact)
    {
      put_byte (out, (guint8) type);
      put_length (out, n_elems);
      return;
    }
  put_byte (out, (guint8) (MIN (n_elems, 15) << 4 | compact_type (type)));
  if (n_elems >= 15)
    put_length (out, n_elems);
}

void
tps_writer_list_begin (TpsWriter *out, TpsWireType type, guint32 n_elems)
{
  begin_elements (out, type, n_elems);
}

void
tps_writer_set_begin (TpsWriter *out, TpsWireType type, guint32 n_elems)
{
  begin_elements (out, type, n_elems);
}

void
tps_writer_map_begin (TpsWriter *out, TpsWireType key_type, TpsWireType value_type, guint32 n_elems)
{
  if (!out->compact)
    {
      put_byte (out, (guint8) key_type);
      put_byte (out, (guint8) value_type);
      put_be32 (out, n_elems);
      return;
    }
  put_length (out, n_elems);
  if (n_elems > 0)
    put_byte (out, (guint8) (compact_type (key_type) << 4 | compact_type (value_type)));
}

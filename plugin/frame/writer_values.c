/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Values in the two protocols. Compact protocol needs two kinds of state. The first is the last
 * field id of each open struct. The second is the id of a boolean field, whose header contains its
 * value. */

#include "plugin/frame/writer_private.h"

static void
put_byte (TpsWriter *out, guint8 byte)
{
  *tps_writer_extend (out, 1) = byte;
}

static void
put_be16 (TpsWriter *out, guint16 value)
{
  value = GUINT16_TO_BE (value);
  memcpy (tps_writer_extend (out, sizeof value), &value, sizeof value);
}

static void
put_be32 (TpsWriter *out, guint32 value)
{
  value = GUINT32_TO_BE (value);
  memcpy (tps_writer_extend (out, sizeof value), &value, sizeof value);
}

static void
put_be64 (TpsWriter *out, guint64 value)
{
  value = GUINT64_TO_BE (value);
  memcpy (tps_writer_extend (out, sizeof value), &value, sizeof value);
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
  tps_writer_put_bytes (out, bytes, n_bytes);
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

/* Writes the length of a name, a container, or a short binary. */
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

void
tps_writer_put_binary_length (TpsWriter *out, gsize length)
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

/* ---- header of a THeader frame (layout: scan_header.c) -------------------------------------- */

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
  tps_writer_put_bytes (out, text, n_bytes);
}

void
tps_writer_add_header (TpsWriter *out, const gchar *key, const gchar *value)
{
  put_byte (out, HEADER_INFO_PAIRS);
  put_byte (out, 1); /* a block of one pair */
  put_header_text (out, key);
  put_header_text (out, value);
}

static void
end_header (TpsWriter *out)
{
  guint16 size;

  while (out->n_head % 4 != HEADER_FIXED_BYTES % 4)
    put_byte (out, 0);
  size = GUINT16_TO_BE ((guint16) ((out->n_head - HEADER_FIXED_BYTES) / 4));
  memcpy (out->head + HEADER_SIZE_OFFSET, &size, sizeof size);
}

/* ---- messages ------------------------------------------------------------------------------- */

void
tps_writer_message_begin (TpsWriter *out, const gchar *name, TpsMessageKind kind, gint32 seqid)
{
  gsize n_name = strlen (name);

  if (out->n_prefix > 0)
    end_header (out);
  else if (out->framed)
    put_be32 (out, 0); /* the length, filled in at the end */
  out->n_prefix = out->n_head;
  if (out->compact)
    {
      put_byte (out, 0x82);
      put_byte (out, (guint8) (kind << 5 | 1));
      put_varint (out, (guint32) seqid);
      put_length (out, n_name);
      tps_writer_put_bytes (out, name, n_name);
      return;
    }
  put_be32 (out, 0x80010000u | kind);
  put_length (out, n_name);
  tps_writer_put_bytes (out, name, n_name);
  put_be32 (out, (guint32) seqid);
}

void
tps_writer_struct_begin (TpsWriter *out)
{
  g_assert (out->depth < TPS_WRITER_MAX_DEPTH);
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
    tps_writer_put_bytes (out, data, n_bytes);
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

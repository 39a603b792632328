/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compact protocol: every token is rewritten into the head in binary protocol.
 *
 * Source: doc/specs/thrift-compact-protocol.md of Apache Thrift; doubles are little-endian, as in
 * all implementations. A varint may be longer than its value needs, but must not be longer than its
 * type allows. */

#include "plugin/frame/scan_machine.h"

#include <string.h>

#define VERSION 1
#define MAX_BYTES_32 5
#define MAX_BYTES_64 10

enum
{
  COMPACT_TRUE = 1,
  COMPACT_FALSE = 2,
};

/* The canonical type of each compact type; 0 = no such type. Type 13 is UUID, which the binary
 * protocol of Thrift 0.17 does not have. */
static const guint8 wire_types[16] = {
  [COMPACT_TRUE] = TPS_WIRE_BOOL,
  [COMPACT_FALSE] = TPS_WIRE_BOOL,
  [3] = TPS_WIRE_BYTE,
  [4] = TPS_WIRE_I16,
  [5] = TPS_WIRE_I32,
  [6] = TPS_WIRE_I64,
  [7] = TPS_WIRE_DOUBLE,
  [8] = TPS_WIRE_BINARY,
  [9] = TPS_WIRE_LIST,
  [10] = TPS_WIRE_SET,
  [11] = TPS_WIRE_MAP,
  [12] = TPS_WIRE_STRUCT,
};

/* Minimum size of a value, by canonical type. */
static const guint8 min_bytes[16] = {
  [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 1, [TPS_WIRE_DOUBLE] = 8, [TPS_WIRE_I16] = 1,
  [TPS_WIRE_I32] = 1,  [TPS_WIRE_I64] = 1,  [TPS_WIRE_BINARY] = 1, [TPS_WIRE_STRUCT] = 1,
  [TPS_WIRE_MAP] = 1,  [TPS_WIRE_SET] = 1,  [TPS_WIRE_LIST] = 1,
};

static guint8
wire_type (guint compact_type)
{
  /* An unknown type becomes a value that is in no table, so that error messages can name it. */
  if (compact_type != 0 && wire_types[compact_type] == 0)
    return (guint8) (0xf0 | compact_type);
  return wire_types[compact_type];
}

/* Reads the varint that begins `offset` bytes ahead, without consuming it. Sets `n_bytes` to its
 * length. */
static TpsScanStep
peek_varint (TpsScanner *scanner, const TpsScanInput *in, gsize offset, guint n_bytes_max,
             guint64 *value, gsize *n_bytes)
{
  gsize n_here = tps_scan_n_here (in);
  guint8 last_max = n_bytes_max == MAX_BYTES_32 ? 0x0f : 0x01;

  *value = 0;
  *n_bytes = 0;
  for (guint i = 0; i < n_bytes_max; i++)
    {
      guint8 byte;

      if (offset + i >= n_here)
        return TPS_STEP_MORE;
      byte = in->next[offset + i];
      if (i == n_bytes_max - 1 && byte > last_max)
        break;
      *value |= (guint64) (byte & 0x7f) << (7 * i);
      if (byte < 0x80)
        {
          *n_bytes = i + 1;
          return TPS_STEP_OK;
        }
    }
  return tps_scan_refuse (scanner, in, "a varint is longer than %u bits",
                          n_bytes_max == MAX_BYTES_32 ? 32 : 64);
}

static TpsScanStep
take_u32 (TpsScanner *scanner, TpsScanInput *in, guint32 *value)
{
  guint64 wide;
  gsize n_bytes;
  TpsScanStep step = peek_varint (scanner, in, 0, MAX_BYTES_32, &wide, &n_bytes);

  if (step != TPS_STEP_OK)
    return step;
  in->next += n_bytes;
  *value = (guint32) wide;
  return TPS_STEP_OK;
}

static gint64
unzigzag (guint64 value)
{
  return (gint64) (value >> 1) ^ -(gint64) (value & 1);
}

/* Writes the low `n_bytes` of a value big-endian into the head. */
static TpsScanStep
put (TpsScanner *scanner, const TpsScanInput *in, guint64 value, guint n_bytes)
{
  guint8 *room = tps_scan_head_extend (scanner, in, n_bytes);
  guint64 big_endian = GUINT64_TO_BE (value << (64 - 8 * n_bytes));

  if (room == NULL)
    return TPS_STEP_BAD;
  memcpy (room, &big_endian, n_bytes);
  return TPS_STEP_OK;
}

static TpsScanStep
step_header (TpsScanner *scanner, TpsScanInput *in)
{
  guint version, kind;

  if (tps_scan_n_here (in) < 2)
    return TPS_STEP_MORE;
  version = in->next[1] & 0x1f;
  kind = in->next[1] >> 5;
  if (version != VERSION)
    return tps_scan_refuse (scanner, in, "the compact protocol has version %u, expected %d",
                            version, VERSION);
  if (kind < TPS_MESSAGE_CALL || kind > TPS_MESSAGE_ONEWAY)
    return tps_scan_refuse (scanner, in, "unknown message type %u", kind);
  scanner->message->kind = (TpsMessageKind) kind;
  in->next += 2;
  scanner->state = TPS_SCAN_SEQID;
  return TPS_STEP_OK;
}

static TpsScanStep
step_seqid (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 seqid;
  TpsScanStep step = take_u32 (scanner, in, &seqid);

  if (step != TPS_STEP_OK)
    return step;
  scanner->message->seqid = (gint32) seqid;
  scanner->state = TPS_SCAN_NAME_LENGTH;
  return TPS_STEP_OK;
}

static TpsScanStep
step_name_length (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 n_bytes;
  TpsScanStep step = take_u32 (scanner, in, &n_bytes);

  return step == TPS_STEP_OK ? tps_scan_begin_name (scanner, in, (gint32) n_bytes) : step;
}

/* Reads the id from a field header. Sets `n_bytes` to the length of the header. */
static TpsScanStep
peek_field_id (TpsScanner *scanner, const TpsScanInput *in, gint16 last_id, gint64 *id,
               gsize *n_bytes)
{
  guint delta = in->next[0] >> 4;
  guint64 value;
  TpsScanStep step;

  if (delta > 0)
    {
      *id = (gint64) last_id + delta;
      *n_bytes = 1;
    }
  else
    {
      step = peek_varint (scanner, in, 1, MAX_BYTES_32, &value, n_bytes);
      if (step != TPS_STEP_OK)
        return step;
      *id = unzigzag (value);
      *n_bytes += 1;
    }
  if (*id < G_MININT16 || *id > G_MAXINT16)
    return tps_scan_refuse (scanner, in, "field id %" G_GINT64_FORMAT " is outside 16 bits", *id);
  return TPS_STEP_OK;
}

static TpsScanStep
begin_field (TpsScanner *scanner, TpsScanInput *in, TpsScanLevel *level)
{
  guint compact_type = in->next[0] & 0x0f;
  guint8 type = wire_type (compact_type);
  gint64 id;
  gsize n_bytes;
  TpsScanStep step;

  if (type >= 16 || type == 0)
    return tps_scan_refuse (scanner, in, "a field has the unknown type %u", compact_type);
  step = peek_field_id (scanner, in, level->last_id, &id, &n_bytes);
  if (step != TPS_STEP_OK)
    return step;
  if (!tps_scan_mark_field (scanner, in, level, (gint16) id))
    return TPS_STEP_BAD;
  level->last_id = (gint16) id;
  in->next += n_bytes;
  if (type == TPS_WIRE_BOOL) /* the header contains the value, too */
    return put (scanner, in,
                (guint64) type << 24 | (guint64) (guint16) id << 8 | (compact_type == COMPACT_TRUE),
                4);
  scanner->type = type;
  scanner->state = TPS_SCAN_VALUE;
  return put (scanner, in, (guint64) type << 16 | (guint16) id, 3);
}

static TpsScanStep
step_next (TpsScanner *scanner, TpsScanInput *in)
{
  TpsScanLevel *level = tps_scan_get_level (scanner);

  if (!level->is_struct)
    {
      if (level->n_left == 0)
        return tps_scan_end_level (scanner, in);
      scanner->type = level->types[level->n_left & 1];
      level->n_left--;
      scanner->state = TPS_SCAN_VALUE;
      return TPS_STEP_OK;
    }
  if (tps_scan_n_here (in) < 1)
    return TPS_STEP_MORE;
  if (in->next[0] != TPS_WIRE_STOP)
    return begin_field (scanner, in, level);
  if (put (scanner, in, TPS_WIRE_STOP, 1) != TPS_STEP_OK)
    return TPS_STEP_BAD;
  in->next++;
  return tps_scan_end_level (scanner, in);
}

static TpsScanStep
begin_elements (TpsScanner *scanner, TpsScanInput *in, gboolean is_map, const guint8 types[2],
                guint32 n_elems)
{
  TpsScanStep step;

  if (!tps_scan_check_container (scanner, in, is_map, types, (gint32) n_elems))
    return TPS_STEP_BAD;
  step = is_map ? put (scanner, in, (guint64) types[0] << 8 | types[1], 2)
                : put (scanner, in, types[0], 1);
  if (step != TPS_STEP_OK || put (scanner, in, n_elems, 4) != TPS_STEP_OK)
    return TPS_STEP_BAD;
  if (is_map || types[0] != TPS_WIRE_BYTE)
    return tps_scan_begin_container (scanner, is_map, types, n_elems);
  scanner->n_raw = n_elems;
  scanner->state = n_elems > 0 ? TPS_SCAN_RAW : TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static TpsScanStep
begin_list (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2];
  guint64 n_elems;
  gsize n_bytes;
  TpsScanStep step;

  if (tps_scan_n_here (in) < 1)
    return TPS_STEP_MORE;
  types[0] = types[1] = wire_type (in->next[0] & 0x0f);
  n_elems = in->next[0] >> 4;
  if (n_elems < 15)
    {
      in->next++;
      return begin_elements (scanner, in, FALSE, types, (guint32) n_elems);
    }
  step = peek_varint (scanner, in, 1, MAX_BYTES_32, &n_elems, &n_bytes);
  if (step != TPS_STEP_OK)
    return step;
  in->next += 1 + n_bytes;
  return begin_elements (scanner, in, FALSE, types, (guint32) n_elems);
}

static TpsScanStep
begin_map (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2] = { TPS_WIRE_STOP, TPS_WIRE_STOP };
  guint64 n_elems;
  gsize n_bytes;
  TpsScanStep step = peek_varint (scanner, in, 0, MAX_BYTES_32, &n_elems, &n_bytes);

  if (step != TPS_STEP_OK)
    return step;
  if (n_elems > 0)
    {
      if (tps_scan_n_here (in) <= n_bytes)
        return TPS_STEP_MORE;
      types[0] = wire_type (in->next[n_bytes] >> 4);
      types[1] = wire_type (in->next[n_bytes] & 0x0f);
      n_bytes++;
    }
  in->next += n_bytes;
  return begin_elements (scanner, in, TRUE, types, (guint32) n_elems);
}

static TpsScanStep
begin_string (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 n_bytes;
  TpsScanStep step = take_u32 (scanner, in, &n_bytes);

  if (step != TPS_STEP_OK)
    return step;
  if (put (scanner, in, n_bytes, 4) != TPS_STEP_OK)
    return TPS_STEP_BAD;
  return tps_scan_begin_binary (scanner, in, (gint32) n_bytes);
}

/* Reads a boolean element: 1 is true, and 2 is false. Some writers send 0 for false. */
static TpsScanStep
take_bool (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 value;

  if (tps_scan_n_here (in) < 1)
    return TPS_STEP_MORE;
  value = in->next[0];
  if (value > COMPACT_FALSE)
    return tps_scan_refuse (scanner, in, "a boolean is %u, neither true (1) nor false (2 or 0)",
                            value);
  in->next++;
  return put (scanner, in, value == COMPACT_TRUE, 1);
}

static TpsScanStep
take_byte (TpsScanner *scanner, TpsScanInput *in)
{
  if (tps_scan_n_here (in) < 1)
    return TPS_STEP_MORE;
  in->next++;
  return put (scanner, in, in->next[-1], 1);
}

static TpsScanStep
take_double (TpsScanner *scanner, TpsScanInput *in)
{
  guint64 bits;

  if (tps_scan_n_here (in) < sizeof bits)
    return TPS_STEP_MORE;
  memcpy (&bits, in->next, sizeof bits);
  in->next += sizeof bits;
  return put (scanner, in, GUINT64_FROM_LE (bits), sizeof bits);
}

static TpsScanStep
take_integer (TpsScanner *scanner, TpsScanInput *in, guint n_bytes)
{
  guint64 value;
  gsize n_taken;
  gint64 number;
  TpsScanStep step = peek_varint (scanner, in, 0, n_bytes == 8 ? MAX_BYTES_64 : MAX_BYTES_32,
                                  &value, &n_taken);

  if (step != TPS_STEP_OK)
    return step;
  number = unzigzag (value);
  if (n_bytes == 2 && (number < G_MININT16 || number > G_MAXINT16))
    return tps_scan_refuse (
        scanner, in, "an i16 has the value %" G_GINT64_FORMAT ", which is outside [-32768, 32767]",
        number);
  in->next += n_taken;
  return put (scanner, in, (guint64) number, n_bytes);
}

static TpsScanStep
take_primitive (TpsScanner *scanner, TpsScanInput *in)
{
  switch (scanner->type)
    {
    case TPS_WIRE_BOOL:
      return take_bool (scanner, in);
    case TPS_WIRE_BYTE:
      return take_byte (scanner, in);
    case TPS_WIRE_DOUBLE:
      return take_double (scanner, in);
    case TPS_WIRE_I16:
      return take_integer (scanner, in, 2);
    case TPS_WIRE_I32:
      return take_integer (scanner, in, 4);
    default:
      return take_integer (scanner, in, 8);
    }
}

static TpsScanStep
step_value (TpsScanner *scanner, TpsScanInput *in)
{
  TpsScanStep step;

  switch (scanner->type)
    {
    case TPS_WIRE_BINARY:
      return begin_string (scanner, in);
    case TPS_WIRE_STRUCT:
      return tps_scan_begin_struct (scanner, in);
    case TPS_WIRE_MAP:
      return begin_map (scanner, in);
    case TPS_WIRE_LIST:
    case TPS_WIRE_SET:
      return begin_list (scanner, in);
    default:
      break;
    }
  step = take_primitive (scanner, in);
  if (step == TPS_STEP_OK)
    scanner->state = TPS_SCAN_NEXT;
  return step;
}

const TpsScanCodec tps_scan_codec_compact = {
  .protocol = TPS_PROTOCOL_COMPACT,
  .min_bytes = min_bytes,
  .steps = {
    [TPS_SCAN_HEADER] = step_header,
    [TPS_SCAN_SEQID] = step_seqid,
    [TPS_SCAN_NAME_LENGTH] = step_name_length,
    [TPS_SCAN_NAME] = tps_scan_step_name,
    [TPS_SCAN_NEXT] = step_next,
    [TPS_SCAN_VALUE] = step_value,
    [TPS_SCAN_RAW] = tps_scan_step_raw,
  },
};

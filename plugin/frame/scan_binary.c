/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The strict binary protocol. It is already the canonical form, so this codec only checks the
 * bytes, and copies them into the head in long spans. A boolean may be any byte; every byte except
 * 0 is true. */

#include "plugin/frame/scan_machine.h"

#include <string.h>

#define VERSION_MASK 0xffffff00u
#define VERSION_1 0x80010000u

/* Minimum size of a value, by type. An empty struct consists of its stop byte. */
static const guint8 min_bytes[16] = {
  [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 1, [TPS_WIRE_DOUBLE] = 8, [TPS_WIRE_I16] = 2,
  [TPS_WIRE_I32] = 4,  [TPS_WIRE_I64] = 8,  [TPS_WIRE_BINARY] = 4, [TPS_WIRE_STRUCT] = 1,
  [TPS_WIRE_MAP] = 6,  [TPS_WIRE_SET] = 5,  [TPS_WIRE_LIST] = 5,
};

/* Size of the values of a type, if they all have the same size; 0 = they do not. */
static const guint8 fixed_bytes[16] = {
  [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 1, [TPS_WIRE_DOUBLE] = 8,
  [TPS_WIRE_I16] = 2,  [TPS_WIRE_I32] = 4,  [TPS_WIRE_I64] = 8,
};

static guint32
get_be32 (const guint8 *bytes)
{
  guint32 value;

  memcpy (&value, bytes, sizeof value);
  return GUINT32_FROM_BE (value);
}

static TpsScanStep
step_header (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 version;

  if (tps_scan_n_here (in) < 4)
    return TPS_STEP_MORE;
  version = get_be32 (in->next);
  if ((version & VERSION_MASK) != VERSION_1)
    return tps_scan_refuse (scanner, in,
                            "the binary protocol has version 0x%08x, expected 0x80010000", version);
  if ((version & 0xff) < TPS_MESSAGE_CALL || (version & 0xff) > TPS_MESSAGE_ONEWAY)
    return tps_scan_refuse (scanner, in, "unknown message type %u", version & 0xff);
  scanner->message->kind = (TpsMessageKind) (version & 0xff);
  in->next += 4;
  scanner->state = TPS_SCAN_NAME_LENGTH;
  return TPS_STEP_OK;
}

static TpsScanStep
step_name_length (TpsScanner *scanner, TpsScanInput *in)
{
  if (tps_scan_n_here (in) < 4)
    return TPS_STEP_MORE;
  in->next += 4;
  return tps_scan_begin_name (scanner, in, (gint32) get_be32 (in->next - 4));
}

static TpsScanStep
step_seqid (TpsScanner *scanner, TpsScanInput *in)
{
  if (tps_scan_n_here (in) < 4)
    return TPS_STEP_MORE;
  scanner->message->seqid = (gint32) get_be32 (in->next);
  in->next += 4;
  return tps_scan_begin_arguments (scanner, in);
}

static TpsScanStep
begin_field (TpsScanner *scanner, TpsScanInput *in, TpsScanLevel *level)
{
  guint8 type;
  gsize n_bytes;

  if (tps_scan_n_here (in) < 3)
    return TPS_STEP_MORE;
  type = in->next[0];
  if (type >= 16 || min_bytes[type] == 0)
    return tps_scan_refuse (scanner, in, "a field has the unknown type %u", type);
  if (!tps_scan_mark_field (scanner, in, level, (gint16) (in->next[1] << 8 | in->next[2])))
    return TPS_STEP_BAD;
  in->next += 3;
  n_bytes = fixed_bytes[type];
  if (n_bytes > 0 && n_bytes <= tps_scan_n_here (in))
    {
      in->next += n_bytes; /* the common case: the field's value is here, too */
      return TPS_STEP_OK;
    }
  scanner->type = type;
  scanner->state = TPS_SCAN_VALUE;
  return TPS_STEP_OK;
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
  in->next++;
  return tps_scan_end_level (scanner, in);
}

/* Elements of a fixed size are consumed as one piece. */
static TpsScanStep
begin_elements (TpsScanner *scanner, TpsScanInput *in, gboolean is_map, const guint8 types[2],
                gint64 n_elems)
{
  gsize n_bytes;

  if (!tps_scan_check_container (scanner, in, is_map, types, n_elems))
    return TPS_STEP_BAD;
  n_bytes = fixed_bytes[types[0]];
  if (n_bytes == 0 || (is_map && fixed_bytes[types[1]] == 0))
    return tps_scan_begin_container (scanner, is_map, types, (guint32) n_elems);
  if (is_map)
    n_bytes += fixed_bytes[types[1]];
  scanner->n_raw = n_bytes * (gsize) n_elems;
  scanner->state = scanner->n_raw > 0 ? TPS_SCAN_RAW : TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static TpsScanStep
begin_list (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2];

  if (tps_scan_n_here (in) < 5)
    return TPS_STEP_MORE;
  types[0] = types[1] = in->next[0];
  in->next += 5;
  return begin_elements (scanner, in, FALSE, types, (gint32) get_be32 (in->next - 4));
}

/* An empty map has no types in compact protocol, so the canonical form has zeros for them. */
static TpsScanStep
begin_empty_map (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 *room;

  if (!tps_scan_flush_span (scanner, in))
    return TPS_STEP_BAD;
  room = tps_scan_head_extend (scanner, in, 6);
  if (room == NULL)
    return TPS_STEP_BAD;
  memset (room, 0, 6);
  in->next += 6;
  in->span = in->next;
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

static TpsScanStep
begin_map (TpsScanner *scanner, TpsScanInput *in)
{
  guint8 types[2];
  gint32 n_elems;

  if (tps_scan_n_here (in) < 6)
    return TPS_STEP_MORE;
  types[0] = in->next[0];
  types[1] = in->next[1];
  n_elems = (gint32) get_be32 (in->next + 2);
  if (n_elems == 0 && tps_scan_check_container (scanner, in, TRUE, types, 0))
    return begin_empty_map (scanner, in);
  in->next += 6;
  return begin_elements (scanner, in, TRUE, types, n_elems);
}

/* Reads a prefix that consists of the length -1 and the true length. */
static TpsScanStep
begin_long_string (TpsScanner *scanner, TpsScanInput *in)
{
  gint64 n_bytes;

  if (tps_scan_n_here (in) < 12)
    return TPS_STEP_MORE;
  memcpy (&n_bytes, in->next + 4, sizeof n_bytes);
  in->next += 12;
  return tps_scan_begin_binary (scanner, in, GINT64_FROM_BE (n_bytes));
}

static TpsScanStep
begin_string (TpsScanner *scanner, TpsScanInput *in)
{
  if (tps_scan_n_here (in) < 4)
    return TPS_STEP_MORE;
  if (scanner->transferred && get_be32 (in->next) == TPS_MESSAGE_LONG_LENGTH)
    return begin_long_string (scanner, in);
  in->next += 4;
  return tps_scan_begin_binary (scanner, in, (gint32) get_be32 (in->next - 4));
}

static TpsScanStep
step_value (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = fixed_bytes[scanner->type];

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
  if (tps_scan_n_here (in) < n_bytes)
    return TPS_STEP_MORE;
  in->next += n_bytes;
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

const TpsScanCodec tps_scan_codec_binary = {
  .protocol = TPS_PROTOCOL_BINARY,
  .min_bytes = min_bytes,
  .steps = {
    [TPS_SCAN_HEADER] = step_header,
    [TPS_SCAN_NAME_LENGTH] = step_name_length,
    [TPS_SCAN_NAME] = tps_scan_step_name,
    [TPS_SCAN_SEQID] = step_seqid,
    [TPS_SCAN_NEXT] = step_next,
    [TPS_SCAN_VALUE] = step_value,
    [TPS_SCAN_RAW] = tps_scan_step_raw,
  },
};

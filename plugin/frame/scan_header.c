/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The header of a THeader frame, between the frame's length and the message:
 *
 *   u16 magic 0x0fff, u16 flags, i32 sequence id, u16 size of the rest / 4, and the rest:
 *   varint protocol (0 = binary, 2 = compact), varint number of transforms, their ids,
 *   info blocks, each a varint kind and its content
 *     kind 1: varint number of pairs, each a key and a value (varint length, bytes)
 *   zeros up to a multiple of 4 bytes
 *
 * Source: doc/specs/HeaderFormat.md of Apache Thrift. A block of an unknown kind ends the header,
 * as in Thrift's own readers. The rest, at most TPS_MESSAGE_MAX_HEADER_BYTES, is collected and then
 * parsed at once. Parsing converts it to the pairs of the message in place. This is possible
 * because a pair with two NULs is not longer than a pair with two lengths. */

#include "plugin/frame/scan_machine.h"

#include <string.h>

#define FIXED_BYTES 10
#define MAGIC 0x0fff
#define PROTOCOL_BINARY 0
#define PROTOCOL_COMPACT 2
#define TRANSFORM_ZLIB 1
#define INFO_PAIRS 1
#define MAX_VARINT_BYTES 5
/* The part that is kept if there is no memory for a header: the protocol and the number of
 * transforms. */
#define MIN_INFO_BYTES (2 * MAX_VARINT_BYTES)

static guint
get_be16 (const guint8 *bytes)
{
  return (guint) bytes[0] << 8 | bytes[1];
}

TpsScanStep
tps_scan_step_theader (TpsScanner *scanner, TpsScanInput *in)
{
  gint32 seqid;
  guint n_bytes;

  if (tps_scan_n_here (in) < FIXED_BYTES)
    return TPS_STEP_MORE;
  if (get_be16 (in->next) != MAGIC)
    return tps_scan_refuse (scanner, in,
                            "a frame begins with 0x%04x, neither a message nor the header 0x0fff",
                            get_be16 (in->next));
  memcpy (&seqid, in->next + 4, sizeof seqid);
  n_bytes = 4 * get_be16 (in->next + 8);
  in->next += FIXED_BYTES;
  if (n_bytes > tps_scan_n_left (in))
    return tps_scan_refuse_length (scanner, in, "the frame's header", n_bytes);
  if (n_bytes == 0 || n_bytes > TPS_MESSAGE_MAX_HEADER_BYTES)
    return tps_scan_refuse (scanner, in, "the frame's header has %u bytes; 4 to %d are allowed",
                            n_bytes, TPS_MESSAGE_MAX_HEADER_BYTES);
  tps_scan_begin_message (scanner);
  scanner->message->has_header = TRUE;
  scanner->message->header_seqid = GINT32_FROM_BE (seqid);
  if (scanner->message->n_bytes_refused == 0
      && !tps_message_charge (scanner->message, n_bytes, NULL))
    tps_scan_refuse_memory (scanner, n_bytes);
  scanner->n_info = n_bytes;
  scanner->n_info_here = 0;
  scanner->state = TPS_SCAN_INFO;
  return TPS_STEP_OK;
}

/* ---- rest of the header --------------------------------------------------------------------- */

typedef struct
{
  TpsScanner *scanner;
  const TpsScanInput *in; /* the input after the header, for error messages */
  const guint8 *next;
  const guint8 *end;
} Info;

static gboolean
refuse_end (Info *info)
{
  tps_scan_refuse (info->scanner, info->in, "the frame's header ends inside a number or a string");
  return FALSE;
}

/* Reads a varint of 32 bits. FALSE: refused. */
static gboolean
take_varint (Info *info, guint32 *value)
{
  guint64 wide = 0;

  for (guint i = 0; i < MAX_VARINT_BYTES; i++)
    {
      guint8 byte;

      if (info->next == info->end)
        return refuse_end (info);
      byte = *info->next++;
      wide |= (guint64) (byte & 0x7f) << (7 * i);
      if (byte < 0x80 && wide <= G_MAXUINT32)
        {
          *value = (guint32) wide;
          return TRUE;
        }
    }
  tps_scan_refuse (info->scanner, info->in, "the frame's header has a varint of more than 32 bits");
  return FALSE;
}

/* Moves a string to `*dest`, which may overlap it, and appends a NUL. FALSE: refused. */
static gboolean
take_string (Info *info, gchar **dest)
{
  guint32 n_bytes;

  if (!take_varint (info, &n_bytes))
    return FALSE;
  if (n_bytes > (gsize) (info->end - info->next))
    return refuse_end (info);
  if (!g_utf8_validate_len ((const gchar *) info->next, n_bytes, NULL))
    {
      tps_scan_refuse (info->scanner, info->in,
                       "a key or a value in the frame's header is not UTF-8 without NUL");
      return FALSE;
    }
  memmove (*dest, info->next, n_bytes);
  info->next += n_bytes;
  *dest += n_bytes;
  *(*dest)++ = '\0';
  return TRUE;
}

/* Reads one pair to `*dest`. FALSE: refused. */
static gboolean
take_pair (Info *info, gchar **dest)
{
  TpsMessage *message = info->scanner->message;
  const gchar *key = *dest;

  if (message->n_headers == TPS_MESSAGE_MAX_HEADERS)
    {
      tps_scan_refuse (info->scanner, info->in, "the frame's header has more than %d pairs",
                       TPS_MESSAGE_MAX_HEADERS);
      return FALSE;
    }
  if (!take_string (info, dest))
    return FALSE;
  if (tps_message_get_header (message, key) != NULL)
    {
      tps_scan_refuse (info->scanner, info->in, "the frame's header has the key \"%.64s\" twice",
                       key);
      return FALSE;
    }
  if (!take_string (info, dest))
    return FALSE;
  message->n_headers++;
  return TRUE;
}

/* Reads the blocks of pairs. FALSE: refused. */
static gboolean
take_blocks (Info *info)
{
  gchar *dest = info->scanner->message->headers;

  while (info->next < info->end)
    {
      guint32 kind, n_pairs;

      if (!take_varint (info, &kind))
        return FALSE;
      if (kind != INFO_PAIRS)
        return TRUE;
      if (!take_varint (info, &n_pairs))
        return FALSE;
      for (; n_pairs > 0; n_pairs--)
        if (!take_pair (info, &dest))
          return FALSE;
    }
  return TRUE;
}

/* Reads the number of transforms, which must be 0. FALSE: refused. */
static gboolean
check_transforms (Info *info)
{
  guint32 n_transforms, id;

  if (!take_varint (info, &n_transforms))
    return FALSE;
  if (n_transforms == 0)
    return TRUE;
  if (take_varint (info, &id))
    tps_scan_refuse (info->scanner, info->in,
                     "the frame's header requires transform %u%s: transforms are not supported", id,
                     id == TRANSFORM_ZLIB ? " (zlib)" : "");
  return FALSE;
}

/* Reads the protocol and sets the codec. FALSE: refused. */
static gboolean
take_protocol (Info *info)
{
  guint32 protocol;

  if (!take_varint (info, &protocol))
    return FALSE;
  if (protocol == PROTOCOL_BINARY)
    info->scanner->codec = &tps_scan_codec_binary;
  else if (protocol == PROTOCOL_COMPACT)
    info->scanner->codec = &tps_scan_codec_compact;
  else
    {
      tps_scan_refuse (info->scanner, info->in,
                       "the frame's header announces protocol %u, neither binary (0) nor compact "
                       "(2)",
                       protocol);
      return FALSE;
    }
  return TRUE;
}

static TpsScanStep
read_info (TpsScanner *scanner, const TpsScanInput *in, gsize n_bytes)
{
  const guint8 *bytes = (const guint8 *) scanner->message->headers;
  Info info = { scanner, in, bytes, bytes + n_bytes };

  if (!take_protocol (&info) || !check_transforms (&info))
    return TPS_STEP_BAD;
  if (scanner->message->n_bytes_refused == 0 && !take_blocks (&info))
    return TPS_STEP_BAD;
  scanner->state = TPS_SCAN_PROTOCOL;
  return TPS_STEP_OK;
}

TpsScanStep
tps_scan_step_info (TpsScanner *scanner, TpsScanInput *in)
{
  TpsMessage *message = scanner->message;
  guint n_kept = message->n_bytes_refused > 0 ? MIN (scanner->n_info, MIN_INFO_BYTES)
                                              : scanner->n_info;
  guint n_new = (guint) MIN (scanner->n_info - scanner->n_info_here, tps_scan_n_here (in));

  if (scanner->n_info_here == 0)
    tps_message_reserve_headers (message, n_kept);
  if (scanner->n_info_here < n_kept)
    memcpy (message->headers + scanner->n_info_here, in->next,
            MIN (n_new, n_kept - scanner->n_info_here));
  in->next += n_new;
  scanner->n_info_here += n_new;
  if (scanner->n_info_here < scanner->n_info)
    return TPS_STEP_MORE;
  return read_info (scanner, in, n_kept);
}

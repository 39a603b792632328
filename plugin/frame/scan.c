/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Runs the machine of scan_machine.h over the received chunks: limits, framing, bodies, and tokens
 * that lie in two chunks. The happy path:
 *
 *   feed -> run_carry   the few bytes kept from the last chunk, with the rest of their token
 *        -> run         steps over the chunk itself
 *        -> keep_rest   the beginning of a token at its end
 */

#include "plugin/frame/scan.h"

#include <string.h>

#include "plugin/frame/scan_machine.h"
#include "runtime/base/error.h"

#define DEFAULT_MAX_HEAD_BYTES ((gsize) 64 << 20)
#define LARGEST_HEAD_BYTES \
  ((gsize) 1 << 30) /* GByteArray counts in 32 bits, and grows in powers of two */
#define DROPPED_BYTES ((gsize) 16 << 10)
#define NO_LIMIT G_MAXSIZE

/* The destination of the bytes of refused bodies, which nothing reads. It is not allocated, because
 * a body may have been refused for lack of memory. */
static _Thread_local guint8 dropped[DROPPED_BYTES];

/* -- the header of a frame -- */

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

static TpsScanStep
step_theader (TpsScanner *scanner, TpsScanInput *in)
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

static TpsScanStep
step_info (TpsScanner *scanner, TpsScanInput *in)
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

/* -- the scanner -- */

TpsScanner *
tps_scanner_new (const TpsScannerOptions *options)
{
  TpsScanner *scanner = g_new0 (TpsScanner, 1);
  gsize max_head_bytes = options->max_head_bytes;

  if (max_head_bytes == 0)
    max_head_bytes = MIN (DEFAULT_MAX_HEAD_BYTES, options->max_message_bytes);
  scanner->max_message_bytes = options->max_message_bytes;
  scanner->max_head_bytes = MIN (max_head_bytes, LARGEST_HEAD_BYTES);
  scanner->bodies = tps_buffer_pool_ref (options->bodies != NULL ? options->bodies
                                                                 : tps_buffer_pool_get_default ());
  scanner->pool = scanner->bodies;
  scanner->choose_bodies = options->choose_bodies;
  scanner->user_data = options->user_data;
  scanner->transferred = options->transferred;
  scanner->framed = options->transferred ? 0 : -1;
  scanner->state = TPS_SCAN_START;
  scanner->n_left = NO_LIMIT;
  scanner->limit = NO_LIMIT;
  return scanner;
}

void
tps_scanner_free (TpsScanner *scanner)
{
  if (scanner == NULL)
    return;
  g_clear_pointer (&scanner->message, tps_message_free);
  g_clear_error (&scanner->error);
  tps_buffer_pool_unref (scanner->bodies);
  g_free (scanner->deep_levels);
  g_free (scanner);
}

static TpsScanStep
begin_message (TpsScanner *scanner, TpsScanInput *in, gsize n_bytes)
{
  scanner->limit = n_bytes;
  tps_scan_input_limit (in, n_bytes);
  scanner->state = TPS_SCAN_PROTOCOL;
  return TPS_STEP_OK;
}

/* No memory may be reserved for the frame before this returns TRUE. */
static gboolean
check_frame_length (TpsScanner *scanner, guint32 n_bytes)
{
  if (n_bytes == 0)
    g_set_error_literal (&scanner->error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                         "a frame has the length 0, expected at least 1");
  else if (n_bytes > G_MAXINT32)
    g_set_error (&scanner->error, TPS_ERROR, TPS_ERROR_PROTOCOL,
                 "a frame has the negative length 0x%08x", n_bytes);
  else if (n_bytes > scanner->max_message_bytes)
    g_set_error (&scanner->error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                 "a frame has %u bytes; the limit is %" G_GSIZE_FORMAT, n_bytes,
                 scanner->max_message_bytes);
  return scanner->error == NULL;
}

static TpsScanStep
step_frame_length (TpsScanner *scanner, TpsScanInput *in)
{
  guint32 n_bytes;

  if (tps_scan_n_here (in) < sizeof n_bytes)
    return TPS_STEP_MORE;
  memcpy (&n_bytes, in->next, sizeof n_bytes);
  n_bytes = GUINT32_FROM_BE (n_bytes);
  if (!check_frame_length (scanner, n_bytes))
    return TPS_STEP_BAD;
  in->next += sizeof n_bytes;
  return begin_message (scanner, in, n_bytes);
}

/* Examines the first bytes of a connection: 1 = they begin a frame; 0 = they begin an unframed
 * message; -1 = one byte is not enough. */
static gint
detect_framed (const TpsScanInput *in)
{
  if (in->next[0] < 0x80)
    return 1;
  if (in->next[0] == 0x82)
    return 0;
  if (in->next[0] == 0x80 && tps_scan_n_here (in) < 2)
    return -1;
  /* Other bytes are refused later, as the beginning of a message or as a negative frame length. */
  return in->next[0] == 0x80 && in->next[1] == 0x01 ? 0 : 1;
}

static TpsScanStep
step_start (TpsScanner *scanner, TpsScanInput *in)
{
  if (tps_scan_n_here (in) == 0)
    return TPS_STEP_MORE;
  if (scanner->framed < 0)
    scanner->framed = detect_framed (in);
  if (scanner->framed < 0)
    return TPS_STEP_MORE;
  if (scanner->framed == 1)
    return step_frame_length (scanner, in);
  return begin_message (scanner, in, scanner->max_message_bytes);
}

static TpsScanStep
step_protocol (TpsScanner *scanner, TpsScanInput *in)
{
  const TpsScanCodec *codec;

  if (tps_scan_n_here (in) == 0)
    return TPS_STEP_MORE;
  if (in->next[0] == TPS_SCAN_THEADER_FIRST && scanner->framed == 1 && scanner->message == NULL)
    {
      scanner->state = TPS_SCAN_THEADER;
      return TPS_STEP_OK;
    }
  codec = in->next[0] == 0x80 ? &tps_scan_codec_binary : &tps_scan_codec_compact;
  if (in->next[0] != 0x80 && in->next[0] != 0x82)
    return tps_scan_refuse (
        scanner, in,
        "a message begins with 0x%02x, neither binary protocol with version (0x80) nor compact "
        "protocol (0x82)",
        in->next[0]);
  if (scanner->message == NULL)
    tps_scan_begin_message (scanner);
  else if (codec != scanner->codec)
    return tps_scan_refuse (scanner, in,
                            "a message begins with 0x%02x, but its frame's header announces the "
                            "other protocol",
                            in->next[0]);
  scanner->codec = codec;
  scanner->message->protocol = codec->protocol;
  scanner->state = TPS_SCAN_HEADER;
  return TPS_STEP_OK;
}

static TpsScanStep
step_before (TpsScanner *scanner, TpsScanInput *in)
{
  switch (scanner->state)
    {
    case TPS_SCAN_START:
      return step_start (scanner, in);
    case TPS_SCAN_THEADER:
      return step_theader (scanner, in);
    case TPS_SCAN_INFO:
      return step_info (scanner, in);
    default:
      return step_protocol (scanner, in);
    }
}

static TpsScanStep
step (TpsScanner *scanner, TpsScanInput *in)
{
  if (G_LIKELY (scanner->state > TPS_SCAN_PROTOCOL))
    return scanner->codec->steps[scanner->state](scanner, in);
  return step_before (scanner, in);
}

static void
input_init (const TpsScanner *scanner, TpsScanInput *in, const guint8 *bytes, gsize n_bytes)
{
  gboolean in_arguments = scanner->state >= TPS_SCAN_NEXT;

  in->next = bytes;
  in->stop = bytes + n_bytes;
  in->span = in_arguments && scanner->codec->protocol == TPS_PROTOCOL_BINARY ? bytes : NULL;
  tps_scan_input_limit (in, scanner->n_left);
}

/* Ends a run over one input: counts the consumed bytes, and copies the span into the head. */
static TpsScanStep
input_finish (TpsScanner *scanner, TpsScanInput *in, TpsScanStep last)
{
  scanner->n_left = tps_scan_n_left (in);
  if (last == TPS_STEP_BAD || !tps_scan_flush_span (scanner, in))
    return TPS_STEP_BAD;
  if (last != TPS_STEP_MORE || in->n_tail > 0)
    return last;
  /* The step needs more bytes than the message may have. */
  if (scanner->framed == 1)
    return tps_scan_refuse (scanner, in, "the frame ends inside the message");
  return tps_scan_refuse_length (scanner, in, "the message", tps_scan_n_left (in) + 1);
}

/* Completes the token that began in the last chunk, and sets `n_used` to the number of bytes used
 * from this chunk. */
static TpsScanStep
run_carry (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, gsize *n_used)
{
  gsize n_old = scanner->n_carry;
  gsize n_new = MIN (n_bytes, sizeof scanner->carry - n_old);
  gsize n_taken;
  TpsScanInput in;
  TpsScanStep last;

  memcpy (scanner->carry + n_old, bytes, n_new);
  input_init (scanner, &in, scanner->carry, n_old + n_new);
  do
    last = step (scanner, &in);
  while (last == TPS_STEP_OK && in.next < scanner->carry + n_old);
  last = input_finish (scanner, &in, last);
  n_taken = (gsize) (in.next - scanner->carry);
  *n_used = n_new;
  if (last == TPS_STEP_BAD)
    return last;
  if (n_taken < n_old) /* the token is still incomplete, so the chunk has no more bytes */
    {
      scanner->n_carry = (guint) (n_old + n_new - n_taken);
      memmove (scanner->carry, scanner->carry + n_taken, scanner->n_carry);
      return TPS_STEP_MORE;
    }
  scanner->n_carry = 0;
  *n_used = n_taken - n_old;
  return last == TPS_STEP_MORE ? TPS_STEP_OK : last;
}

static TpsScanStep
run (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, gsize *n_used)
{
  TpsScanInput in;
  TpsScanStep last;

  input_init (scanner, &in, bytes, n_bytes);
  do
    last = step (scanner, &in);
  while (last == TPS_STEP_OK);
  last = input_finish (scanner, &in, last);
  *n_used = (gsize) (in.next - bytes);
  return last;
}

/* Returns the destination of the next byte of the body; NULL = the body is refused. */
static guint8 *
body_room (const TpsScanner *scanner)
{
  const TpsMessage *message = scanner->message;

  if (message->n_bytes_refused > 0)
    return NULL;
  return tps_buffer_get_data (message->bodies[message->n_bodies - 1].buffer) + scanner->n_filled;
}

static void
fill_body (TpsScanner *scanner, gsize n_bytes)
{
  scanner->n_filled += n_bytes;
  scanner->n_left -= n_bytes;
  if (scanner->n_filled == scanner->n_body)
    scanner->state = TPS_SCAN_NEXT;
}

static gsize
feed_body (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes)
{
  gsize n_used = MIN (n_bytes, scanner->n_body - scanner->n_filled);
  const TpsMessage *message = scanner->message;
  guint8 *room;

  if (scanner->transferred && message->n_bytes_refused == 0
      && !tps_buffer_charge (message->bodies[message->n_bodies - 1].buffer,
                             scanner->n_filled + n_used, NULL))
    tps_scan_refuse_memory (scanner, scanner->n_body);
  room = body_room (scanner);
  if (room != NULL)
    memcpy (room, bytes, n_used);
  fill_body (scanner, n_used);
  return n_used;
}

static gboolean
report (const TpsScanner *scanner, GError **error)
{
  if (scanner->error == NULL)
    return TRUE;
  if (error != NULL)
    *error = g_error_copy (scanner->error);
  return FALSE;
}

gboolean
tps_scanner_feed (TpsScanner *scanner, const guint8 *bytes, gsize n_bytes, gsize *n_consumed,
                  GError **error)
{
  gsize n_done = 0, n_used = 0;
  TpsScanStep last = TPS_STEP_OK;

  *n_consumed = 0;
  if (scanner->error != NULL)
    return report (scanner, error);
  if (scanner->state == TPS_SCAN_BODY)
    n_done = feed_body (scanner, bytes, n_bytes);
  if (scanner->state == TPS_SCAN_BODY || scanner->state == TPS_SCAN_DONE || n_done == n_bytes)
    {
      *n_consumed = n_done;
      return TRUE;
    }
  if (scanner->n_carry > 0)
    {
      last = run_carry (scanner, bytes, n_bytes, &n_used);
      n_done = n_used;
    }
  if (last == TPS_STEP_OK)
    {
      last = run (scanner, bytes + n_done, n_bytes - n_done, &n_used);
      n_done += n_used;
      if (last == TPS_STEP_MORE)
        {
          memcpy (scanner->carry, bytes + n_done, n_bytes - n_done);
          scanner->n_carry = (guint) (n_bytes - n_done);
          n_done = n_bytes;
        }
    }
  *n_consumed = n_done;
  if (scanner->error != NULL)
    /* its memory is released at once, for other messages */
    g_clear_pointer (&scanner->message, tps_message_free);
  return report (scanner, error);
}

gboolean
tps_scanner_get_body (TpsScanner *scanner, guint8 **dest, gsize *n_missing)
{
  if (scanner->state != TPS_SCAN_BODY || scanner->error != NULL)
    return FALSE;
  *n_missing = scanner->n_body - scanner->n_filled;
  *dest = body_room (scanner);
  if (*dest != NULL)
    return TRUE;
  *dest = dropped;
  *n_missing = MIN (*n_missing, DROPPED_BYTES);
  return TRUE;
}

gboolean
tps_scanner_body_received (TpsScanner *scanner, gsize n_bytes, GError **error)
{
  if (!report (scanner, error))
    return FALSE;
  g_return_val_if_fail (
      scanner->state == TPS_SCAN_BODY && n_bytes <= scanner->n_body - scanner->n_filled, FALSE);
  fill_body (scanner, n_bytes);
  return TRUE;
}

TpsMessage *
tps_scanner_take (TpsScanner *scanner)
{
  if (scanner->state != TPS_SCAN_DONE || scanner->error != NULL)
    return NULL;
  g_byte_array_set_size (scanner->message->head, (guint) scanner->n_head);
  scanner->state = TPS_SCAN_START;
  scanner->n_left = NO_LIMIT;
  scanner->limit = NO_LIMIT;
  return g_steal_pointer (&scanner->message);
}

gboolean
tps_scanner_is_idle (const TpsScanner *scanner)
{
  return scanner->state == TPS_SCAN_START && scanner->n_carry == 0 && scanner->error == NULL;
}

gint
tps_scanner_get_framed (const TpsScanner *scanner)
{
  return scanner->framed;
}

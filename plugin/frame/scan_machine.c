/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/frame/scan_machine.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/growing_array.h"

#define FIRST_HEAD_BYTES 256

static TpsScanStep
refuse_with (TpsScanner *scanner, const TpsScanInput *in, TpsErrorCode code, const gchar *text)
{
  if (scanner->error == NULL)
    g_set_error (&scanner->error, TPS_ERROR, code, "byte %" G_GSIZE_FORMAT " of a message: %s",
                 scanner->limit - tps_scan_n_left (in), text);
  return TPS_STEP_BAD;
}

TpsScanStep
tps_scan_refuse (TpsScanner *scanner, const TpsScanInput *in, const gchar *format, ...)
{
  g_autofree gchar *text = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  return refuse_with (scanner, in, TPS_ERROR_PROTOCOL, text);
}

TpsScanStep
tps_scan_refuse_length (TpsScanner *scanner, const TpsScanInput *in, const gchar *name,
                        guint64 n_bytes)
{
  g_autofree gchar *text = NULL;

  if (scanner->framed == 1)
    return tps_scan_refuse (scanner, in,
                            "%s needs %" G_GUINT64_FORMAT " bytes, %" G_GSIZE_FORMAT
                            " are left in the frame",
                            name, n_bytes, tps_scan_n_left (in));
  text = g_strdup_printf ("%s needs %" G_GUINT64_FORMAT " bytes, the limit of %" G_GSIZE_FORMAT
                          " bytes for a message leaves %" G_GSIZE_FORMAT,
                          name, n_bytes, scanner->limit, tps_scan_n_left (in));
  return refuse_with (scanner, in, TPS_ERROR_RESOURCE_EXHAUSTED, text);
}

static void
count_dropped (TpsMessage *message, gsize n_bytes)
{
  gsize cost = tps_buffer_pool_get_cost (n_bytes);

  if (__builtin_add_overflow (message->n_bytes_dropped, cost, &message->n_bytes_dropped))
    message->n_bytes_dropped = G_MAXSIZE;
}

void
tps_scan_refuse_memory (TpsScanner *scanner, gsize n_bytes)
{
  TpsMessage *message = scanner->message;

  message->n_bytes_refused += n_bytes;
  message->pool_limit = tps_budget_get_max (tps_buffer_pool_get_budget (scanner->pool));
  for (guint i = 0; i < message->n_bodies; i++)
    count_dropped (message, message->bodies[i].n_bytes);
  tps_message_drop_bodies (message);
}

void
tps_scan_begin_message (TpsScanner *scanner)
{
  if (scanner->choose_bodies != NULL)
    scanner->pool = scanner->choose_bodies (scanner->user_data);
  scanner->message = tps_message_new ();
  scanner->message->framed = scanner->framed;
  scanner->message->transferred = scanner->transferred;
  scanner->message->charge.budget = tps_budget_ref (tps_buffer_pool_get_budget (scanner->pool));
  if (scanner->pool != scanner->bodies)
    scanner->message->n_bytes_free = TPS_MESSAGE_FREE_BYTES;
  if (!tps_message_charge (scanner->message, TPS_MESSAGE_BYTES, NULL))
    tps_scan_refuse_memory (scanner, TPS_MESSAGE_BYTES);
  scanner->n_head = 0;
}

/* Makes room in the head for `n_bytes` more bytes. The head grows in powers of two, and only for
 * received bytes, never for announced bytes. If there is no memory for the head, the message is
 * refused, and its further bytes are dropped. */
static gboolean
grow_head (TpsScanner *scanner, const TpsScanInput *in, gsize n_bytes)
{
  TpsMessage *message = scanner->message;
  gsize wanted = scanner->n_head + n_bytes;
  gsize n_bytes_new = MAX (FIRST_HEAD_BYTES, (gsize) message->head->len * 2);

  if (wanted > scanner->max_head_bytes)
    {
      g_autofree gchar *text = g_strdup_printf (
          "the message without its large binaries exceeds the limit of %" G_GSIZE_FORMAT " bytes",
          scanner->max_head_bytes);

      refuse_with (scanner, in, TPS_ERROR_RESOURCE_EXHAUSTED, text);
      return FALSE;
    }
  while (n_bytes_new < wanted)
    n_bytes_new *= 2;
  n_bytes_new = MIN (n_bytes_new, scanner->max_head_bytes);
  if (message->n_bytes_refused == 0
      && !tps_message_charge (message, n_bytes_new - message->n_bytes_head, NULL))
    tps_scan_refuse_memory (scanner, n_bytes_new);
  if (message->n_bytes_refused == 0)
    {
      message->n_bytes_head = n_bytes_new;
      if (!tps_byte_array_try_set_size (&message->head, (guint) n_bytes_new))
        tps_scan_refuse_memory (scanner, n_bytes_new);
    }
  if (message->n_bytes_refused > 0)
    {
      /* The codecs still write into the head. Their bytes now overwrite it from the beginning. */
      scanner->n_head = 0;
      g_byte_array_set_size (message->head, MAX (FIRST_HEAD_BYTES, message->head->len));
    }
  return TRUE;
}

guint8 *
tps_scan_head_extend (TpsScanner *scanner, const TpsScanInput *in, gsize n_bytes)
{
  guint8 *room;

  if (G_UNLIKELY (n_bytes > scanner->message->head->len - scanner->n_head)
      && !grow_head (scanner, in, n_bytes))
    return NULL;
  room = scanner->message->head->data + scanner->n_head;
  scanner->n_head += n_bytes;
  return room;
}

/* Appends bytes to the head, or drops them if the message is refused. FALSE: the input is
 * refused. */
static gboolean
append (TpsScanner *scanner, const TpsScanInput *in, const guint8 *bytes, gsize n_bytes)
{
  TpsMessage *message = scanner->message;

  if (G_UNLIKELY (n_bytes > message->head->len - scanner->n_head)
      && !grow_head (scanner, in, n_bytes))
    return FALSE;
  if (G_UNLIKELY (message->n_bytes_refused > 0))
    return TRUE;
  memcpy (message->head->data + scanner->n_head, bytes, n_bytes);
  scanner->n_head += n_bytes;
  return TRUE;
}

gboolean
tps_scan_flush_span (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = (gsize) (in->next - in->span);

  if (in->span == NULL || n_bytes == 0)
    return TRUE;
  if (!append (scanner, in, in->span, n_bytes))
    return FALSE;
  in->span = in->next;
  return TRUE;
}

static gboolean
refuse_duplicate (TpsScanner *scanner, const TpsScanInput *in, gint16 id)
{
  tps_scan_refuse (scanner, in, "field %d occurs twice in one struct", id);
  return FALSE;
}

static gboolean
mark_odd_field (TpsScanner *scanner, const TpsScanInput *in, TpsScanLevel *level, gint16 id)
{
  for (guint i = 0; i < level->n_odd_ids; i++)
    if (level->odd_ids[i] == id)
      return refuse_duplicate (scanner, in, id);
  if (level->n_odd_ids == TPS_SCAN_MAX_ODD_IDS)
    {
      tps_scan_refuse (scanner, in, "a struct has more than %d field ids outside [0, 255]",
                       TPS_SCAN_MAX_ODD_IDS);
      return FALSE;
    }
  level->odd_ids[level->n_odd_ids++] = id;
  return TRUE;
}

gboolean
tps_scan_mark_field (TpsScanner *scanner, const TpsScanInput *in, TpsScanLevel *level, gint16 id)
{
  guint64 bit = (guint64) 1 << (id & 63);

  if (G_UNLIKELY (id < 0 || id > 255))
    return mark_odd_field (scanner, in, level, id);
  if (level->seen_ids[id >> 6] & bit)
    return refuse_duplicate (scanner, in, id);
  level->seen_ids[id >> 6] |= bit;
  return TRUE;
}

static gboolean
check_depth (TpsScanner *scanner, const TpsScanInput *in)
{
  if (scanner->depth < TPS_MESSAGE_MAX_DEPTH)
    return TRUE;
  tps_scan_refuse (scanner, in, "structs and containers are nested more than %d deep",
                   TPS_MESSAGE_MAX_DEPTH);
  return FALSE;
}

/* Deep levels are allocated on demand, because few messages are nested deeply, and an idle
 * connection should use little memory. */
static TpsScanLevel *
push_level (TpsScanner *scanner)
{
  if (scanner->depth < TPS_SCAN_FIRST_LEVELS)
    return &scanner->first_levels[scanner->depth++];
  if (scanner->deep_levels == NULL)
    scanner->deep_levels = g_new (TpsScanLevel, TPS_MESSAGE_MAX_DEPTH - TPS_SCAN_FIRST_LEVELS);
  return &scanner->deep_levels[scanner->depth++ - TPS_SCAN_FIRST_LEVELS];
}

TpsScanStep
tps_scan_begin_struct (TpsScanner *scanner, TpsScanInput *in)
{
  TpsScanLevel *level;

  if (!check_depth (scanner, in))
    return TPS_STEP_BAD;
  level = push_level (scanner);
  level->is_struct = TRUE;
  level->last_id = 0;
  level->n_odd_ids = 0;
  memset (level->seen_ids, 0, sizeof level->seen_ids);
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

TpsScanStep
tps_scan_end_level (TpsScanner *scanner, TpsScanInput *in)
{
  if (--scanner->depth == 0)
    {
      if (scanner->framed == 1 && tps_scan_n_left (in) > 0)
        return tps_scan_refuse (scanner, in,
                                "the message ends %" G_GSIZE_FORMAT " bytes before its frame",
                                tps_scan_n_left (in));
      scanner->state = TPS_SCAN_DONE;
      return TPS_STEP_STOP;
    }
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

/* Adds a body of `n_bytes` to the message. FALSE: there is no memory. */
static gboolean
add_body (TpsScanner *scanner, gsize n_bytes)
{
  TpsBody body = { .head_offset = scanner->n_head, .n_bytes = n_bytes };

  /* The frame limit does not bound the announcements of a transfer, so its bodies take memory only
   * for received bytes. */
  body.buffer = scanner->transferred ? tps_buffer_pool_get_empty (scanner->pool, n_bytes, NULL)
                                     : tps_buffer_pool_get (scanner->pool, n_bytes, NULL);
  if (body.buffer == NULL)
    return FALSE;
  if (tps_message_add_body (scanner->message, &body, NULL))
    return TRUE;
  tps_buffer_unref (body.buffer);
  return FALSE;
}

static TpsScanStep
begin_body (TpsScanner *scanner, TpsScanInput *in, gsize n_bytes)
{
  if (!tps_scan_flush_span (scanner, in))
    return TPS_STEP_BAD;
  /* A message that lacks a body cannot be handled, so its later bodies are refused, too. */
  if (scanner->message->n_bytes_refused > 0 || !add_body (scanner, n_bytes))
    {
      tps_scan_refuse_memory (scanner, n_bytes);
      count_dropped (scanner->message, n_bytes);
    }
  scanner->message->n_bytes_bodies += n_bytes;
  scanner->n_body = n_bytes;
  scanner->n_filled = 0;
  scanner->state = TPS_SCAN_BODY;
  return TPS_STEP_STOP;
}

TpsScanStep
tps_scan_begin_binary (TpsScanner *scanner, TpsScanInput *in, gint64 n_bytes)
{
  if (n_bytes < 0)
    return tps_scan_refuse (scanner, in, "a string has the negative length %" G_GINT64_FORMAT,
                            n_bytes);
  if ((guint64) n_bytes > tps_scan_n_left (in))
    return tps_scan_refuse_length (scanner, in, "a string", (guint64) n_bytes);
  if (n_bytes >= TPS_MESSAGE_BODY_THRESHOLD)
    return begin_body (scanner, in, (gsize) n_bytes);
  scanner->n_raw = (gsize) n_bytes;
  scanner->state = n_bytes > 0 ? TPS_SCAN_RAW : TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

/* Some writers give no type for an empty container. */
static gboolean
check_type (TpsScanner *scanner, const TpsScanInput *in, guint8 type, gint64 n_elems)
{
  if ((type < 16 && scanner->codec->min_bytes[type] > 0) || (type == TPS_WIRE_STOP && n_elems == 0))
    return TRUE;
  tps_scan_refuse (scanner, in, "elements have the unknown type %u",
                   scanner->codec->protocol == TPS_PROTOCOL_COMPACT ? type & 0x0f : type);
  return FALSE;
}

gboolean
tps_scan_check_container (TpsScanner *scanner, const TpsScanInput *in, gboolean is_map,
                          const guint8 types[2], gint64 n_elems)
{
  const gchar *name = is_map ? "a map" : "a list";
  guint64 n_bytes_min;

  if (n_elems < 0)
    {
      tps_scan_refuse (scanner, in, "%s has the negative size %" G_GINT64_FORMAT, name, n_elems);
      return FALSE;
    }
  if (!check_type (scanner, in, types[0], n_elems) || !check_type (scanner, in, types[1], n_elems))
    return FALSE;
  n_bytes_min = scanner->codec->min_bytes[types[0]];
  if (is_map)
    n_bytes_min += scanner->codec->min_bytes[types[1]];
  n_bytes_min *= (guint64) n_elems;
  if (n_bytes_min > tps_scan_n_left (in))
    {
      tps_scan_refuse_length (scanner, in, name, n_bytes_min);
      return FALSE;
    }
  return check_depth (scanner, in);
}

TpsScanStep
tps_scan_begin_container (TpsScanner *scanner, gboolean is_map, const guint8 types[2],
                          guint32 n_elems)
{
  TpsScanLevel *level;

  scanner->state = TPS_SCAN_NEXT;
  if (n_elems == 0)
    return TPS_STEP_OK;
  level = push_level (scanner);
  level->is_struct = FALSE;
  level->types[0] = types[0];
  level->types[1] = types[1];
  level->n_left = is_map ? 2 * n_elems : n_elems; /* no overflow: a size is below 2^31 */
  return TPS_STEP_OK;
}

TpsScanStep
tps_scan_begin_name (TpsScanner *scanner, const TpsScanInput *in, gint64 n_bytes)
{
  gboolean is_call = scanner->message->kind == TPS_MESSAGE_CALL
                     || scanner->message->kind == TPS_MESSAGE_ONEWAY;

  if (n_bytes < (is_call ? 1 : 0) || n_bytes > TPS_MESSAGE_MAX_NAME)
    return tps_scan_refuse (scanner, in,
                            "a method name of %" G_GINT64_FORMAT " bytes; 1 to %d are allowed",
                            n_bytes, TPS_MESSAGE_MAX_NAME);
  if ((guint64) n_bytes > tps_scan_n_left (in))
    return tps_scan_refuse_length (scanner, in, "the method name", (guint64) n_bytes);
  tps_message_reserve_name (scanner->message, (gsize) n_bytes);
  scanner->n_name = 0;
  scanner->n_raw = (gsize) n_bytes;
  scanner->state = TPS_SCAN_NAME;
  return TPS_STEP_OK;
}

TpsScanStep
tps_scan_begin_arguments (TpsScanner *scanner, TpsScanInput *in)
{
  in->span = scanner->codec->protocol == TPS_PROTOCOL_BINARY ? in->next : NULL;
  return tps_scan_begin_struct (scanner, in);
}

TpsScanStep
tps_scan_step_name (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = MIN (scanner->n_raw, tps_scan_n_here (in));
  gchar *name = scanner->message->name;

  memcpy (name + scanner->n_name, in->next, n_bytes);
  in->next += n_bytes;
  scanner->n_name += (guint) n_bytes;
  scanner->n_raw -= n_bytes;
  if (scanner->n_raw > 0)
    return TPS_STEP_MORE;
  name[scanner->n_name] = '\0';
  if (!g_utf8_validate_len (name, scanner->n_name, NULL))
    return tps_scan_refuse (scanner, in, "the method name is not UTF-8 without NUL");
  if (scanner->codec->protocol == TPS_PROTOCOL_COMPACT)
    return tps_scan_begin_arguments (scanner, in);
  scanner->state = TPS_SCAN_SEQID;
  return TPS_STEP_OK;
}

TpsScanStep
tps_scan_step_raw (TpsScanner *scanner, TpsScanInput *in)
{
  gsize n_bytes = MIN (scanner->n_raw, tps_scan_n_here (in));

  if (in->span == NULL && !append (scanner, in, in->next, n_bytes))
    return TPS_STEP_BAD;
  in->next += n_bytes;
  scanner->n_raw -= n_bytes;
  if (scanner->n_raw > 0)
    return TPS_STEP_MORE;
  scanner->state = TPS_SCAN_NEXT;
  return TPS_STEP_OK;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/frame/message.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/growing_array.h"
#include "runtime/base/magazine.h"

/* Messages are created and freed with every call, so they are kept for reuse with their arrays,
 * unless these are large. */
#define MAX_KEPT_HEAD_BYTES 16384
#define FIRST_BODIES 4 /* most calls have fewer */
#define MAX_KEPT_BODIES 64
#define MAX_KEPT_HEADER_BYTES 1024
#define FIRST_NAME_BYTES 64
#define MAX_CHARGE_STEP_BYTES ((gsize) 64 << 10)

static void release (gpointer data);

static TpsDepot depot = TPS_DEPOT_INIT (release);
static _Thread_local TpsMagazine magazine;

static void
release (gpointer data)
{
  TpsMessage *message = data;

  g_byte_array_unref (message->head);
  g_free (message->bodies);
  g_free (message->name_memory);
  g_free (message->headers);
  g_free (message);
}

/* Charges in steps. A message of many small parts then rarely touches the budget, which all threads
 * share. */
gboolean
tps_message_charge (TpsMessage *message, gsize n_bytes, GError **error)
{
  gsize n_held;

  if (!g_size_checked_add (&n_held, message->n_bytes_held, n_bytes)
      || n_held > G_MAXSIZE - MAX_CHARGE_STEP_BYTES)
    return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                     "a message is larger than the address space");
  if (n_held > message->n_bytes_free + message->charge.n_bytes
      && !tps_charge_set (&message->charge,
                          n_held + MIN (n_held / 2, MAX_CHARGE_STEP_BYTES) - message->n_bytes_free,
                          error))
    return FALSE;
  message->n_bytes_held = n_held;
  return TRUE;
}

/* ---- bodies --------------------------------------------------------------------------------- */

static gboolean
make_room_for_body (TpsMessage *message, GError **error)
{
  gpointer bodies = message->bodies;
  gsize n_bytes = message->n_bodies_room * sizeof (TpsBody); /* the room is doubled */

  if (!tps_message_charge (message, n_bytes, error)
      || !tps_growing_array_make_room (&bodies, &message->n_bodies_room, message->n_bodies + 1,
                                       sizeof (TpsBody), error))
    return FALSE;
  message->bodies = bodies;
  return TRUE;
}

gboolean
tps_message_add_body (TpsMessage *message, const TpsBody *body, GError **error)
{
  if (G_UNLIKELY (message->n_bodies == message->n_bodies_room)
      && !make_room_for_body (message, error))
    return FALSE;
  message->bodies[message->n_bodies++] = *body;
  return TRUE;
}

void
tps_message_drop_bodies (TpsMessage *message)
{
  for (guint i = 0; i < message->n_bodies; i++)
    tps_buffer_unref (message->bodies[i].buffer);
  message->n_bodies = 0;
}

/* ---- creation ------------------------------------------------------------------------------- */

TpsMessage *
tps_message_new (void)
{
  TpsMessage *message = tps_magazine_take (&magazine, &depot);

  if (message == NULL)
    {
      message = g_new0 (TpsMessage, 1);
      message->head = g_byte_array_new ();
      message->bodies = g_new (TpsBody, FIRST_BODIES);
      message->n_bodies_room = FIRST_BODIES;
      return message;
    }
  message->kind = (TpsMessageKind) 0;
  message->protocol = (TpsProtocolKind) 0;
  message->framed = FALSE;
  message->transferred = FALSE;
  message->has_header = FALSE;
  message->seqid = 0;
  message->name = NULL;
  message->n_bytes_bodies = 0;
  message->n_bytes_refused = 0;
  message->n_bytes_dropped = 0;
  message->has_secret = FALSE;
  message->received_ns = 0;
  return message;
}

/* Headers may contain tokens, which must not remain in freed memory. */
static void
forget_headers (TpsMessage *message)
{
  if (G_LIKELY (message->n_header_bytes == 0))
    return;
  explicit_bzero (message->headers, message->n_header_bytes);
  message->n_header_bytes = 0;
  message->n_headers = 0;
}

void
tps_message_free (TpsMessage *message)
{
  gboolean is_large;

  if (message == NULL)
    return;
  message->n_bytes_held = 0;
  message->n_bytes_head = 0;
  message->n_bytes_free = 0;
  tps_charge_clear (&message->charge);
  g_clear_pointer (&message->charge.budget, tps_budget_unref);
  forget_headers (message);
  if (G_UNLIKELY (message->has_secret))
    explicit_bzero (message->head->data, message->head->len);
  g_clear_pointer (&message->context, g_hash_table_unref);
  g_clear_pointer (&message->sharing, tps_sharing_unref);
  is_large = message->head->len > MAX_KEPT_HEAD_BYTES || message->n_bodies_room > MAX_KEPT_BODIES
             || message->n_name_memory > TPS_MESSAGE_MAX_NAME + 1
             || message->n_headers_memory > MAX_KEPT_HEADER_BYTES;
  tps_message_drop_bodies (message);
  if (is_large)
    {
      release (message);
      return;
    }
  g_byte_array_set_size (message->head, 0);
  tps_magazine_put (&magazine, &depot, message);
}

gchar *
tps_message_reserve_name (TpsMessage *message, gsize n_bytes)
{
  if (n_bytes >= message->n_name_memory)
    {
      message->n_name_memory = MAX (n_bytes + 1, FIRST_NAME_BYTES);
      message->name_memory = g_realloc (message->name_memory, message->n_name_memory);
    }
  message->name = message->name_memory;
  return message->name;
}

void
tps_message_set_name (TpsMessage *message, const gchar *name)
{
  gsize n_bytes = strlen (name);

  memcpy (tps_message_reserve_name (message, n_bytes), name, n_bytes + 1);
}

TpsMessage *
tps_message_new_like (const TpsMessage *message)
{
  TpsMessage *copy = tps_message_new ();

  copy->kind = message->kind;
  copy->protocol = message->protocol;
  copy->framed = message->framed;
  copy->transferred = message->transferred;
  copy->has_header = message->has_header;
  copy->header_seqid = message->header_seqid;
  copy->seqid = message->seqid;
  tps_message_set_name (copy, message->name);
  if (message->context != NULL)
    copy->context = g_hash_table_ref (message->context);
  if (message->n_headers > 0)
    {
      memcpy (tps_message_reserve_headers (copy, message->n_header_bytes), message->headers,
              message->n_header_bytes);
      copy->n_headers = message->n_headers;
    }
  return copy;
}

/* ---- headers -------------------------------------------------------------------------------- */

gchar *
tps_message_reserve_headers (TpsMessage *message, gsize n_bytes)
{
  forget_headers (message);
  message->n_header_bytes = n_bytes;
  if (n_bytes > message->n_headers_memory)
    {
      g_free (message->headers);
      message->headers = g_malloc (n_bytes);
      message->n_headers_memory = n_bytes;
    }
  return message->headers;
}

static const gchar *
find_header (const TpsMessage *message, const gchar *name)
{
  const gchar *key = message->headers;

  for (guint i = 0; i < message->n_headers; i++)
    {
      const gchar *value = key + strlen (key) + 1;

      if (strcmp (key, name) == 0)
        return value;
      key = value + strlen (value) + 1;
    }
  return message->context != NULL ? g_hash_table_lookup (message->context, name) : NULL;
}

const gchar *
tps_message_get_header (const TpsMessage *message, const gchar *name)
{
  if (G_LIKELY (message->n_headers == 0 && message->context == NULL))
    return NULL;
  return find_header (message, name);
}

/* Minimum size of a value by type; 0 = no such type. */
static const guint8 min_bytes[16] = {
  [TPS_WIRE_BOOL] = 1, [TPS_WIRE_BYTE] = 1, [TPS_WIRE_DOUBLE] = 8, [TPS_WIRE_I16] = 2,
  [TPS_WIRE_I32] = 4,  [TPS_WIRE_I64] = 8,  [TPS_WIRE_BINARY] = 4, [TPS_WIRE_STRUCT] = 1,
  [TPS_WIRE_MAP] = 6,  [TPS_WIRE_SET] = 5,  [TPS_WIRE_LIST] = 5,
};

void
tps_reader_init (TpsReader *in, const TpsMessage *message)
{
  in->message = message;
  in->position = 0;
  in->next_body = 0;
  in->bad = FALSE;
  in->copies_shared = FALSE;
}

/* The charge is not part of the reader's logical state, hence the cast. */
gboolean
tps_reader_charge (TpsReader *in, gsize n_bytes, GError **error)
{
  return tps_message_charge ((TpsMessage *) (guintptr) in->message, n_bytes, error);
}

static gsize
n_bytes_left (const TpsReader *in)
{
  return in->message->head->len - in->position;
}

/* Returns the next `n_bytes` of the head. If there are fewer, marks the reader as bad and returns
 * NULL. */
static const guint8 *
take (TpsReader *in, gsize n_bytes)
{
  const guint8 *bytes;

  if (in->bad || n_bytes > n_bytes_left (in))
    {
      in->bad = TRUE;
      return NULL;
    }
  bytes = in->message->head->data + in->position;
  in->position += n_bytes;
  return bytes;
}

/* Reads a big-endian number of `n_bytes`; 0 if the reader is bad. */
static guint64
take_number (TpsReader *in, guint n_bytes)
{
  const guint8 *bytes = take (in, n_bytes);
  guint64 value = 0;

  if (bytes == NULL)
    return 0;
  for (guint i = 0; i < n_bytes; i++)
    value = value << 8 | bytes[i];
  return value;
}

void
tps_reader_struct_begin (TpsReader *in)
{
}

gboolean
tps_reader_field (TpsReader *in, gint16 *id, TpsWireType *type)
{
  guint8 byte = (guint8) take_number (in, 1);

  *type = (TpsWireType) byte;
  *id = 0;
  if (in->bad || byte == TPS_WIRE_STOP)
    return FALSE;
  in->bad = byte >= 16 || min_bytes[byte] == 0;
  *id = (gint16) take_number (in, 2);
  return !in->bad;
}

void
tps_reader_struct_end (TpsReader *in)
{
}

gboolean
tps_reader_bool (TpsReader *in)
{
  return take_number (in, 1) != 0;
}

gint8
tps_reader_byte (TpsReader *in)
{
  return (gint8) take_number (in, 1);
}

gint16
tps_reader_i16 (TpsReader *in)
{
  return (gint16) take_number (in, 2);
}

gint32
tps_reader_i32 (TpsReader *in)
{
  return (gint32) take_number (in, 4);
}

gint64
tps_reader_i64 (TpsReader *in)
{
  return (gint64) take_number (in, 8);
}

gdouble
tps_reader_double (TpsReader *in)
{
  guint64 bits = take_number (in, 8);
  gdouble value;

  memcpy (&value, &bits, sizeof value);
  return value;
}

/* Returns the body whose bytes would be at this position; NULL = none. */
static const TpsBody *
take_body (TpsReader *in)
{
  const TpsBody *body = in->message->bodies + in->next_body;

  if (in->next_body >= in->message->n_bodies)
    return NULL;
  if (body->head_offset != in->position)
    return NULL;
  in->next_body++;
  return body;
}

TpsBytesView
tps_reader_binary (TpsReader *in)
{
  TpsBytesView view = { .n_bytes = take_number (in, 4) };
  const TpsBody *body;

  if (view.n_bytes == TPS_MESSAGE_LONG_LENGTH)
    view.n_bytes = take_number (in, 8);
  body = in->bad ? NULL : take_body (in);
  if (body == NULL && in->message->n_bytes_refused > 0
      && view.n_bytes >= TPS_MESSAGE_BODY_THRESHOLD)
    in->bad = TRUE;
  else if (body == NULL)
    view.data = take (in, view.n_bytes);
  else if (body->n_bytes != view.n_bytes)
    in->bad = TRUE;
  else
    {
      view.buffer = body->buffer;
      view.data = tps_buffer_get_data (body->buffer);
    }
  return in->bad ? (TpsBytesView) { 0 } : view;
}

/* Reads a number of elements. If the rest of the message cannot contain that many, marks the reader
 * as bad. */
static guint32
take_count (TpsReader *in, gsize n_bytes_each)
{
  guint64 n_elems = take_number (in, 4);

  if (n_elems * n_bytes_each > n_bytes_left (in) || (n_bytes_each == 0 && n_elems > 0))
    in->bad = TRUE;
  return in->bad ? 0 : (guint32) n_elems;
}

static TpsWireType
take_type (TpsReader *in)
{
  guint8 type = (guint8) take_number (in, 1);

  if (type >= 16 || (type != TPS_WIRE_STOP && min_bytes[type] == 0))
    in->bad = TRUE;
  return in->bad ? TPS_WIRE_STOP : (TpsWireType) type;
}

void
tps_reader_list_begin (TpsReader *in, TpsWireType *type, guint32 *n_elems)
{
  *type = take_type (in);
  *n_elems = take_count (in, min_bytes[*type]);
}

void
tps_reader_map_begin (TpsReader *in, TpsWireType *key_type, TpsWireType *value_type,
                      guint32 *n_elems)
{
  *key_type = take_type (in);
  *value_type = take_type (in);
  *n_elems = take_count (in, min_bytes[*key_type] == 0 || min_bytes[*value_type] == 0
                                 ? 0
                                 : min_bytes[*key_type] + min_bytes[*value_type]);
}

/* An open container while tps_reader_skip() skips a value. */
typedef struct
{
  gboolean is_struct;
  TpsWireType types[2]; /* as in TpsScanLevel */
  guint64 n_left;
} SkipLevel;

static gboolean
skip_begin (TpsReader *in, TpsWireType type, SkipLevel *level)
{
  guint32 n_elems;

  level->is_struct = type == TPS_WIRE_STRUCT;
  switch (type)
    {
    case TPS_WIRE_STRUCT:
      return TRUE;
    case TPS_WIRE_LIST:
    case TPS_WIRE_SET:
      tps_reader_list_begin (in, &level->types[0], &n_elems);
      level->types[1] = level->types[0];
      level->n_left = n_elems;
      return TRUE;
    case TPS_WIRE_MAP:
      tps_reader_map_begin (in, &level->types[0], &level->types[1], &n_elems);
      level->n_left = 2 * (guint64) n_elems;
      return TRUE;
    case TPS_WIRE_BINARY:
      tps_reader_binary (in);
      return FALSE;
    default:
      if (type >= 16 || min_bytes[type] == 0)
        in->bad = TRUE;
      else
        take (in, min_bytes[type]);
      return FALSE;
    }
}

/* Returns the type of the next value in the level; STOP at the end of the level. */
static TpsWireType
skip_next (TpsReader *in, SkipLevel *level)
{
  TpsWireType type;
  gint16 id;

  if (level->is_struct)
    return tps_reader_field (in, &id, &type) ? type : TPS_WIRE_STOP;
  if (level->n_left == 0)
    return TPS_WIRE_STOP;
  return level->types[level->n_left-- & 1];
}

void
tps_reader_skip (TpsReader *in, TpsWireType type)
{
  SkipLevel levels[TPS_MESSAGE_MAX_DEPTH + 1];
  guint depth = skip_begin (in, type, &levels[0]) ? 1 : 0;

  while (depth > 0 && !in->bad)
    {
      TpsWireType next = skip_next (in, &levels[depth - 1]);

      if (next == TPS_WIRE_STOP)
        depth--;
      else if (skip_begin (in, next, &levels[depth]))
        depth++;
      if (depth > TPS_MESSAGE_MAX_DEPTH)
        in->bad = TRUE;
    }
}

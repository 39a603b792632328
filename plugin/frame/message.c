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

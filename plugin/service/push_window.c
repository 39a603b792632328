/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/push_window.h"

#include <string.h>

#include "runtime/error.h"

typedef struct
{
  gint64 sequence;
  gint64 answer;
  gchar *request;
} Push;

typedef struct
{
  gchar *name;
  GList link; /* in `recent` */
  gint64 newest;
  GHashTable *pushes; /* Push.sequence to Push */
} Client;

struct TpsPushWindow
{
  GHashTable *clients;
  GQueue recent; /* of Client, the one least recently heard of first */
  guint n_remembered;
};

static void
free_push (gpointer data)
{
  Push *push = data;

  g_free (push->request);
  g_free (push);
}

static void
free_client (gpointer data)
{
  Client *client = data;

  g_hash_table_unref (client->pushes);
  g_free (client->name);
  g_free (client);
}

TpsPushWindow *
tps_push_window_new (void)
{
  TpsPushWindow *window = g_new0 (TpsPushWindow, 1);

  window->clients = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, free_client);
  g_queue_init (&window->recent);
  return window;
}

void
tps_push_window_free (TpsPushWindow *window)
{
  g_hash_table_unref (window->clients);
  g_free (window);
}

/* Unsigned, so that no distance overflows. */
static gboolean
is_below_window (const Client *client, gint64 sequence)
{
  return sequence < client->newest
         && (guint64) client->newest - (guint64) sequence >= TPS_PUSH_WINDOW;
}

TpsPushVerdict
tps_push_window_check (TpsPushWindow *window, const gchar *name, gint64 sequence,
                       const gchar *request, gint64 *answer, GError **error)
{
  Client *client = g_hash_table_lookup (window->clients, name);
  const Push *push = client != NULL ? g_hash_table_lookup (client->pushes, &sequence) : NULL;

  if (push != NULL && strcmp (push->request, request) == 0)
    {
      *answer = push->answer;
      return TPS_PUSH_REPEAT;
    }
  if (push != NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_DUPLICATE,
                   "push %" G_GINT64_FORMAT " of client %s was used for another request", sequence,
                   name);
      return TPS_PUSH_REFUSED;
    }
  if (client != NULL && is_below_window (client, sequence))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_STALE,
                   "push %" G_GINT64_FORMAT " of client %s: only the %d up to %" G_GINT64_FORMAT
                   " are remembered",
                   sequence, name, TPS_PUSH_WINDOW, client->newest);
      return TPS_PUSH_REFUSED;
    }
  return TPS_PUSH_NEW;
}

static void
drop_client (TpsPushWindow *window, Client *client)
{
  window->n_remembered -= g_hash_table_size (client->pushes);
  g_queue_unlink (&window->recent, &client->link);
  g_hash_table_remove (window->clients, client->name);
}

static void
touch_client (TpsPushWindow *window, Client *client)
{
  g_queue_unlink (&window->recent, &client->link);
  g_queue_push_tail_link (&window->recent, &client->link);
}

static Client *
add_client (TpsPushWindow *window, const gchar *name, gint64 newest)
{
  Client *client = g_new0 (Client, 1);

  client->name = g_strdup (name);
  client->link.data = client;
  client->newest = newest;
  client->pushes = g_hash_table_new_full (g_int64_hash, g_int64_equal, NULL, free_push);
  g_hash_table_insert (window->clients, client->name, client);
  g_queue_push_tail_link (&window->recent, &client->link);
  return client;
}

static gboolean
has_fallen_out (gpointer key, gpointer value, gpointer client)
{
  return is_below_window (client, *(gint64 *) key);
}

static void
move_window (TpsPushWindow *window, Client *client, gint64 newest)
{
  client->newest = newest;
  /* Only now and then: twice the window may be remembered. */
  if (g_hash_table_size (client->pushes) >= 2 * TPS_PUSH_WINDOW)
    window->n_remembered -= g_hash_table_foreach_remove (client->pushes, has_fallen_out, client);
}

void
tps_push_window_remember (TpsPushWindow *window, const gchar *name, gint64 sequence,
                          const gchar *request, gint64 answer)
{
  Client *client = g_hash_table_lookup (window->clients, name);
  Push *push = g_new (Push, 1);

  if (client == NULL)
    client = add_client (window, name, sequence);
  touch_client (window, client);
  push->sequence = sequence;
  push->answer = answer;
  push->request = g_strdup (request);
  g_hash_table_insert (client->pushes, &push->sequence, push);
  window->n_remembered++;
  if (sequence > client->newest)
    move_window (window, client, sequence);
  while (g_hash_table_size (window->clients) > TPS_PUSH_MAX_CLIENTS
         || (window->n_remembered > TPS_PUSH_MAX_REMEMBERED
             && g_queue_get_length (&window->recent) > 1))
    drop_client (window, window->recent.head->data);
}

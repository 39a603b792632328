/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_window.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* A push that was applied. Millions of these may be remembered: nothing in them that only running ones need. */
typedef struct
{
  gint64 sequence;
  gint64 answer;
  TpsPushDigest digest;
} Push;

typedef struct
{
  TpsPushEnded ended;
  gpointer user_data;
  TpsPushDigest digest;
} Waiter;

/* A push that is being applied. */
typedef struct
{
  gint64 sequence;
  gboolean has_digest;
  TpsPushDigest digest;
  GArray *waiters; /* of Waiter; NULL = nobody waits */
} Running;

typedef struct
{
  gchar *name;
  GList link;      /* in `recent` */
  GArray *pushes;  /* of Push, ascending; its last one is the newest */
  GArray *running; /* of Running; a client has few at a time */
} Client;

struct TpsPushWindow
{
  TpsPushWindowOptions options;
  TpsMutex lock;       /* guards everything below; nobody is called back with it held */
  GHashTable *clients; /* by name */
  GQueue recent;       /* of Client, the one least recently heard of first */
  gsize n_remembered;
};

/* ---- clients -------------------------------------------------------------------------------- */

static void
free_client (gpointer data)
{
  Client *client = data;

  g_array_unref (client->pushes);
  g_array_unref (client->running);
  g_free (client->name);
  g_free (client);
}

static Client *
add_client (TpsPushWindow *window, const gchar *name)
{
  Client *client = g_new0 (Client, 1);

  client->name = g_strdup (name);
  client->link.data = client;
  client->pushes = g_array_new (FALSE, FALSE, sizeof (Push));
  client->running = g_array_new (FALSE, FALSE, sizeof (Running));
  g_hash_table_insert (window->clients, client->name, client);
  g_queue_push_tail_link (&window->recent, &client->link);
  return client;
}

static void
touch_client (TpsPushWindow *window, Client *client)
{
  g_queue_unlink (&window->recent, &client->link);
  g_queue_push_tail_link (&window->recent, &client->link);
}

static void
drop_client (TpsPushWindow *window, Client *client)
{
  window->n_remembered -= client->pushes->len;
  g_queue_unlink (&window->recent, &client->link);
  g_hash_table_remove (window->clients, client->name);
}

static gboolean
has_too_many (const TpsPushWindow *window)
{
  return window->recent.length > window->options.max_clients
         || window->n_remembered > window->options.max_remembered;
}

/* Drops clients until there are few enough; not `keep`, and none that runs. */
static void
make_room (TpsPushWindow *window, const Client *keep)
{
  GList *item = window->recent.head;

  while (item != NULL && has_too_many (window))
    {
      Client *client = item->data;

      item = item->next;
      if (client != keep && client->running->len == 0)
        drop_client (window, client);
    }
}

/* ---- pushes of one client ------------------------------------------------------------------- */

static Push *
get_push (const Client *client, guint i)
{
  return &g_array_index (client->pushes, Push, i);
}

/* Where a push of this sequence stands or would stand. */
static guint
find_place (const Client *client, gint64 sequence)
{
  guint begin = 0;
  guint end = client->pushes->len;

  if (end > 0 && get_push (client, end - 1)->sequence < sequence)
    return end; /* clients count up */
  while (begin < end)
    {
      guint middle = begin + (end - begin) / 2;

      if (get_push (client, middle)->sequence < sequence)
        begin = middle + 1;
      else
        end = middle;
    }
  return begin;
}

static const Push *
find_push (const Client *client, gint64 sequence)
{
  guint place = find_place (client, sequence);

  if (place == client->pushes->len || get_push (client, place)->sequence != sequence)
    return NULL;
  return get_push (client, place);
}

static Running *
find_running (const Client *client, gint64 sequence)
{
  for (guint i = 0; i < client->running->len; i++)
    {
      Running *running = &g_array_index (client->running, Running, i);

      if (running->sequence == sequence)
        return running;
    }
  return NULL;
}

/* Unsigned, so that no distance overflows. */
static gboolean
is_below_window (const TpsPushWindow *window, const Client *client, gint64 sequence)
{
  gint64 newest;

  if (client->pushes->len == 0)
    return FALSE;
  newest = get_push (client, client->pushes->len - 1)->sequence;
  return sequence < newest && (guint64) newest - (guint64) sequence >= window->options.window;
}

/* Drops what lies below the window, when it is worth moving the rest. */
static void
forget_old (TpsPushWindow *window, Client *client)
{
  gint64 newest = get_push (client, client->pushes->len - 1)->sequence;
  guint64 reach = window->options.window - 1;
  gint64 oldest = (guint64) newest - (guint64) G_MININT64 < reach
                      ? G_MININT64
                      : (gint64) ((guint64) newest - reach);
  guint n_old = find_place (client, oldest);

  if (n_old < 16 || n_old < client->pushes->len / 4)
    return;
  g_array_remove_range (client->pushes, 0, n_old);
  window->n_remembered -= n_old;
}

static void
remember (TpsPushWindow *window, Client *client, const Running *running, gint64 answer)
{
  Push push = { running->sequence, answer, running->digest };

  if (is_below_window (window, client, running->sequence))
    return;
  g_array_insert_val (client->pushes, find_place (client, push.sequence), push);
  window->n_remembered++;
  forget_old (window, client);
}

/* ---- verdicts ------------------------------------------------------------------------------- */

static GError *
new_duplicate_error (const gchar *client, gint64 sequence)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_DUPLICATE,
                      "push %" G_GINT64_FORMAT " of client %s was used for another request",
                      sequence, client);
}

static TpsPushVerdict
refuse_duplicate (const Client *client, gint64 sequence, GError **error)
{
  g_propagate_error (error, new_duplicate_error (client->name, sequence));
  return TPS_PUSH_REFUSED;
}

static TpsPushVerdict
refuse_stale (const TpsPushWindow *window, const Client *client, gint64 sequence, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_STALE,
               "push %" G_GINT64_FORMAT " of client %s: only the %u up to %" G_GINT64_FORMAT
               " are remembered",
               sequence, client->name, window->options.window,
               get_push (client, client->pushes->len - 1)->sequence);
  return TPS_PUSH_REFUSED;
}

static gboolean
is_same (const TpsPushDigest *a, const TpsPushDigest *b)
{
  return memcmp (a->bytes, b->bytes, sizeof a->bytes) == 0;
}

static TpsPushVerdict
judge (const TpsPushWindow *window, const Client *client, gint64 sequence,
       const TpsPushDigest *digest, gint64 *answer, GError **error)
{
  const Running *running = find_running (client, sequence);
  const Push *push;

  if (running != NULL && digest == NULL)
    return TPS_PUSH_UNDECIDED;
  if (running != NULL)
    return !running->has_digest || is_same (&running->digest, digest)
               ? TPS_PUSH_RUNNING
               : refuse_duplicate (client, sequence, error);
  if (is_below_window (window, client, sequence))
    return refuse_stale (window, client, sequence, error);
  push = find_push (client, sequence);
  if (push == NULL)
    return TPS_PUSH_NEW;
  if (digest == NULL)
    return TPS_PUSH_UNDECIDED;
  if (!is_same (&push->digest, digest))
    return refuse_duplicate (client, sequence, error);
  *answer = push->answer;
  return TPS_PUSH_REPEAT;
}

/* ---- operations ----------------------------------------------------------------------------- */

TpsPushWindow *
tps_push_window_new (const TpsPushWindowOptions *options)
{
  TpsPushWindow *window = g_new0 (TpsPushWindow, 1);

  if (options != NULL)
    window->options = *options;
  if (window->options.window == 0)
    window->options.window = TPS_PUSH_WINDOW;
  if (window->options.max_clients == 0)
    window->options.max_clients = TPS_PUSH_MAX_CLIENTS;
  if (window->options.max_remembered == 0)
    window->options.max_remembered = TPS_PUSH_MAX_REMEMBERED;
  tps_mutex_init (&window->lock);
  window->clients = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, free_client);
  g_queue_init (&window->recent);
  return window;
}

void
tps_push_window_free (TpsPushWindow *window)
{
  g_hash_table_unref (window->clients);
  tps_mutex_clear (&window->lock);
  g_free (window);
}

static void
begin_new (TpsPushWindow *window, Client *client, const gchar *name, gint64 sequence,
           const TpsPushDigest *digest)
{
  Running running = { .sequence = sequence, .has_digest = digest != NULL };

  if (digest != NULL)
    running.digest = *digest;
  if (client == NULL)
    client = add_client (window, name);
  g_array_append_val (client->running, running);
  make_room (window, client);
}

static void
add_waiter (Running *running, const TpsPushDigest *digest, TpsPushEnded ended, gpointer user_data)
{
  Waiter waiter = { ended, user_data, *digest };

  if (running->waiters == NULL)
    running->waiters = g_array_new (FALSE, FALSE, sizeof (Waiter));
  g_array_append_val (running->waiters, waiter);
}

TpsPushVerdict
tps_push_window_begin (TpsPushWindow *window, const gchar *client, gint64 sequence,
                       const TpsPushDigest *digest, TpsPushEnded ended, gpointer user_data,
                       gint64 *answer, GError **error)
{
  TpsPushVerdict verdict = TPS_PUSH_NEW;
  Client *known;

  tps_mutex_lock (&window->lock);
  known = g_hash_table_lookup (window->clients, client);
  if (known != NULL)
    {
      touch_client (window, known);
      verdict = judge (window, known, sequence, digest, answer, error);
    }
  if (verdict == TPS_PUSH_NEW)
    begin_new (window, known, client, sequence, digest);
  else if (verdict == TPS_PUSH_RUNNING)
    add_waiter (find_running (known, sequence), digest, ended, user_data);
  tps_mutex_unlock (&window->lock);
  return verdict;
}

void
tps_push_window_set_digest (TpsPushWindow *window, const gchar *client, gint64 sequence,
                            const TpsPushDigest *digest)
{
  Running *running;

  tps_mutex_lock (&window->lock);
  running = find_running (g_hash_table_lookup (window->clients, client), sequence);
  running->has_digest = TRUE;
  running->digest = *digest;
  tps_mutex_unlock (&window->lock);
}

static Running
take_running (Client *client, gint64 sequence)
{
  Running *running = find_running (client, sequence);
  Running taken = *running;

  g_array_remove_index_fast (client->running,
                             (guint) (running - &g_array_index (client->running, Running, 0)));
  return taken;
}

/* Those that wait for what they take for themselves. */
static void
tell_waiters (const Running *running, const gchar *client, gint64 answer, const GError *error)
{
  for (guint i = 0; i < running->waiters->len; i++)
    {
      const Waiter *waiter = &g_array_index (running->waiters, Waiter, i);
      g_autoptr (GError) other = NULL;

      if (error == NULL && !is_same (&waiter->digest, &running->digest))
        other = new_duplicate_error (client, running->sequence);
      waiter->ended (waiter->user_data, answer, error != NULL ? error : other);
    }
  g_array_unref (running->waiters);
}

void
tps_push_window_end (TpsPushWindow *window, const gchar *client, gint64 sequence, gint64 answer,
                     const GError *error)
{
  Running running;
  Client *known;

  tps_mutex_lock (&window->lock);
  known = g_hash_table_lookup (window->clients, client);
  running = take_running (known, sequence);
  if (error == NULL)
    {
      remember (window, known, &running, answer);
      make_room (window, known);
    }
  else if (known->pushes->len == 0 && known->running->len == 0)
    drop_client (window, known); /* it has done nothing yet */
  tps_mutex_unlock (&window->lock);
  if (running.waiters != NULL)
    tell_waiters (&running, client, answer, error);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_window.h"

#include <string.h>

#include "runtime/server/push_digest.h"
#include "runtime/server/push_floor.h"
#include "runtime/server/push_running.h"
#include "runtime/base/durability.h"
#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/slab.h"
#include "runtime/base/sync.h"

/* A push that was applied. Millions of these may be remembered, so fields that only running pushes
 * need are in TpsRunningPush. */
typedef struct
{
  gint64 sequence;
  gint64 answer;
  gint64 lsn;
  TpsPushDigest digest;
} TpsRememberedPush;

#define TPS_PUSH_FEW 8         /* remembered pushes in the struct of a client */
#define TPS_PUSH_SHORT_NAME 40 /* bytes, including the terminator */

/* A client with a window, in a slab. Most clients need no memory outside this struct, because their
 * names are short and they have few pushes. */
typedef struct
{
  gchar *name; /* `short_name`, or allocated */
  TpsPushShare *share;
  GList link;        /* in share->recent, if no push is running */
  GList export_link; /* in sides[side] */
  TpsExportSide side;
  TpsRememberedPush *pushes; /* [n_pushes], by ascending sequence */
  guint n_pushes, capacity;  /* of `pushes`, which is `few` or allocated */
  TpsRunningPushes running;
  TpsPushFloor floor; /* covers the forgotten pushes */
  gint64 last_lsn;    /* the highest LSN of all applied pushes */
  gint64 heard_ns;    /* the time of the last request */
  gsize n_bytes;      /* the charge; TPS_PUSH_FLOOR_BYTES of it are for a later floor */
  gchar short_name[TPS_PUSH_SHORT_NAME];
  TpsRememberedPush few[TPS_PUSH_FEW];
} TpsPushClient;

struct TpsPushWindow
{
  TpsPushWindowOptions options;
  TpsMutex lock;       /* guards everything below; must not be held during callbacks */
  GHashTable *clients; /* by name */
  GHashTable *shares;  /* of TpsPushShare, by tenant; "" = no tenant */
  GQueue sides[2];     /* of TpsPushClient */
  TpsSlab records;     /* of TpsPushClient */
  TpsPushFloors *floors;
  gsize n_remembered;
  gint64 ahead_ns;    /* of the clock in the options: the time that has passed in the replay */
  gint64 replayed_ms; /* the time of the newest command of the replay; 0 = none */
};

/* An estimate of the memory for the entry of the hash table, for the headers of allocated blocks,
 * and for running pushes after the first one. */
#define CLIENT_OVERHEAD_BYTES 64

/* The number of clients that a tenant may have even if the clients of all tenants reach the limit
 * of their sum; less in a small window. */
#define MIN_MEMBERS ((gsize) 256)

#define NS_PER_MS ((gint64) 1000000)

/* The format is little-endian, and records are copied to and from memory as they are. */
G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);

#define WINDOW_RECORD 3
#define FLOOR_RECORD 4

/* The beginning of every record. */
typedef struct
{
  guint32 kind;
  guint32 n_bytes; /* of the whole record; a multiple of 8 */
} Head;

typedef struct
{
  guint64 is_set;
  gint64 sequence, lsn;
} Stair;

/* The record of a window. The name of the client and the tenant follow, each padded with zeros to a
 * multiple of 8 bytes, and then the pushes, as TpsRememberedPush. */
typedef struct
{
  Head head;
  guint32 n_name;
  guint32 n_tenant; /* 0 = no tenant */
  guint64 n_pushes;
  gint64 idle_ns;
  gint64 last_lsn;
  Stair now, earlier;
} WindowRecord;

/* The record of a floor. The tenant follows, as above. */
typedef struct
{
  Head head;
  guint64 n_tenant;
  guint8 name[16];
  gint64 idle_ns;
  Stair now, earlier;
} FloorRecord;

G_STATIC_ASSERT (sizeof (TpsRememberedPush) == 40);
G_STATIC_ASSERT (sizeof (WindowRecord) == 88);
G_STATIC_ASSERT (sizeof (FloorRecord) == 88);

/* Returns the time by the clock of the window. The lock must be held. */
static gint64
get_now (const TpsPushWindow *window)
{
  return window->options.get_now_ns () + window->ahead_ns;
}

static gboolean
charge (TpsPushWindow *window, TpsPushClient *client, gsize n_bytes, GError **error)
{
  if (!tps_budget_charge (window->options.budget, n_bytes, error))
    return FALSE;
  client->n_bytes += n_bytes;
  client->share->n_bytes += n_bytes;
  return TRUE;
}

static void
release (TpsPushWindow *window, TpsPushClient *client, gsize n_bytes)
{
  client->n_bytes -= n_bytes;
  client->share->n_bytes -= n_bytes;
  tps_budget_release (window->options.budget, n_bytes);
}

static void
free_client (TpsPushWindow *window, TpsPushClient *client)
{
  release (window, client, client->n_bytes);
  if (client->pushes != client->few)
    g_free (client->pushes);
  if (client->name != client->short_name)
    g_free (client->name);
  tps_slab_give (&window->records, client);
}

/* Removes the window of a client, which is a member of its share afterwards only if it has a
 * floor. */
static void
drop_window (TpsPushWindow *window, TpsPushClient *client)
{
  window->n_remembered -= client->n_pushes;
  g_queue_unlink (&client->share->recent, &client->link);
  g_queue_unlink (&window->sides[client->side], &client->export_link);
  g_hash_table_remove (window->clients, client->name);
  free_client (window, client);
}

static void
forget_client (TpsPushWindow *window, TpsPushClient *client)
{
  client->share->n_clients--;
  drop_window (window, client);
}

static void
touch_client (TpsPushWindow *window, TpsPushClient *client)
{
  client->heard_ns = get_now (window);
  if (client->running.n > 0)
    return;
  g_queue_unlink (&client->share->recent, &client->link);
  g_queue_push_tail_link (&client->share->recent, &client->link);
}

static void
begin_running (TpsPushClient *client, const TpsRunningPush *push)
{
  tps_running_pushes_add (&client->running, push);
  if (client->running.n == 1)
    g_queue_unlink (&client->share->recent, &client->link);
}

static TpsRunningPush
end_running (TpsPushWindow *window, TpsPushClient *client, gint64 sequence)
{
  TpsRunningPush push = tps_running_pushes_take (&client->running, sequence);

  client->heard_ns = get_now (window);
  if (client->running.n == 0)
    g_queue_push_tail_link (&client->share->recent, &client->link);
  return push;
}

static void
free_share (gpointer data)
{
  TpsPushShare *share = data;

  g_free (share->tenant);
  g_free (share);
}

/* Returns the share of a tenant; NULL = of callers without a tenant. The lock must be held. */
static TpsPushShare *
find_share (TpsPushWindow *window, const gchar *tenant)
{
  const gchar *key = tenant != NULL ? tenant : "";
  TpsPushShare *share = g_hash_table_lookup (window->shares, key);

  if (share == NULL)
    {
      share = g_new0 (TpsPushShare, 1);
      share->tenant = g_strdup (tenant);
      g_queue_init (&share->recent);
      g_hash_table_insert (window->shares,
                           share->tenant != NULL ? share->tenant : (gpointer) (guintptr) "", share);
    }
  return share;
}

/* Returns the limit of the clients of callers without a tenant. */
static gsize
get_max_clients (const TpsPushWindow *window)
{
  gsize n_bytes = window->options.budget != NULL ? tps_budget_get_max (window->options.budget)
                                                 : G_MAXSIZE;

  return MIN ((gsize) window->options.max_clients + window->options.max_floors,
              n_bytes / 2 / TPS_PUSH_FLOOR_BYTES);
}

/* Returns the limit of the clients of a share. */
static gsize
get_max_members (const TpsPushWindow *window, const TpsPushShare *share)
{
  gsize n = get_max_clients (window);

  return share->tenant == NULL ? n : MAX (n / TPS_PUSH_TENANTS, 1);
}

/* Returns the limit of the clients of all shares, which leaves a quarter of the budget to
 * windows. */
static gsize
get_max_sum (const TpsPushWindow *window)
{
  return get_max_clients (window) * 3 / 2;
}

static guint
count_clients (const TpsPushWindow *window)
{
  return g_hash_table_size (window->clients) + tps_push_floors_get_n (window->floors);
}

static gboolean
is_idle (const TpsPushClient *client, gint64 idle_ns, gint64 now_ns)
{
  return now_ns - client->heard_ns >= idle_ns;
}

/* Returns TRUE if the share has room for one more client. Forgets clients whose idle time has
 * passed. */
static gboolean
has_room_for_client (TpsPushWindow *window, TpsPushShare *share)
{
  gsize max_members = get_max_members (window, share);
  gint64 now_ns = get_now (window);

  tps_push_floors_expire (window->floors, now_ns);
  while (share->n_clients >= max_members && share->recent.head != NULL
         && is_idle (share->recent.head->data, window->options.floor_idle_ns, now_ns))
    forget_client (window, share->recent.head->data);
  return share->n_clients < max_members
         && (count_clients (window) < get_max_sum (window)
             || share->n_clients < MIN (MIN_MEMBERS, max_members / 8));
}

/* Forgets the oldest `n` pushes of the client, and raises its floor to cover them. */
static void
forget (TpsPushWindow *window, TpsPushClient *client, guint n)
{
  for (guint i = 0; i < n; i++)
    tps_push_floor_raise (&client->floor, client->pushes[i].sequence, client->pushes[i].lsn);
  client->n_pushes -= n;
  window->n_remembered -= n;
  memmove (client->pushes, client->pushes + n, client->n_pushes * sizeof client->pushes[0]);
}

/* Returns TRUE if a push of the client has been applied. */
static gboolean
is_needed (const TpsPushClient *client)
{
  return client->n_pushes > 0 || tps_push_floor_is_set (&client->floor);
}

/* Replaces the window of a client by a floor, which takes over a part of the window's charge. */
static void
shrink_to_floor (TpsPushWindow *window, TpsPushClient *client)
{
  gint64 now_ns = get_now (window);
  TpsHeldFloor held;

  if (!is_needed (client) || is_idle (client, window->options.floor_idle_ns, now_ns))
    {
      forget_client (window, client);
      return;
    }
  forget (window, client, client->n_pushes);
  held = (TpsHeldFloor) { client->floor, client->share, client->side };
  tps_push_floors_add (window->floors, client->name, &held, client->heard_ns);
  client->n_bytes -= TPS_PUSH_FLOOR_BYTES;
  client->share->n_bytes -= TPS_PUSH_FLOOR_BYTES;
  drop_window (window, client);
}

/* Returns the least recently used client of a share that is not `keep` and has no running push. */
static TpsPushClient *
find_idle (const TpsPushShare *share, const TpsPushClient *keep)
{
  GList *item = share->recent.head;

  if (item != NULL && item->data == keep)
    item = item->next;
  return item != NULL ? item->data : NULL;
}

/* Shrinks a window to a floor: of all tenants that have a window without a running push, that of
 * the tenant with the largest windows. Skips the window of `keep`. FALSE: there is no such
 * window. */
static gboolean
give_up_one (TpsPushWindow *window, const TpsPushClient *keep)
{
  TpsPushClient *victim = NULL;
  GHashTableIter shares;
  gpointer share;

  g_hash_table_iter_init (&shares, window->shares);
  while (g_hash_table_iter_next (&shares, NULL, &share))
    if (victim == NULL || ((TpsPushShare *) share)->n_bytes > victim->share->n_bytes)
      {
        TpsPushClient *client = find_idle (share, keep);

        victim = client != NULL ? client : victim;
      }
  if (victim == NULL)
    return FALSE;
  shrink_to_floor (window, victim);
  return TRUE;
}

/* Returns the index of the first push whose sequence is at least `sequence`, or n_pushes. */
static guint
find_place (const TpsPushClient *client, gint64 sequence)
{
  guint begin = 0;
  guint end = client->n_pushes;

  if (end > 0 && client->pushes[end - 1].sequence < sequence)
    return end; /* the usual case: clients send ascending sequences */
  while (begin < end)
    {
      guint middle = begin + (end - begin) / 2;

      if (client->pushes[middle].sequence < sequence)
        begin = middle + 1;
      else
        end = middle;
    }
  return begin;
}

static TpsRememberedPush *
find_push (const TpsPushClient *client, gint64 sequence)
{
  guint place = find_place (client, sequence);

  if (place == client->n_pushes || client->pushes[place].sequence != sequence)
    return NULL;
  return &client->pushes[place];
}

/* Returns TRUE if `sequence` is older than the window. The distance is computed with unsigned
 * numbers, because a signed difference could overflow. */
static gboolean
is_below_window (const TpsPushWindow *window, const TpsPushClient *client, gint64 sequence)
{
  gint64 newest;

  if (client->n_pushes == 0)
    return FALSE;
  newest = client->pushes[client->n_pushes - 1].sequence;
  return sequence < newest && (guint64) newest - (guint64) sequence >= window->options.window;
}

/* Returns the number of pushes below the window. */
static guint
count_old (const TpsPushWindow *window, const TpsPushClient *client)
{
  guint64 reach = window->options.window - 1;
  gint64 newest;

  if (client->n_pushes == 0)
    return 0;
  newest = client->pushes[client->n_pushes - 1].sequence;
  if ((guint64) newest - (guint64) G_MININT64 < reach)
    return 0;
  return find_place (client, (gint64) ((guint64) newest - reach));
}

/* Forgets pushes below the window if there are enough of them to justify moving the rest. */
static void
forget_old (TpsPushWindow *window, TpsPushClient *client)
{
  guint n_old = count_old (window, client);

  if (n_old >= 16 && n_old >= client->n_pushes / 4)
    forget (window, client, n_old);
}

/* Makes room for `n` pushes of the client in total. FALSE: there is no room. The lock must be
 * held. */
static gboolean
client_reserve (TpsPushWindow *window, TpsPushClient *client, guint n)
{
  guint capacity = client->capacity;
  gboolean is_first = client->pushes == client->few;
  TpsRememberedPush *pushes;
  gsize n_bytes;

  while (capacity < n)
    capacity *= 2;
  if (capacity == client->capacity)
    return TRUE;
  n_bytes = (capacity - (is_first ? 0 : client->capacity)) * sizeof (TpsRememberedPush);
  if (!charge (window, client, n_bytes, NULL))
    return FALSE;
  pushes = g_try_renew (TpsRememberedPush, is_first ? NULL : client->pushes, capacity);
  if (pushes == NULL)
    {
      release (window, client, n_bytes);
      return FALSE;
    }
  if (is_first)
    memcpy (pushes, client->few, client->n_pushes * sizeof client->few[0]);
  client->pushes = pushes;
  client->capacity = capacity;
  return TRUE;
}

/* Makes room for all remembered and running pushes, and for one more. Every running push thus has
 * room to be remembered. FALSE: there is no room. */
static gboolean
grow (TpsPushWindow *window, TpsPushClient *client)
{
  return client_reserve (window, client, client->n_pushes + client->running.n + 1);
}

static gboolean
has_too_many (const TpsPushWindow *window)
{
  return window->n_remembered >= window->options.max_remembered;
}

/* Makes room for one more push of the client. Shrinks the windows of other clients first, and then
 * forgets the older half of this client's pushes. Applies the limit of remembered pushes in the
 * same way. FALSE: the budget is full, and the client has no pushes to forget. */
static gboolean
make_room (TpsPushWindow *window, TpsPushClient *client)
{
  while (!grow (window, client))
    {
      if (give_up_one (window, client))
        continue;
      if (client->n_pushes == 0)
        return FALSE;
      forget (window, client, (client->n_pushes + 1) / 2);
    }
  if (has_too_many (window))
    forget (window, client, count_old (window, client));
  while (has_too_many (window) && give_up_one (window, client))
    ;
  if (has_too_many (window) && g_hash_table_size (window->clients) > 1)
    forget (window, client, (client->n_pushes + 1) / 2);
  return TRUE;
}

/* Begins the window anew, because all its pushes were applied before the object of the new push was
 * created. */
static void
start_again (TpsPushWindow *window, TpsPushClient *client)
{
  forget (window, client, client->n_pushes);
  tps_push_floor_begin_anew (&client->floor);
}

/* Remembers an applied push. grow() has made room for it. */
static void
remember (TpsPushWindow *window, TpsPushClient *client, const TpsRunningPush *running,
          gint64 answer, gint64 lsn)
{
  TpsRememberedPush push = { running->sequence, answer, lsn, running->digest };
  gint64 last_lsn = client->last_lsn;
  TpsRememberedPush *known;
  guint place;

  TPS_PLANT ("push-not-remembered", return );
  client->last_lsn = MAX (client->last_lsn, lsn);
  if (is_below_window (window, client, push.sequence))
    {
      if (running->incarnation <= last_lsn) /* the window moved on while the push was running */
        {
          tps_push_floor_raise (&client->floor, push.sequence, lsn);
          return;
        }
      start_again (window, client);
    }
  known = find_push (client, push.sequence);
  if (known != NULL)
    {
      *known = push;
      return;
    }
  place = find_place (client, push.sequence);
  memmove (client->pushes + place + 1, client->pushes + place,
           (client->n_pushes - place) * sizeof push);
  client->pushes[place] = push;
  client->n_pushes++;
  window->n_remembered++;
  forget_old (window, client);
}

static TpsPushVerdict
refuse_duplicate (const TpsPushRequest *request, GError **error)
{
  g_propagate_error (error, tps_push_new_duplicate_error (request->client, request->sequence));
  return TPS_PUSH_REFUSED;
}

static TpsPushVerdict
refuse_below_window (const TpsPushWindow *window, const TpsPushClient *client,
                     const TpsPushRequest *request, GError **error)
{
  TPS_PLANT ("old-push-taken-for-new", return TPS_PUSH_NEW);
  g_set_error (error, TPS_ERROR, TPS_ERROR_STALE,
               "push %" G_GINT64_FORMAT " of client %s is too old: the server remembers the newest "
               "%u pushes (--push-window), up to %" G_GINT64_FORMAT,
               request->sequence, request->client, window->options.window,
               client->pushes[client->n_pushes - 1].sequence);
  return TPS_PUSH_REFUSED;
}

/* Returns NEW if the floor does not cover the push. Otherwise, refuses the push as STALE. */
static TpsPushVerdict
judge_by_floor (const TpsPushFloor *floor, const TpsPushRequest *request, GError **error)
{
  const TpsPushStair *stair = tps_push_floor_find_above (floor, request->sequence,
                                                         request->incarnation);

  if (stair == NULL)
    return TPS_PUSH_NEW;
  g_set_error (error, TPS_ERROR, TPS_ERROR_STALE,
               "push %" G_GINT64_FORMAT " of client %s: pushes up to %" G_GINT64_FORMAT
               " are no longer remembered",
               request->sequence, request->client, stair->sequence);
  return TPS_PUSH_REFUSED;
}

static TpsPushVerdict
judge_running (const TpsRunningPush *running, const TpsPushRequest *request, GError **error)
{
  TPS_PLANT ("running-taken-for-applied", return TPS_PUSH_REPEAT);
  if (request->digest == NULL)
    return TPS_PUSH_UNDECIDED;
  if (running->has_digest && !tps_push_digest_is_same (&running->digest, request->digest))
    return refuse_duplicate (request, error);
  return TPS_PUSH_RUNNING;
}

/* Returns the verdict on a request whose push was applied to the same object. */
static TpsPushVerdict
judge_applied (const TpsRememberedPush *push, const TpsPushRequest *request, gint64 *answer,
               GError **error)
{
  if (request->digest == NULL)
    return TPS_PUSH_UNDECIDED;
  if (!tps_push_digest_is_same (&push->digest, request->digest))
    return refuse_duplicate (request, error);
  *answer = push->answer;
  return TPS_PUSH_REPEAT;
}

/* Returns the verdict on a push of a client with a window. A push below the window is NEW only if
 * its object was created after the last command of the client. */
static TpsPushVerdict
judge (const TpsPushWindow *window, TpsPushClient *client, const TpsPushRequest *request,
       gint64 *answer, GError **error)
{
  const TpsRunningPush *running = tps_running_pushes_find (&client->running, request->sequence);
  const TpsRememberedPush *push;

  if (running != NULL)
    return judge_running (running, request, error);
  if (is_below_window (window, client, request->sequence))
    return request->incarnation > client->last_lsn
               ? TPS_PUSH_NEW
               : refuse_below_window (window, client, request, error);
  push = find_push (client, request->sequence);
  if (push == NULL)
    return judge_by_floor (&client->floor, request, error);
  return request->incarnation <= push->lsn ? judge_applied (push, request, answer, error)
                                           : TPS_PUSH_NEW;
}

/* Refuses a new client, because the share of its tenant, or the memory of all shares, is full. The
 * totals of all callers must not be told to one of them. */
static TpsPushVerdict
refuse_client (TpsPushWindow *window, const TpsPushShare *share, const TpsPushRequest *request,
               GError **error)
{
  gsize max_members = get_max_members (window, share);

  g_set_error (
      error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
      "client %s: no room to remember its pushes: %s%s already used %u client names, of at "
      "most %" G_GSIZE_FORMAT "%s; a name is forgotten after %" G_GINT64_FORMAT
      " s without a push, or by Node.forget_push_clients",
      request->client, share->tenant != NULL ? "tenant " : "callers without a tenant",
      share->tenant != NULL ? share->tenant : "", share->n_clients, max_members,
      share->n_clients < max_members ? ", and other callers all that remain" : "",
      window->options.floor_idle_ns / 1000000000);
  return TPS_PUSH_REFUSED;
}

/* Refuses a push until memory is free. Always returns FALSE. */
static gboolean
refuse_for_now (const gchar *client, GError **error)
{
  GError *refusal = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                                 "client %s: no memory to remember its pushes; raise "
                                 "--max-memory-mib",
                                 client);

  tps_error_set_retry_after_ms (refusal, TPS_RETRY_AFTER_MS);
  g_propagate_error (error, refusal);
  return FALSE;
}

/* Provides memory for a window. The number of windows exceeds its limit only while all of them have
 * running pushes, which other budgets limit. */
static gboolean
make_room_for_window (TpsPushWindow *window, TpsPushClient *client, gsize n_bytes, GError **error)
{
  while (g_hash_table_size (window->clients) >= window->options.max_clients
         && give_up_one (window, NULL))
    ;
  while (!charge (window, client, n_bytes, NULL))
    if (!give_up_one (window, NULL))
      return refuse_for_now (client->name, error);
  return TRUE;
}

/* Adds a client that has no window and is a member of `held->share`, with the floor of `held` and
 * no pushes. `is_known`: `floors` has a floor of the client, which is removed. The lock must be
 * held. Errors: RESOURCE_EXHAUSTED. */
static TpsPushClient *
add_client (TpsPushWindow *window, const gchar *name, const TpsHeldFloor *held, gboolean is_known,
            GError **error)
{
  TpsPushClient *client = tps_slab_take (&window->records);
  gsize n_name = strlen (name) + 1;
  gsize n_bytes = sizeof *client + n_name + CLIENT_OVERHEAD_BYTES;
  gsize n_floor = is_known ? TPS_PUSH_FLOOR_BYTES : 0; /* charged already */

  client->name = n_name <= sizeof client->short_name ? client->short_name : g_malloc (n_name);
  memcpy (client->name, name, n_name);
  client->pushes = client->few;
  client->capacity = G_N_ELEMENTS (client->few);
  client->link.data = client->export_link.data = client;
  client->share = held->share;
  client->side = held->side;
  client->floor = held->floor;
  client->last_lsn = MAX (held->floor.now.lsn, held->floor.earlier.lsn);
  client->heard_ns = get_now (window);
  if (!make_room_for_window (window, client, n_bytes - n_floor, error))
    {
      free_client (window, client);
      return NULL;
    }
  if (is_known)
    tps_push_floors_take (window->floors, name);
  else
    client->share->n_clients++;
  client->n_bytes += n_floor;
  client->share->n_bytes += n_floor;
  g_hash_table_insert (window->clients, client->name, client);
  g_queue_push_tail_link (&client->share->recent, &client->link);
  g_queue_push_tail_link (&window->sides[client->side], &client->export_link);
  return client;
}

/* Begins a new push. Makes room first, because an applied push must be remembered. */
static TpsPushVerdict
begin_new (TpsPushWindow *window, TpsPushClient *client, const TpsPushRequest *request,
           GError **error)
{
  TpsRunningPush running = { .sequence = request->sequence,
                             .incarnation = request->incarnation,
                             .has_digest = request->digest != NULL };

  if (running.has_digest)
    running.digest = *request->digest;
  if (!make_room (window, client))
    {
      if (client->running.n == 0 && !is_needed (client))
        forget_client (window, client);
      refuse_for_now (request->client, error);
      return TPS_PUSH_REFUSED;
    }
  begin_running (client, &running);
  return TPS_PUSH_NEW;
}

/* Returns the verdict on a push of a client without a window. If the push is NEW, the client gets a
 * window, which continues the floor of an earlier window if there is one. */
static TpsPushVerdict
begin_unknown (TpsPushWindow *window, const TpsPushRequest *request, GError **error)
{
  const TpsHeldFloor *found = tps_push_floors_find (window->floors, request->client,
                                                    get_now (window));
  TpsHeldFloor held = { .side = tps_push_floors_get_passed_side (window->floors) };
  TpsPushClient *client;

  if (found != NULL)
    held = *found;
  else
    held.share = find_share (window, request->tenant);
  if (judge_by_floor (&held.floor, request, error) == TPS_PUSH_REFUSED)
    return TPS_PUSH_REFUSED;
  if (found == NULL && !has_room_for_client (window, held.share) && !request->is_replay)
    return refuse_client (window, held.share, request, error);
  client = add_client (window, request->client, &held, found != NULL, error);
  return client != NULL ? begin_new (window, client, request, error) : TPS_PUSH_REFUSED;
}

TpsPushWindow *
tps_push_window_new (const TpsPushWindowOptions *options)
{
  TpsPushWindow *window = g_new0 (TpsPushWindow, 1);
  TpsPushWindowOptions *own = &window->options;

  if (options != NULL)
    *own = *options;
  own->window = own->window > 0 ? own->window : TPS_PUSH_WINDOW;
  own->max_clients = own->max_clients > 0 ? own->max_clients : TPS_PUSH_MAX_CLIENTS;
  own->max_remembered = own->max_remembered > 0 ? own->max_remembered : TPS_PUSH_MAX_REMEMBERED;
  own->max_floors = own->max_floors > 0 ? own->max_floors : TPS_PUSH_MAX_FLOORS;
  own->floor_idle_ns = own->floor_idle_ns > 0 ? own->floor_idle_ns : TPS_PUSH_FLOOR_IDLE_NS;
  own->get_now_ns = own->get_now_ns != NULL ? own->get_now_ns : tps_clock_now_ns;
  tps_budget_ref (own->budget);
  tps_mutex_init (&window->lock);
  window->clients = g_hash_table_new (g_str_hash, g_str_equal);
  window->shares = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, free_share);
  g_queue_init (&window->sides[0]);
  g_queue_init (&window->sides[1]);
  tps_slab_init (&window->records, sizeof (TpsPushClient));
  window->floors = tps_push_floors_new (own->floor_idle_ns, own->budget);
  return window;
}

void
tps_push_window_get_size (TpsPushWindow *window, TpsPushWindowSize *size)
{
  tps_mutex_lock (&window->lock);
  *size = (TpsPushWindowSize) { .n_clients = g_hash_table_size (window->clients),
                                .n_pushes = window->n_remembered,
                                .n_floors = tps_push_floors_get_n (window->floors) };
  tps_mutex_unlock (&window->lock);
}

void
tps_push_window_free (TpsPushWindow *window)
{
  GHashTableIter clients;
  gpointer client;

  g_hash_table_iter_init (&clients, window->clients);
  while (g_hash_table_iter_next (&clients, NULL, &client))
    free_client (window, client);
  g_hash_table_unref (window->clients);
  tps_slab_clear (&window->records);
  tps_push_floors_free (window->floors);
  g_hash_table_unref (window->shares);
  tps_budget_unref (window->options.budget);
  tps_mutex_clear (&window->lock);
  g_free (window);
}

guint
tps_push_window_forget (TpsPushWindow *window, const gchar *tenant, gint64 idle_ns)
{
  gint64 now_ns = get_now (window);
  TpsPushShare *share;
  GList *next;
  guint n = 0;

  tps_mutex_lock (&window->lock);
  share = g_hash_table_lookup (window->shares, tenant != NULL ? tenant : "");
  if (share != NULL)
    {
      n = share->n_clients;
      tps_push_floors_forget (window->floors, share, idle_ns, now_ns);
      for (GList *item = share->recent.head; item != NULL; item = next)
        {
          next = item->next;
          if (is_idle (item->data, idle_ns, now_ns))
            forget_client (window, item->data);
        }
      n -= share->n_clients;
    }
  tps_mutex_unlock (&window->lock);
  return n;
}

static TpsPushVerdict
begin_known (TpsPushWindow *window, TpsPushClient *client, const TpsPushRequest *request,
             gint64 *answer, GError **error)
{
  TpsPushVerdict verdict = judge (window, client, request, answer, error);

  touch_client (window, client);
  if (verdict == TPS_PUSH_RUNNING)
    tps_running_push_add_waiter (tps_running_pushes_find (&client->running, request->sequence),
                                 request);
  return verdict == TPS_PUSH_NEW ? begin_new (window, client, request, error) : verdict;
}

TpsPushVerdict
tps_push_window_begin (TpsPushWindow *window, const TpsPushRequest *request, gint64 *answer,
                       GError **error)
{
  TpsPushVerdict verdict;
  TpsPushClient *client;

  tps_mutex_lock (&window->lock);
  client = g_hash_table_lookup (window->clients, request->client);
  verdict = client != NULL ? begin_known (window, client, request, answer, error)
                           : begin_unknown (window, request, error);
  tps_mutex_unlock (&window->lock);
  return verdict;
}

void
tps_push_window_set_digest (TpsPushWindow *window, const gchar *client, gint64 sequence,
                            const TpsPushDigest *digest)
{
  TpsPushClient *known;
  TpsRunningPush *running;

  tps_mutex_lock (&window->lock);
  known = g_hash_table_lookup (window->clients, client);
  running = tps_running_pushes_find (&known->running, sequence);
  running->has_digest = TRUE;
  running->digest = *digest;
  tps_mutex_unlock (&window->lock);
}

void
tps_push_window_end (TpsPushWindow *window, const gchar *client, gint64 sequence, gint64 answer,
                     gint64 lsn)
{
  TpsRunningPush running;
  TpsPushClient *known;

  tps_mutex_lock (&window->lock);
  known = g_hash_table_lookup (window->clients, client);
  running = end_running (window, known, sequence);
  remember (window, known, &running, answer, lsn);
  tps_mutex_unlock (&window->lock);
  tps_running_push_tell (&running, client, answer, NULL);
}

void
tps_push_window_fail (TpsPushWindow *window, const gchar *client, gint64 sequence,
                      const GError *error)
{
  TpsRunningPush running;
  TpsPushClient *known;

  tps_mutex_lock (&window->lock);
  known = g_hash_table_lookup (window->clients, client);
  running = end_running (window, known, sequence);
  if (known->running.n == 0 && !is_needed (known))
    forget_client (window, known); /* it has nothing to remember */
  tps_mutex_unlock (&window->lock);
  tps_running_push_tell (&running, client, 0, error);
}

/* Lets the time since the previous command of the replay pass. A clock that was set back does not
 * count. */
static void
advance_clock (TpsPushWindow *window, gint64 time_ms)
{
  tps_mutex_lock (&window->lock);
  if (time_ms > window->replayed_ms)
    {
      if (window->replayed_ms > 0)
        window->ahead_ns += (time_ms - window->replayed_ms) * NS_PER_MS;
      window->replayed_ms = time_ms;
    }
  tps_mutex_unlock (&window->lock);
}

gboolean
tps_push_window_replay (TpsPushWindow *window, const TpsPushRequest *request, gint64 time_ms,
                        gint64 answer, gint64 lsn, GError **error)
{
  g_autoptr (GError) refusal = NULL;
  TpsPushRequest replayed = *request;
  gint64 unused;

  advance_clock (window, time_ms);
  replayed.is_replay = TRUE;
  if (tps_push_window_begin (window, &replayed, &unused, &refusal) == TPS_PUSH_NEW)
    tps_push_window_end (window, request->client, request->sequence, answer, lsn);
  else if (g_error_matches (refusal, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    {
      g_propagate_error (error, g_steal_pointer (&refusal));
      return FALSE;
    }
  return TRUE; /* STALE and DUPLICATE: the window of a snapshot has a later state */
}

static Stair
stair_of (const TpsPushStair *stair)
{
  return (Stair) { stair->is_set != 0, stair->is_set ? stair->sequence : 0,
                   stair->is_set ? stair->lsn : 0 };
}

static TpsPushFloor
floor_of (const Stair *now, const Stair *earlier)
{
  return (TpsPushFloor) { .now = { now->is_set != 0, now->sequence, now->lsn },
                          .earlier = { earlier->is_set != 0, earlier->sequence, earlier->lsn } };
}

static gsize
padded (gsize n_bytes)
{
  return (n_bytes + 7) / 8 * 8;
}

/* Returns the length of the share's tenant; 0 = no tenant. */
static gsize
count_tenant (const TpsPushShare *share)
{
  return share->tenant != NULL ? strlen (share->tenant) : 0;
}

static void
append_text (GByteArray *records, const gchar *text, gsize n_bytes)
{
  static const guint8 zeros[8];

  g_byte_array_append (records, (const guint8 *) text, (guint) n_bytes);
  g_byte_array_append (records, zeros, (guint) (padded (n_bytes) - n_bytes));
}

static void
append_window (const TpsPushClient *client, gint64 now_ns, GByteArray *records)
{
  gsize n_name = strlen (client->name);
  gsize n_tenant = count_tenant (client->share);
  gsize n_pushes = client->n_pushes * sizeof client->pushes[0];
  gsize n_bytes = sizeof (WindowRecord) + padded (n_name) + padded (n_tenant) + n_pushes;
  WindowRecord record = {
    .head = { WINDOW_RECORD, (guint32) n_bytes },
    .n_name = (guint32) n_name,
    .n_tenant = (guint32) n_tenant,
    .n_pushes = client->n_pushes,
    .idle_ns = now_ns - client->heard_ns,
    .last_lsn = client->last_lsn,
    .now = stair_of (&client->floor.now),
    .earlier = stair_of (&client->floor.earlier),
  };

  g_byte_array_append (records, (const guint8 *) &record, sizeof record);
  append_text (records, client->name, n_name);
  append_text (records, client->share->tenant, n_tenant);
  g_byte_array_append (records, (const guint8 *) client->pushes, (guint) n_pushes);
}

static gboolean
append_next_floor (TpsPushWindow *window, gint64 now_ns, GByteArray *records)
{
  FloorRecord record = { .head = { .kind = FLOOR_RECORD } };
  TpsExportedFloor floor;

  if (!tps_push_floors_export_next (window->floors, now_ns, &floor))
    return FALSE;
  record.n_tenant = count_tenant (floor.share);
  record.head.n_bytes = (guint32) (sizeof record + padded (record.n_tenant));
  memcpy (record.name, floor.name, sizeof record.name);
  record.idle_ns = floor.idle_ns;
  record.now = stair_of (&floor.floor.now);
  record.earlier = stair_of (&floor.floor.earlier);
  g_byte_array_append (records, (const guint8 *) &record, sizeof record);
  append_text (records, floor.share->tenant, record.n_tenant);
  return TRUE;
}

static gboolean
append_next_window (TpsPushWindow *window, gint64 now_ns, GByteArray *records)
{
  TpsExportSide passed = tps_push_floors_get_passed_side (window->floors);
  GList *link = g_queue_pop_head_link (&window->sides[1 - passed]);
  TpsPushClient *client;

  if (link == NULL)
    return FALSE;
  client = link->data;
  client->side = passed;
  g_queue_push_tail_link (&window->sides[passed], link);
  append_window (client, now_ns, records);
  return TRUE;
}

void
tps_push_export_begin (TpsPushWindow *window)
{
  GByteArray *rest = g_byte_array_new ();

  /* An abandoned export has left clients on the side to be visited. They must change sides before
   * the new export begins. */
  while (tps_push_export_some (window, rest))
    g_byte_array_set_size (rest, 0);
  g_byte_array_unref (rest);
  tps_mutex_lock (&window->lock);
  tps_push_floors_begin_export (window->floors);
  tps_mutex_unlock (&window->lock);
}

gboolean
tps_push_export_some (TpsPushWindow *window, GByteArray *records)
{
  guint before = records->len;
  gint64 now_ns = get_now (window);

  tps_mutex_lock (&window->lock);
  while (records->len - before < TPS_PUSH_EXPORT_BYTES
         && (append_next_floor (window, now_ns, records)
             || append_next_window (window, now_ns, records)))
    ;
  tps_mutex_unlock (&window->lock);
  return records->len > before;
}

/* Returns the time of a client's last request. */
static gint64
to_heard_ns (TpsPushWindow *window, gint64 idle_ns)
{
  return get_now (window) - CLAMP (idle_ns, 0, G_MAXINT64 / 4);
}

/* Returns TRUE if `bytes` are UTF-8 text without a 0 byte. */
static gboolean
is_text (const guint8 *bytes, gsize n_bytes)
{
  return memchr (bytes, 0, n_bytes) == NULL
         && g_utf8_validate ((const gchar *) bytes, (gssize) n_bytes, NULL);
}

static TpsPushShare *
find_share_of_bytes (TpsPushWindow *window, const guint8 *tenant, gsize n_tenant)
{
  g_autofree gchar *name = n_tenant > 0 ? g_strndup ((const gchar *) tenant, n_tenant) : NULL;

  return find_share (window, name);
}

static gboolean
is_lsn (gint64 lsn)
{
  return lsn >= 0 && lsn <= TPS_MAX_COUNT;
}

/* Returns TRUE if the record has the length of its texts and its pushes. `rest` is the record after
 * its fixed part, and need not be aligned. */
static gboolean
check_window (const WindowRecord *record, const guint8 *rest)
{
  guint64 n_texts = (guint64) padded (record->n_name) + padded (record->n_tenant);
  guint64 n_rest = record->head.n_bytes - sizeof *record;

  return record->n_name > 0 && is_lsn (record->last_lsn) && is_lsn (record->now.lsn)
         && is_lsn (record->earlier.lsn) && n_texts <= n_rest
         && record->n_pushes == (n_rest - n_texts) / sizeof (TpsRememberedPush)
         && (n_rest - n_texts) % sizeof (TpsRememberedPush) == 0 && is_text (rest, record->n_name)
         && is_text (rest + padded (record->n_name), record->n_tenant);
}

static gboolean
are_valid (const TpsPushClient *client)
{
  for (guint i = 0; i < client->n_pushes; i++)
    if (!is_lsn (client->pushes[i].lsn)
        || (i > 0 && client->pushes[i - 1].sequence >= client->pushes[i].sequence))
      return FALSE;
  return TRUE;
}

/* Adds the pushes of a record to an empty window. If there is no room for them, raises the floor
 * instead. FALSE: the pushes are not valid, or not in ascending order. */
static gboolean
add_pushes (TpsPushWindow *window, TpsPushClient *client, const guint8 *pushes, guint n)
{
  TpsRememberedPush push;

  if (client_reserve (window, client, n))
    {
      memcpy (client->pushes, pushes, n * sizeof push);
      client->n_pushes = n;
      window->n_remembered += n;
      return are_valid (client);
    }
  for (guint i = 0; i < n; i++)
    {
      memcpy (&push, pushes + i * sizeof push, sizeof push);
      if (!is_lsn (push.lsn))
        return FALSE;
      tps_push_floor_raise (&client->floor, push.sequence, push.lsn);
    }
  return TRUE;
}

/* Adds the window of a record, even if the client does not fit its share. If windows of other
 * clients must be given up for it, they become floors. FALSE: the record is damaged, the client is
 * known already, or `error` is set. */
static gboolean
add_window (TpsPushWindow *window, const WindowRecord *record, const guint8 *rest, GError **error)
{
  g_autofree gchar *name = g_strndup ((const gchar *) rest, record->n_name);
  const guint8 *tenant = rest + padded (record->n_name);
  TpsHeldFloor held = { floor_of (&record->now, &record->earlier),
                        find_share_of_bytes (window, tenant, record->n_tenant),
                        tps_push_floors_get_passed_side (window->floors) };
  TpsPushClient *client;

  if (g_hash_table_contains (window->clients, name)
      || tps_push_floors_find (window->floors, name, get_now (window)) != NULL)
    return FALSE;
  client = add_client (window, name, &held, FALSE, error);
  if (client == NULL)
    return FALSE;
  client->heard_ns = to_heard_ns (window, record->idle_ns);
  client->last_lsn = record->last_lsn;
  return add_pushes (window, client, tenant + padded (record->n_tenant), (guint) record->n_pushes);
}

static gboolean
add_floor (TpsPushWindow *window, const FloorRecord *record, const guint8 *tenant, GError **error)
{
  gint64 now_ns = get_now (window);
  TpsExportedFloor floor = { .floor = floor_of (&record->now, &record->earlier),
                             .share = find_share_of_bytes (window, tenant, record->n_tenant),
                             .idle_ns = now_ns - to_heard_ns (window, record->idle_ns) };

  memcpy (floor.name, record->name, sizeof floor.name);
  return tps_push_floors_import (window->floors, now_ns, &floor, error);
}

/* Reads one whole record. The lock is held. FALSE: the bytes are not a record, or `error` is
 * set. */
static gboolean
read_record (TpsPushWindow *window, const Head *head, const guint8 *bytes, GError **error)
{
  WindowRecord record;
  FloorRecord floor;

  if (head->kind == FLOOR_RECORD && head->n_bytes >= sizeof floor)
    {
      memcpy (&floor, bytes, sizeof floor);
      return is_lsn (floor.now.lsn) && is_lsn (floor.earlier.lsn) && floor.n_tenant <= head->n_bytes
             && head->n_bytes == sizeof floor + padded (floor.n_tenant)
             && is_text (bytes + sizeof floor, floor.n_tenant)
             && add_floor (window, &floor, bytes + sizeof floor, error);
    }
  if (head->kind != WINDOW_RECORD || head->n_bytes <= sizeof record)
    return FALSE;
  memcpy (&record, bytes, sizeof record);
  return check_window (&record, bytes + sizeof record)
         && add_window (window, &record, bytes + sizeof record, error);
}

gboolean
tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes, gsize *n_used,
                      GError **error)
{
  gboolean ok = TRUE;
  Head head;

  *n_used = 0;
  tps_mutex_lock (&window->lock);
  while (ok && n_bytes - *n_used >= sizeof head)
    {
      memcpy (&head, records + *n_used, sizeof head);
      if (head.n_bytes > n_bytes - *n_used)
        break;
      ok = head.n_bytes >= sizeof head && read_record (window, &head, records + *n_used, error);
      if (ok)
        *n_used += head.n_bytes;
    }
  tps_mutex_unlock (&window->lock);
  return ok;
}

static gint
compare_heard (gconstpointer a, gconstpointer b, gpointer unused)
{
  const TpsPushClient *left = a;
  const TpsPushClient *right = b;

  return (left->heard_ns > right->heard_ns) - (left->heard_ns < right->heard_ns);
}

void
tps_push_export_end_read (TpsPushWindow *window)
{
  GHashTableIter shares;
  gpointer share;

  tps_mutex_lock (&window->lock);
  tps_push_floors_end_import (window->floors);
  g_hash_table_iter_init (&shares, window->shares);
  while (g_hash_table_iter_next (&shares, NULL, &share))
    g_queue_sort (&((TpsPushShare *) share)->recent, compare_heard, NULL);
  tps_mutex_unlock (&window->lock);
}

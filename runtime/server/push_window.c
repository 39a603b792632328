/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_window.h"

#include <glib.h>
#include <string.h>

#include "runtime/base/durability.h"
#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/sanitizers.h"
#include "runtime/base/sync.h"
#include "runtime/server/push_digest.h"

/* A push that was applied. Millions of these may be remembered, so fields that only running pushes
 * need are in Running. */
typedef struct
{
  gint64 sequence;
  gint64 answer;
  gint64 lsn;
  TpsPushDigest digest;
} Push;

/* A push that is being applied. */
typedef struct Running Running;
struct Running
{
  Running *next; /* of the client, which rarely has several */
  gint64 sequence;
  gint64 incarnation;
  gboolean has_digest;
  TpsPushDigest digest;
  GArray *waiters; /* of Waiter; NULL = there are none */
};

/* A repeat of a running push. */
typedef struct
{
  TpsPushEnded ended;
  gpointer user_data;
  TpsPushDigest digest;
} Waiter;

/* One level of a floor: pushes up to `sequence` were applied by commands up to `lsn`. */
typedef struct
{
  guint64 is_set;
  gint64 sequence, lsn;
} Stair;

/* The share of one tenant in the memory of push ids. */
typedef struct
{
  gchar *tenant;   /* NULL: of callers without a tenant */
  guint n_clients; /* with a window or a floor */
  gsize n_bytes;   /* the charges of windows */
  GQueue windows;  /* of clients with a window and no running push, least recently used first */
  GQueue floors;   /* of clients without a window, nearly: least recently used first */
} Share;

/* A client. It has a window if it has room for pushes, and otherwise only a floor. */
typedef struct
{
  TpsPushDigest name; /* of the client's name; the key of `clients` */
  Share *share;
  GList link;   /* in a list of the share, unless a push is running */
  Push *pushes; /* [n_pushes], by ascending sequence */
  guint n_pushes, capacity;
  guint slot; /* in `slots` */
  guint n_running;
  Running *running;
  /* The floor covers the pushes that are not remembered any more. A client may restart its sequence
   * on an object that was created later. `now` then covers its pushes since then, and `earlier` all
   * pushes before. */
  Stair now, earlier;
  gint64 last_lsn; /* the highest LSN of all applied pushes */
  gint64 heard_ns; /* the time of the last request */
} Client;

struct TpsPushWindow
{
  TpsPushWindowOptions options;
  TpsMutex lock;       /* guards everything below; must not be held during callbacks */
  GHashTable *clients; /* a set of Client */
  GHashTable *shares;  /* of Share, by tenant; "" = no tenant */
  GQueue roomy_chunks; /* of Chunk: those with a free record */
  GPtrArray *slots;    /* of Client; the first n_exported have been visited by the export */
  guint n_exported;
  guint n_windows;
  gsize n_remembered;
  gint64 ahead_ns;    /* of the clock in the options: the time that has passed in the replay */
  gint64 replayed_ms; /* the time of the newest command of the replay; 0 = none */
};

/* The charge for a client without its window. A client keeps it until it is forgotten, so a window
 * can always become a floor. */
#define CLIENT_BYTES ((gsize) 192)
#define MIN_CAPACITY 8 /* of a window, in pushes */

/* The number of clients that a tenant may have even if the clients of all tenants reach the limit
 * of their sum; less in a small window. */
#define MIN_MEMBERS ((gsize) 256)

#define NS_PER_MS ((gint64) 1000000)

/* The format is little-endian, and records are copied to and from memory as they are. */
G_STATIC_ASSERT (G_BYTE_ORDER == G_LITTLE_ENDIAN);

#define WINDOW_RECORD 3
#define CLIENT_RECORD 4

/* The beginning of every record. */
typedef struct
{
  guint32 kind;
  guint32 n_bytes; /* of the whole record; a multiple of 8 */
} Head;

/* The record of a client. The tenant follows, padded with zeros to a multiple of 8 bytes, and then
 * the pushes, as Push. */
typedef struct
{
  Head head;
  guint64 n_tenant; /* 0 = no tenant */
  TpsPushDigest name;
  gint64 idle_ns;
  Stair now, earlier;
} ClientRecord;

/* Earlier versions wrote this record for a client with a window. The name of the client, the tenant
 * and the pushes follow. */
typedef struct
{
  Head head;
  guint32 n_name;
  guint32 n_tenant;
  guint64 n_pushes;
  gint64 idle_ns;
  gint64 last_lsn;
  Stair now, earlier;
} WindowRecord;

G_STATIC_ASSERT (sizeof (Push) == 40);
G_STATIC_ASSERT (sizeof (ClientRecord) == 88);
G_STATIC_ASSERT (sizeof (WindowRecord) == 88);

/* ---- records of clients ---------------------------------------------------------------------- */

/* Records of clients are in chunks of their own, which are freed with their last record (but for
 * the only chunk with a free one). With malloc(), a small block that lives for hours keeps the page
 * of its short-lived neighbours, which no budget counts. */

#if TPS_HAS_ADDRESS_SANITIZER
/* There is one record in each chunk, so that the sanitizer detects uses of a freed record. */
#define CHUNK_SLOTS 1
#else
#define CHUNK_SLOTS (((64 << 10) - sizeof (Chunk)) / sizeof (Slot))
#endif

typedef struct Chunk Chunk;

typedef struct Slot Slot;
struct Slot
{
  Client client;
  union
  {
    Chunk *chunk; /* of a taken slot */
    Slot *next;   /* of a free slot */
  };
};

struct Chunk
{
  GList link; /* in `roomy_chunks`, unless all slots are taken */
  guint n_taken;
  guint n_begun;    /* slots that have been taken at least once; the others are not touched */
  Slot *free_slots; /* slots that have been given back */
  Slot slots[];
};

/* Returns a client that is all zero. */
static Client *
take_record (TpsPushWindow *window)
{
  Chunk *chunk;
  Slot *slot;

  if (window->roomy_chunks.head == NULL)
    {
      chunk = g_malloc (sizeof *chunk + CHUNK_SLOTS * sizeof *slot);
      *chunk = (Chunk) { .link = { .data = chunk } };
      g_queue_push_head_link (&window->roomy_chunks, &chunk->link);
    }
  chunk = window->roomy_chunks.head->data;
  slot = chunk->free_slots;
  if (slot != NULL)
    chunk->free_slots = slot->next;
  else
    slot = &chunk->slots[chunk->n_begun++];
  slot->chunk = chunk;
  if (++chunk->n_taken == CHUNK_SLOTS)
    g_queue_unlink (&window->roomy_chunks, &chunk->link);
  slot->client = (Client) { 0 };
  return &slot->client;
}

static void
give_record (TpsPushWindow *window, Client *client)
{
  Slot *slot = (Slot *) client;
  Chunk *chunk = slot->chunk;

  slot->next = chunk->free_slots;
  chunk->free_slots = slot;
  if (chunk->n_taken-- == CHUNK_SLOTS)
    g_queue_push_head_link (&window->roomy_chunks, &chunk->link);
  /* The last chunk with a free slot stays. Otherwise a record that is taken and given back
   * repeatedly could allocate and free a chunk each time. */
  if (chunk->n_taken > 0 || window->roomy_chunks.length == 1)
    return;
  g_queue_unlink (&window->roomy_chunks, &chunk->link);
  g_free (chunk);
}

/* Returns the time by the clock of the window. The lock must be held. */
static gint64
get_now (const TpsPushWindow *window)
{
  return window->options.get_now_ns () + window->ahead_ns;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static void
free_share (gpointer data)
{
  Share *share = data;

  g_free (share->tenant);
  g_free (share);
}

/* Returns the share of a tenant; NULL = of callers without a tenant. The lock must be held. */
static Share *
find_share (TpsPushWindow *window, const gchar *tenant)
{
  const gchar *key = tenant != NULL ? tenant : "";
  Share *share = g_hash_table_lookup (window->shares, key);

  if (share == NULL)
    {
      share = g_new0 (Share, 1);
      share->tenant = g_strdup (tenant);
      g_queue_init (&share->windows);
      g_queue_init (&share->floors);
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
              n_bytes / 2 / CLIENT_BYTES);
}

static gsize
get_max_members (const TpsPushWindow *window, const Share *share)
{
  gsize n = get_max_clients (window);

  return share->tenant == NULL ? n : MAX (n / TPS_PUSH_TENANTS, 1);
}

/* ---- clients --------------------------------------------------------------------------------- */

static gboolean
charge (TpsPushWindow *window, gsize n_bytes, GError **error)
{
  return tps_budget_charge (window->options.budget, n_bytes, error);
}

static guint
hash_name (gconstpointer client)
{
  guint hash;

  memcpy (&hash, ((const TpsPushDigest *) client)->bytes, sizeof hash);
  return hash;
}

/* A client begins with its name, so a name may be looked up. */
static gboolean
is_same_name (gconstpointer a, gconstpointer b)
{
  return tps_push_digest_is_same (a, b);
}

static gboolean
is_idle (const Client *client, gint64 idle_ns, gint64 now_ns)
{
  return now_ns - client->heard_ns >= idle_ns;
}

/* Returns TRUE if a push of the client has been applied. */
static gboolean
is_needed (const Client *client)
{
  return client->n_pushes > 0 || client->now.is_set || client->earlier.is_set;
}

/* Takes a client without a running push out of its list. Otherwise it could lose its window. */
static void
unlink_client (Client *client)
{
  g_queue_unlink (client->capacity > 0 ? &client->share->windows : &client->share->floors,
                  &client->link);
}

static void
link_client (Client *client)
{
  g_queue_push_tail_link (client->capacity > 0 ? &client->share->windows : &client->share->floors,
                          &client->link);
}

static void
set_slot (TpsPushWindow *window, guint slot, Client *client)
{
  window->slots->pdata[slot] = client;
  client->slot = slot;
}

/* Adds a client without pushes, whose charge has been made. It is in the list of floors. An export
 * does not visit it, because it may have visited an earlier client of this name. */
static Client *
add_client (TpsPushWindow *window, const TpsPushDigest *name, Share *share, gint64 heard_ns)
{
  Client *client = take_record (window);

  client->name = *name;
  client->share = share;
  client->heard_ns = heard_ns;
  client->link.data = client;
  share->n_clients++;
  link_client (client);
  g_ptr_array_add (window->slots, NULL);
  if (window->n_exported < window->slots->len - 1)
    set_slot (window, window->slots->len - 1, window->slots->pdata[window->n_exported]);
  set_slot (window, window->n_exported++, client);
  g_hash_table_add (window->clients, client);
  return client;
}

static void
free_pushes (TpsPushWindow *window, Client *client)
{
  gsize n_bytes = client->capacity * sizeof client->pushes[0];

  window->n_remembered -= client->n_pushes;
  window->n_windows -= client->capacity > 0;
  client->n_pushes = client->capacity = 0;
  client->share->n_bytes -= n_bytes;
  tps_budget_release (window->options.budget, n_bytes);
  g_clear_pointer (&client->pushes, g_free);
}

static void
free_client (TpsPushWindow *window, Client *client)
{
  guint slot = client->slot;
  guint last = window->slots->len - 1;

  free_pushes (window, client);
  if (slot < window->n_exported)
    {
      set_slot (window, slot, window->slots->pdata[--window->n_exported]);
      slot = window->n_exported;
    }
  if (slot != last)
    set_slot (window, slot, window->slots->pdata[last]);
  g_ptr_array_set_size (window->slots, (gint) last);
  client->share->n_clients--;
  g_hash_table_remove (window->clients, client);
  tps_budget_release (window->options.budget, CLIENT_BYTES);
  give_record (window, client);
}

static void
forget_client (TpsPushWindow *window, Client *client)
{
  unlink_client (client);
  free_client (window, client);
}

/* Forgets the clients of a list of the share that have been silent for `idle_ns`; `all`: also those
 * after the first one that has not. */
static void
forget_idle (TpsPushWindow *window, GQueue *list, gint64 idle_ns, gboolean all)
{
  gint64 now_ns = get_now (window);
  GList *next;

  for (GList *item = list->head; item != NULL; item = next)
    {
      next = item->next;
      if (is_idle (item->data, idle_ns, now_ns))
        forget_client (window, item->data);
      else if (!all)
        return;
    }
}

/* Returns a client by its name; NULL = it is not known, or has a floor whose time has passed. */
static Client *
find_client (TpsPushWindow *window, const TpsPushDigest *name)
{
  Client *client = g_hash_table_lookup (window->clients, name);

  if (client == NULL || client->capacity > 0
      || !is_idle (client, window->options.floor_idle_ns, get_now (window)))
    return client;
  forget_client (window, client);
  return NULL;
}

/* Returns TRUE if the share has room for one more client. Forgets clients whose idle time has
 * passed: those with a floor, and if the share is full, those with a window. */
static gboolean
has_room_for_client (TpsPushWindow *window, Share *share)
{
  gint64 idle_ns = window->options.floor_idle_ns;
  gsize max_members = get_max_members (window, share);
  GHashTableIter shares;
  gpointer each;

  g_hash_table_iter_init (&shares, window->shares);
  while (g_hash_table_iter_next (&shares, NULL, &each))
    forget_idle (window, &((Share *) each)->floors, idle_ns, FALSE);
  if (share->n_clients >= max_members)
    forget_idle (window, &share->windows, idle_ns, FALSE);
  return share->n_clients < max_members
         /* The clients of all shares leave a quarter of the budget to windows. */
         && (window->slots->len < get_max_clients (window) * 3 / 2
             || share->n_clients < MIN (MIN_MEMBERS, max_members / 8));
}

/* ---- windows and floors ---------------------------------------------------------------------- */

static void
raise_stair (Stair *stair, gint64 sequence, gint64 lsn)
{
  if (!stair->is_set)
    *stair = (Stair) { TRUE, sequence, lsn };
  stair->sequence = MAX (stair->sequence, sequence);
  stair->lsn = MAX (stair->lsn, lsn);
}

/* Returns TRUE if the stair covers the push, so that it may have been applied: the sequence is not
 * higher, and the object was created before the last command of the stair. */
static gboolean
is_covered (const Stair *stair, gint64 sequence, gint64 incarnation)
{
  return stair->is_set && sequence <= stair->sequence && incarnation <= stair->lsn;
}

/* Forgets the oldest `n` pushes of the client, and raises its floor to cover them. */
static void
forget (TpsPushWindow *window, Client *client, guint n)
{
  for (guint i = 0; i < n; i++)
    raise_stair (&client->now, client->pushes[i].sequence, client->pushes[i].lsn);
  client->n_pushes -= n;
  window->n_remembered -= n;
  if (n > 0)
    memmove (client->pushes, client->pushes + n, client->n_pushes * sizeof client->pushes[0]);
}

/* Shrinks a window to a floor: of all tenants that have a window without a running push, that of
 * the tenant with the largest windows. FALSE: there is no such window. */
static gboolean
give_up_one (TpsPushWindow *window)
{
  Share *victim = NULL;
  GHashTableIter shares;
  gpointer each;
  Client *client;

  g_hash_table_iter_init (&shares, window->shares);
  while (g_hash_table_iter_next (&shares, NULL, &each))
    {
      Share *share = each;

      if (share->windows.head != NULL && (victim == NULL || share->n_bytes > victim->n_bytes))
        victim = share;
    }
  if (victim == NULL)
    return FALSE;
  client = victim->windows.head->data;
  unlink_client (client);
  forget (window, client, client->n_pushes);
  free_pushes (window, client);
  link_client (client);
  return TRUE;
}

/* Charges for a client, and shrinks windows if necessary. */
static gboolean
charge_client (TpsPushWindow *window, GError **error)
{
  while (!charge (window, CLIENT_BYTES, NULL))
    if (!give_up_one (window))
      return charge (window, CLIENT_BYTES, error);
  return TRUE;
}

/* Returns the index of the first push whose sequence is at least `sequence`, or n_pushes. */
static guint
find_place (const Client *client, gint64 sequence)
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

static Push *
find_push (const Client *client, gint64 sequence)
{
  guint place = find_place (client, sequence);

  if (place == client->n_pushes || client->pushes[place].sequence != sequence)
    return NULL;
  return &client->pushes[place];
}

/* Returns TRUE if `sequence` is older than a window with this newest sequence. The distance is
 * computed with unsigned numbers, because a signed difference could overflow. */
static gboolean
is_below (const TpsPushWindow *window, gint64 newest, gint64 sequence)
{
  return sequence < newest && (guint64) newest - (guint64) sequence >= window->options.window;
}

static gboolean
is_below_window (const TpsPushWindow *window, const Client *client, gint64 sequence)
{
  return client->n_pushes > 0
         && is_below (window, client->pushes[client->n_pushes - 1].sequence, sequence);
}

static guint
count_old (const TpsPushWindow *window, const Client *client)
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

/* Makes room for `n` pushes of an unlinked client in total. FALSE: there is no room. */
static gboolean
reserve (TpsPushWindow *window, Client *client, guint n)
{
  guint capacity = MAX (client->capacity, MIN_CAPACITY);
  Push *pushes;
  gsize n_bytes;

  while (capacity < n)
    capacity *= 2;
  if (capacity == client->capacity)
    return TRUE;
  n_bytes = (capacity - client->capacity) * sizeof *pushes;
  if (!charge (window, n_bytes, NULL))
    return FALSE;
  pushes = g_try_renew (Push, client->pushes, capacity);
  if (pushes == NULL)
    {
      tps_budget_release (window->options.budget, n_bytes);
      return FALSE;
    }
  window->n_windows += client->capacity == 0;
  client->share->n_bytes += n_bytes;
  client->pushes = pushes;
  client->capacity = capacity;
  return TRUE;
}

static gboolean
has_too_many (const TpsPushWindow *window)
{
  return window->n_remembered >= window->options.max_remembered;
}

/* Makes room for one more push of an unlinked client, besides those that are remembered or running,
 * so that every running push can be remembered. Shrinks the windows of other clients first, and
 * then forgets the older half of this client's pushes. Applies the limit of remembered pushes in
 * the same way. The number of windows exceeds its limit only while all of them have running pushes,
 * which other budgets limit. FALSE: the budget is full, and the client has no pushes to forget. */
static gboolean
make_room (TpsPushWindow *window, Client *client)
{
  while (client->capacity == 0 && window->n_windows >= window->options.max_clients
         && give_up_one (window))
    ;
  while (!reserve (window, client, client->n_pushes + client->n_running + 1))
    {
      if (give_up_one (window))
        continue;
      if (client->n_pushes == 0)
        return FALSE;
      forget (window, client, (client->n_pushes + 1) / 2);
    }
  if (has_too_many (window))
    forget (window, client, count_old (window, client));
  while (has_too_many (window) && give_up_one (window))
    ;
  if (has_too_many (window) && window->n_windows > 1)
    forget (window, client, (client->n_pushes + 1) / 2);
  return TRUE;
}

static void
remember (TpsPushWindow *window, Client *client, const Running *running, gint64 answer, gint64 lsn)
{
  Push push = { running->sequence, answer, lsn, running->digest };
  gboolean is_old = is_below_window (window, client, push.sequence);
  Push *known;
  guint place, n_old;

  TPS_PLANT ("push-not-remembered", return );
  if (running->incarnation > client->last_lsn
      && (is_old || (client->now.is_set && is_below (window, client->now.sequence, push.sequence))))
    {
      /* The client restarts its sequence on an object that was created after its last command. */
      forget (window, client, client->n_pushes);
      if (client->now.is_set)
        raise_stair (&client->earlier, client->now.sequence, client->now.lsn);
      client->now.is_set = FALSE;
      is_old = FALSE;
    }
  client->last_lsn = MAX (client->last_lsn, lsn);
  if (is_old) /* the window moved on while the push was running */
    {
      raise_stair (&client->now, push.sequence, lsn);
      return;
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
  /* Pushes below the window are forgotten if there are enough of them to justify moving the
   * rest. */
  n_old = count_old (window, client);
  if (n_old >= 16 && n_old >= client->n_pushes / 4)
    forget (window, client, n_old);
}

/* ---- running pushes -------------------------------------------------------------------------- */

/* Returns the place of the pointer to a running push, or of the NULL at the end of the list. */
static Running **
find_running (Client *client, gint64 sequence)
{
  Running **place = &client->running;

  while (*place != NULL && (*place)->sequence != sequence)
    place = &(*place)->next;
  return place;
}

static void
add_waiter (Running *running, const TpsPushRequest *request)
{
  Waiter waiter = { request->ended, request->user_data, *request->digest };

  if (running->waiters == NULL)
    running->waiters = g_array_new (FALSE, FALSE, sizeof waiter);
  g_array_append_val (running->waiters, waiter);
}

static GError *
new_duplicate_error (const gchar *client, gint64 sequence)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_DUPLICATE,
                      "push %" G_GINT64_FORMAT " of client %s was already used for another request",
                      sequence, client);
}

/* Calls ended() of the waiters of a push that has ended, and frees the push. Without an `error`,
 * waiters with a different digest get DUPLICATE. */
static void
tell_waiters (Running *running, const gchar *client, gint64 answer, const GError *error)
{
  for (guint i = 0; running->waiters != NULL && i < running->waiters->len; i++)
    {
      const Waiter *waiter = &g_array_index (running->waiters, Waiter, i);
      g_autoptr (GError) other = NULL;

      if (error == NULL && !tps_push_digest_is_same (&waiter->digest, &running->digest))
        other = new_duplicate_error (client, running->sequence);
      waiter->ended (waiter->user_data, answer, error != NULL ? error : other);
    }
  g_clear_pointer (&running->waiters, g_array_unref);
  g_free (running);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* Returns the verdict on the repeat of a known push with this digest; NULL = not known yet. */
static TpsPushVerdict
judge_digest (const TpsPushDigest *digest, const TpsPushRequest *request, TpsPushVerdict verdict,
              GError **error)
{
  if (request->digest == NULL)
    return TPS_PUSH_UNDECIDED;
  if (digest == NULL || tps_push_digest_is_same (digest, request->digest))
    return verdict;
  g_propagate_error (error, new_duplicate_error (request->client, request->sequence));
  return TPS_PUSH_REFUSED;
}

static TpsPushVerdict
refuse_below_window (const TpsPushWindow *window, const Client *client,
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

/* Returns NEW if the floor does not cover the push. */
static TpsPushVerdict
judge_by_floor (const Client *client, const TpsPushRequest *request, GError **error)
{
  const Stair *stair = is_covered (&client->now, request->sequence, request->incarnation)
                           ? &client->now
                           : &client->earlier;

  if (!is_covered (stair, request->sequence, request->incarnation))
    return TPS_PUSH_NEW;
  g_set_error (error, TPS_ERROR, TPS_ERROR_STALE,
               "push %" G_GINT64_FORMAT " of client %s: pushes up to %" G_GINT64_FORMAT
               " are no longer remembered",
               request->sequence, request->client, stair->sequence);
  return TPS_PUSH_REFUSED;
}

/* Returns the verdict on a push of a known client. A push below the window is NEW only if its
 * object was created after the last command of the client. */
static TpsPushVerdict
judge (const TpsPushWindow *window, Client *client, const TpsPushRequest *request, gint64 *answer,
       GError **error)
{
  const Running *running = *find_running (client, request->sequence);
  const Push *push;

  if (running != NULL)
    {
      TPS_PLANT ("running-taken-for-applied", return TPS_PUSH_REPEAT);
      return judge_digest (running->has_digest ? &running->digest : NULL, request, TPS_PUSH_RUNNING,
                           error);
    }
  if (is_below_window (window, client, request->sequence))
    return request->incarnation > client->last_lsn
               ? TPS_PUSH_NEW
               : refuse_below_window (window, client, request, error);
  push = find_push (client, request->sequence);
  if (push == NULL)
    return judge_by_floor (client, request, error);
  if (request->incarnation > push->lsn)
    return TPS_PUSH_NEW;
  *answer = push->answer;
  return judge_digest (&push->digest, request, TPS_PUSH_REPEAT, error);
}

/* Refuses a new client, because the share of its tenant, or the memory of all shares, is full. The
 * totals of all callers must not be told to one of them. */
static void
refuse_client (TpsPushWindow *window, const Share *share, const gchar *client, GError **error)
{
  gsize max_members = get_max_members (window, share);

  g_set_error (
      error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
      "client %s: no room to remember its pushes: %s%s already used %u client names, of at "
      "most %" G_GSIZE_FORMAT "%s; a name is forgotten after %" G_GINT64_FORMAT
      " s without a push, or by Node.forget_push_clients",
      client, share->tenant != NULL ? "tenant " : "callers without a tenant",
      share->tenant != NULL ? share->tenant : "", share->n_clients, max_members,
      share->n_clients < max_members ? ", and other callers all that remain" : "",
      window->options.floor_idle_ns / 1000000000);
}

static void
refuse_for_now (const gchar *client, GError **error)
{
  GError *refusal = g_error_new (TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                                 "client %s: no memory to remember its pushes; raise "
                                 "--max-memory-mib",
                                 client);

  tps_error_set_retry_after_ms (refusal, TPS_RETRY_AFTER_MS);
  g_propagate_error (error, refusal);
}

static Client *
add_unknown (TpsPushWindow *window, const TpsPushDigest *name, const TpsPushRequest *request,
             gboolean is_replay, GError **error)
{
  Share *share = find_share (window, request->tenant);

  if (!has_room_for_client (window, share) && !is_replay)
    {
      refuse_client (window, share, request->client, error);
      return NULL;
    }
  if (!charge_client (window, NULL))
    {
      refuse_for_now (request->client, error);
      return NULL;
    }
  return add_client (window, name, share, get_now (window));
}

static void
touch_client (const TpsPushWindow *window, Client *client)
{
  client->heard_ns = get_now (window);
  if (client->n_running > 0)
    return;
  unlink_client (client);
  link_client (client);
}

/* Makes room for a new push, because an applied push must be remembered, and takes the client out
 * of its list. FALSE: `error` is set, and a client without pushes is forgotten. */
static gboolean
make_room_for (TpsPushWindow *window, Client *client, const TpsPushRequest *request, GError **error)
{
  if (client->n_running == 0)
    unlink_client (client);
  if (make_room (window, client))
    return TRUE;
  if (client->n_running == 0 && is_needed (client))
    link_client (client);
  else if (client->n_running == 0)
    free_client (window, client);
  refuse_for_now (request->client, error);
  return FALSE;
}

static void
begin_running (Client *client, const TpsPushRequest *request)
{
  Running *running = g_new0 (Running, 1);

  running->sequence = request->sequence;
  running->incarnation = request->incarnation;
  running->has_digest = request->digest != NULL;
  if (running->has_digest)
    running->digest = *request->digest;
  running->next = client->running;
  client->running = running;
  client->n_running++;
}

/* Removes a running push. The caller must call link_client() or free_client() if it was the last
 * one of the client. */
static Running *
end_running (TpsPushWindow *window, Client *client, gint64 sequence)
{
  Running **place = find_running (client, sequence);
  Running *running = *place;

  *place = running->next;
  client->n_running--;
  client->heard_ns = get_now (window);
  return running;
}

static TpsPushVerdict
begin_known (TpsPushWindow *window, Client *client, const TpsPushRequest *request, gint64 *answer,
             GError **error)
{
  TpsPushVerdict verdict = judge (window, client, request, answer, error);

  touch_client (window, client);
  if (verdict == TPS_PUSH_RUNNING)
    add_waiter (*find_running (client, request->sequence), request);
  if (verdict == TPS_PUSH_NEW && !make_room_for (window, client, request, error))
    return TPS_PUSH_REFUSED;
  if (verdict == TPS_PUSH_NEW)
    begin_running (client, request);
  return verdict;
}

/* ---- the window ------------------------------------------------------------------------------ */

static TpsPushDigest
name_of (const gchar *client)
{
  return tps_push_digest_of_bytes (client, strlen (client));
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
  window->clients = g_hash_table_new (hash_name, is_same_name);
  window->shares = g_hash_table_new_full (g_str_hash, g_str_equal, NULL, free_share);
  window->slots = g_ptr_array_new ();
  return window;
}

void
tps_push_window_get_size (TpsPushWindow *window, TpsPushWindowSize *size)
{
  TPS_LOCK_SCOPE (&window->lock);
  *size = (TpsPushWindowSize) { .n_clients = window->n_windows,
                                .n_pushes = window->n_remembered,
                                .n_floors = window->slots->len - window->n_windows };
}

void
tps_push_window_free (TpsPushWindow *window)
{
  while (window->slots->len > 0)
    free_client (window, window->slots->pdata[window->slots->len - 1]);
  g_ptr_array_unref (window->slots);
  g_hash_table_unref (window->clients);
  if (window->roomy_chunks.head != NULL)
    g_free (window->roomy_chunks.head->data); /* the last chunk */
  g_hash_table_unref (window->shares);
  tps_budget_unref (window->options.budget);
  tps_mutex_clear (&window->lock);
  g_free (window);
}

guint
tps_push_window_forget (TpsPushWindow *window, const gchar *tenant, gint64 idle_ns)
{
  Share *share;
  guint n = 0;

  TPS_LOCK_SCOPE (&window->lock);
  share = g_hash_table_lookup (window->shares, tenant != NULL ? tenant : "");
  if (share != NULL)
    {
      n = share->n_clients;
      forget_idle (window, &share->floors, idle_ns, TRUE);
      forget_idle (window, &share->windows, idle_ns, TRUE);
      n -= share->n_clients;
    }
  return n;
}

TpsPushVerdict
tps_push_window_begin (TpsPushWindow *window, const TpsPushRequest *request, gint64 *answer,
                       GError **error)
{
  TpsPushDigest name = name_of (request->client);
  TpsPushVerdict verdict = TPS_PUSH_REFUSED;
  Client *client;

  TPS_LOCK_SCOPE (&window->lock);
  client = find_client (window, &name);
  if (client == NULL)
    client = add_unknown (window, &name, request, FALSE, error);
  if (client != NULL)
    verdict = begin_known (window, client, request, answer, error);
  return verdict;
}

/* Returns a client with a running push. The lock must be held. */
static Client *
get_client (TpsPushWindow *window, const gchar *client)
{
  TpsPushDigest name = name_of (client);

  return g_hash_table_lookup (window->clients, &name);
}

void
tps_push_window_set_digest (TpsPushWindow *window, const gchar *client, gint64 sequence,
                            const TpsPushDigest *digest)
{
  Running *running;

  TPS_LOCK_SCOPE (&window->lock);
  running = *find_running (get_client (window, client), sequence);
  running->has_digest = TRUE;
  running->digest = *digest;
}

void
tps_push_window_end (TpsPushWindow *window, const gchar *client, gint64 sequence, gint64 answer,
                     gint64 lsn)
{
  Running *running;
  Client *known;

  tps_mutex_lock (&window->lock);
  known = get_client (window, client);
  running = end_running (window, known, sequence);
  remember (window, known, running, answer, lsn);
  if (known->n_running == 0)
    link_client (known);
  tps_mutex_unlock (&window->lock);
  tell_waiters (running, client, answer, NULL);
}

void
tps_push_window_fail (TpsPushWindow *window, const gchar *client, gint64 sequence,
                      const GError *error)
{
  Running *running;
  Client *known;

  tps_mutex_lock (&window->lock);
  known = get_client (window, client);
  running = end_running (window, known, sequence);
  if (known->n_running == 0 && is_needed (known))
    link_client (known);
  else if (known->n_running == 0)
    free_client (window, known);
  tps_mutex_unlock (&window->lock);
  tell_waiters (running, client, 0, error);
}

/* Lets the time since the previous command of the replay pass. A clock that was set back does not
 * count. */
static void
advance_clock (TpsPushWindow *window, gint64 time_ms)
{
  if (time_ms <= window->replayed_ms)
    return;
  if (window->replayed_ms > 0)
    window->ahead_ns += (time_ms - window->replayed_ms) * NS_PER_MS;
  window->replayed_ms = time_ms;
}

/* A push is known if it was remembered or forgotten with this LSN, or a later one: the window of a
 * snapshot has a later state. Otherwise it is remembered, even if the id was used before. */
gboolean
tps_push_window_replay (TpsPushWindow *window, const TpsPushRequest *request, gint64 time_ms,
                        gint64 answer, gint64 lsn, GError **error)
{
  TpsPushDigest name = name_of (request->client);
  Running replayed = { .sequence = request->sequence,
                       .incarnation = request->incarnation,
                       .digest = *request->digest };
  TpsPushRequest known = *request;
  gboolean ok;
  Client *client;
  gint64 unused;

  known.incarnation = lsn;
  TPS_LOCK_SCOPE (&window->lock);
  advance_clock (window, time_ms);
  client = find_client (window, &name);
  if (client == NULL)
    client = add_unknown (window, &name, request, TRUE, error);
  ok = client != NULL;
  if (ok)
    touch_client (window, client);
  if (ok && judge (window, client, &known, &unused, NULL) == TPS_PUSH_NEW)
    {
      ok = make_room_for (window, client, request, error);
      if (ok)
        {
          remember (window, client, &replayed, answer, lsn);
          link_client (client);
        }
    }
  return ok;
}

/* ---- export ---------------------------------------------------------------------------------- */

static gsize
padded (gsize n_bytes)
{
  return (n_bytes + 7) / 8 * 8;
}

static void
append_client (const Client *client, gint64 now_ns, GByteArray *records)
{
  static const guint8 zeros[8];
  const gchar *tenant = client->share->tenant != NULL ? client->share->tenant : "";
  gsize n_tenant = strlen (tenant);
  gsize n_pushes = client->n_pushes * sizeof client->pushes[0];
  ClientRecord record = {
    .head = { CLIENT_RECORD, (guint32) (sizeof record + padded (n_tenant) + n_pushes) },
    .n_tenant = n_tenant,
    .name = client->name,
    .idle_ns = now_ns - client->heard_ns,
    .now = client->now,
    .earlier = client->earlier,
  };

  g_byte_array_append (records, (const guint8 *) &record, sizeof record);
  g_byte_array_append (records, (const guint8 *) tenant, (guint) n_tenant);
  g_byte_array_append (records, zeros, (guint) (padded (n_tenant) - n_tenant));
  if (n_pushes > 0)
    g_byte_array_append (records, (const guint8 *) client->pushes, (guint) n_pushes);
}

void
tps_push_export_begin (TpsPushWindow *window)
{
  TPS_LOCK_SCOPE (&window->lock);
  window->n_exported = 0;
}

gboolean
tps_push_export_some (TpsPushWindow *window, GByteArray *records)
{
  guint before = records->len;
  gint64 now_ns;

  TPS_LOCK_SCOPE (&window->lock);
  now_ns = get_now (window);
  while (records->len - before < TPS_PUSH_EXPORT_BYTES && window->n_exported < window->slots->len)
    {
      const Client *client = window->slots->pdata[window->n_exported++];

      if (is_needed (client))
        append_client (client, now_ns, records);
    }
  return records->len > before;
}

/* Returns TRUE if `bytes` are UTF-8 text without a 0 byte. */
static gboolean
is_text (const guint8 *bytes, gsize n_bytes)
{
  return memchr (bytes, 0, n_bytes) == NULL
         && g_utf8_validate ((const gchar *) bytes, (gssize) n_bytes, NULL);
}

static gboolean
is_lsn (gint64 lsn)
{
  return lsn >= 0 && lsn <= TPS_MAX_COUNT;
}

/* Gives a new client `n` pushes; if there is no room for them, raises its floor instead. FALSE: the
 * pushes are not valid, or not in ascending order. `bytes` need not be aligned. */
static gboolean
read_pushes (TpsPushWindow *window, Client *client, const guint8 *bytes, guint n)
{
  gint64 last = G_MININT64;
  gboolean is_valid = TRUE, has_room;

  unlink_client (client);
  has_room = n > 0 && reserve (window, client, n);
  for (guint i = 0; i < n && is_valid; i++)
    {
      Push push;

      memcpy (&push, bytes + i * sizeof push, sizeof push);
      is_valid = is_lsn (push.lsn) && (i == 0 || push.sequence > last);
      last = push.sequence;
      client->last_lsn = MAX (client->last_lsn, push.lsn);
      if (has_room)
        client->pushes[client->n_pushes++] = push;
      else
        raise_stair (&client->now, push.sequence, push.lsn);
    }
  window->n_remembered += client->n_pushes;
  link_client (client);
  return is_valid;
}

/* Reads the record of a client, whose tenant and pushes are at `rest`, in `n_rest` bytes. The
 * client need not fit its share. FALSE: the record is damaged, the client is known already, or
 * `error` is set. */
static gboolean
read_client (TpsPushWindow *window, const ClientRecord *record, const guint8 *rest, gsize n_rest,
             GError **error)
{
  g_autofree gchar *tenant = NULL;
  gsize n_tenant = padded (record->n_tenant);
  Client *client;

  if (record->n_tenant > n_rest || n_tenant > n_rest || (n_rest - n_tenant) % sizeof (Push) != 0
      || !is_text (rest, record->n_tenant) || !is_lsn (record->now.lsn)
      || !is_lsn (record->earlier.lsn) || g_hash_table_contains (window->clients, &record->name)
      || !charge_client (window, error))
    return FALSE;
  tenant = record->n_tenant > 0 ? g_strndup ((const gchar *) rest, record->n_tenant) : NULL;
  client = add_client (window, &record->name, find_share (window, tenant),
                       get_now (window) - CLAMP (record->idle_ns, 0, G_MAXINT64 / 4));
  client->now = record->now;
  client->earlier = record->earlier;
  client->last_lsn = MAX (record->now.lsn, record->earlier.lsn);
  return read_pushes (window, client, rest + n_tenant,
                      (guint) ((n_rest - n_tenant) / sizeof (Push)));
}

/* Reads the record of a window that an earlier version has written. */
static gboolean
read_window (TpsPushWindow *window, const WindowRecord *record, const guint8 *rest, gsize n_rest,
             GError **error)
{
  gsize n_name = padded (record->n_name);
  ClientRecord client = {
    .n_tenant = record->n_tenant,
    .idle_ns = record->idle_ns,
    .now = record->now,
    .earlier = record->earlier,
  };

  if (record->n_name == 0 || n_name > n_rest || !is_text (rest, record->n_name))
    return FALSE;
  client.name = tps_push_digest_of_bytes (rest, record->n_name);
  return read_client (window, &client, rest + n_name, n_rest - n_name, error);
}

/* Reads one whole record. The lock is held. FALSE: the bytes are not a record, or `error` is
 * set. */
static gboolean
read_record (TpsPushWindow *window, const Head *head, const guint8 *bytes, GError **error)
{
  union
  {
    ClientRecord client;
    WindowRecord window;
  } record;

  if (head->n_bytes < sizeof record)
    return FALSE;
  memcpy (&record, bytes, sizeof record);
  if (head->kind == CLIENT_RECORD)
    return read_client (window, &record.client, bytes + sizeof record,
                        head->n_bytes - sizeof record, error);
  return head->kind == WINDOW_RECORD
         && read_window (window, &record.window, bytes + sizeof record,
                         head->n_bytes - sizeof record, error);
}

gboolean
tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes, gsize *n_used,
                      GError **error)
{
  gboolean ok = TRUE;
  Head head;

  *n_used = 0;
  TPS_LOCK_SCOPE (&window->lock);
  while (ok && n_bytes - *n_used >= sizeof head)
    {
      memcpy (&head, records + *n_used, sizeof head);
      if (head.n_bytes > n_bytes - *n_used)
        break;
      ok = read_record (window, &head, records + *n_used, error);
      if (ok)
        *n_used += head.n_bytes;
    }
  return ok;
}

static gint
compare_heard (gconstpointer a, gconstpointer b, gpointer unused)
{
  const Client *left = a;
  const Client *right = b;

  return (left->heard_ns > right->heard_ns) - (left->heard_ns < right->heard_ns);
}

void
tps_push_export_end_read (TpsPushWindow *window)
{
  GHashTableIter shares;
  gpointer share;

  TPS_LOCK_SCOPE (&window->lock);
  g_hash_table_iter_init (&shares, window->shares);
  while (g_hash_table_iter_next (&shares, NULL, &share))
    g_queue_sort (&((Share *) share)->windows, compare_heard, NULL);
  while ((window->n_windows > window->options.max_clients || has_too_many (window))
         && give_up_one (window))
    ;
  g_hash_table_iter_init (&shares, window->shares);
  while (g_hash_table_iter_next (&shares, NULL, &share))
    g_queue_sort (&((Share *) share)->floors, compare_heard, NULL);
}

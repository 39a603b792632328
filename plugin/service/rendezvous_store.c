/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/rendezvous_store.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/server/push_digest.h"

/* ---- waiters -------------------------------------------------------------------------------- */

/* The charge of a waiter: an estimate for its call, two copies of its key, two queues and a node of
 * the tree. */
#define WAITER_BYTES ((gsize) 1536)

typedef struct
{
  GList of_key;   /* in the queue of its key */
  GList of_owner; /* in the queue of its owner */
  GList ended;    /* in the queue of ended waiters, which must be answered */
  guint64 id;
  gchar *key;
  TpsRendezvousWait wait;
  GBytes *value; /* NULL until the key gets a value */
} Waiter;

/* The waiters of a store, found by key, by owner and by deadline. A waiter that is taken out moves
 * to a queue, from which it is answered without a lock. */
typedef struct
{
  GHashTable *by_key;   /* key -> GQueue of waiters */
  GHashTable *by_owner; /* owner -> GQueue of waiters that have an owner */
  GTree *by_deadline;   /* waiter -> waiter, the earliest first */
  guint64 last_id;
  guint n_waiters;
  TpsCharge charge; /* of all waiters; with a reference to the budget */
} Waiters;

static gint
compare_deadlines (gconstpointer a, gconstpointer b, gpointer unused)
{
  const Waiter *left = a;
  const Waiter *right = b;

  if (left->wait.deadline_ns != right->wait.deadline_ns)
    return left->wait.deadline_ns < right->wait.deadline_ns ? -1 : 1;
  return left->id < right->id ? -1 : left->id > right->id;
}

static gboolean
refuse (GError **error, const gchar *key, guint limit, const gchar *whose)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "key %s: too many calls are waiting; the limit is %u %s", key, limit, whose);
  if (error != NULL)
    tps_error_set_retry_after_ms (*error, TPS_RETRY_AFTER_MS);
  return FALSE;
}

static gboolean
check_waiters (const Waiters *waiters, const gchar *key, gconstpointer owner, GError **error)
{
  const GQueue *others = owner != NULL ? g_hash_table_lookup (waiters->by_owner, owner) : NULL;

  if (waiters->n_waiters >= TPS_RENDEZVOUS_MAX_WAITERS)
    return refuse (error, key, TPS_RENDEZVOUS_MAX_WAITERS, "in all");
  if (others != NULL && others->length >= TPS_RENDEZVOUS_MAX_OWNER_WAITERS)
    return refuse (error, key, TPS_RENDEZVOUS_MAX_OWNER_WAITERS, "for each connection");
  return TRUE;
}

/* Returns the queue of a key, which is created if necessary. The key is copied if it is text. */
static GQueue *
ensure_queue (GHashTable *table, gconstpointer key, gboolean is_text)
{
  GQueue *queue = g_hash_table_lookup (table, key);

  if (queue != NULL)
    return queue;
  queue = g_new0 (GQueue, 1);
  g_hash_table_insert (table, is_text ? g_strdup (key) : (gpointer) (gsize) key, queue);
  return queue;
}

/* Adds a waiter with copies of `key` and `wait`. Errors: RESOURCE_EXHAUSTED, with retry_after_ms
 * (TPS_RENDEZVOUS_MAX_WAITERS, TPS_RENDEZVOUS_MAX_OWNER_WAITERS, the budget). */
static gboolean
add_waiter (Waiters *waiters, const gchar *key, const TpsRendezvousWait *wait, GError **error)
{
  Waiter *waiter;

  if (!check_waiters (waiters, key, wait->owner, error)
      || !tps_charge_add (&waiters->charge, WAITER_BYTES, error))
    return FALSE;
  waiter = g_new0 (Waiter, 1);
  waiter->id = ++waiters->last_id;
  waiter->key = g_strdup (key);
  waiter->wait = *wait;
  waiter->of_key.data = waiter->of_owner.data = waiter->ended.data = waiter;
  g_queue_push_tail_link (ensure_queue (waiters->by_key, key, TRUE), &waiter->of_key);
  if (wait->owner != NULL)
    g_queue_push_tail_link (ensure_queue (waiters->by_owner, wait->owner, FALSE),
                            &waiter->of_owner);
  g_tree_insert (waiters->by_deadline, waiter, waiter);
  waiters->n_waiters++;
  return TRUE;
}

static void
leave_queue (GHashTable *table, gconstpointer key, GList *link)
{
  GQueue *queue = g_hash_table_lookup (table, key);

  g_queue_unlink (queue, link);
  if (queue->length == 0)
    g_hash_table_remove (table, key);
}

/* Moves a waiter to `ended`. The cost is logarithmic in the number of all waiters. */
static void
take (Waiters *waiters, Waiter *waiter, GQueue *ended)
{
  leave_queue (waiters->by_key, waiter->key, &waiter->of_key);
  if (waiter->wait.owner != NULL)
    leave_queue (waiters->by_owner, waiter->wait.owner, &waiter->of_owner);
  g_tree_remove (waiters->by_deadline, waiter);
  waiters->n_waiters--;
  tps_charge_set (&waiters->charge, waiters->n_waiters * WAITER_BYTES, NULL);
  g_queue_push_tail_link (ended, &waiter->ended);
}

static Waiter *
get_earliest (const Waiters *waiters)
{
  GTreeNode *node = g_tree_node_first (waiters->by_deadline);

  return node != NULL ? g_tree_node_key (node) : NULL;
}

static void
take_late (Waiters *waiters, gint64 now_ns, GQueue *ended)
{
  Waiter *waiter;

  while ((waiter = get_earliest (waiters)) != NULL && waiter->wait.deadline_ns <= now_ns)
    take (waiters, waiter, ended);
}

static const gchar *
explain (TpsErrorCode code)
{
  switch (code)
    {
    case TPS_ERROR_DEADLINE_EXCEEDED:
      return "was not set before the deadline";
    case TPS_ERROR_CONNECTION_LOST:
      return "was not set before the connection closed";
    default:
      return "was not set: the rendezvous store is shutting down";
    }
}

/* Answers and frees the waiters in `ended`: with their values, or with an error of `code` if
 * they have none. The caller must not hold a lock. */
static void
answer_waiters (GQueue *ended, TpsErrorCode code)
{
  GList *link;

  while ((link = g_queue_pop_head_link (ended)) != NULL)
    {
      Waiter *waiter = link->data;
      g_autoptr (GError) error = NULL;

      if (waiter->value == NULL)
        error = g_error_new (TPS_ERROR, code, "key %s %s", waiter->key, explain (code));
      waiter->wait.done (waiter->wait.user_data, waiter->value, error);
      g_clear_pointer (&waiter->value, g_bytes_unref);
      g_free (waiter->key);
      g_free (waiter);
    }
}

/* ---- store ---------------------------------------------------------------------------------- */

#define MAX_KEY_BYTES 255
#define KEY_OVERHEAD_BYTES ((gsize) 256) /* an estimate for a key with its value in the tree */

struct TpsRendezvousStore
{
  TpsMutex lock; /* guards all fields below; never held during a callback */
  GTree *values; /* gchar * to GBytes, in the order of the keys */
  gsize n_bytes;
  TpsBudget *budget; /* of keys, values and waiters */
  Waiters waiters;
  TpsPushWindow *pushes;
  gboolean down;
};

static gboolean
check_key (const gchar *key, const gchar *what, GError **error)
{
  gsize n_bytes = key != NULL ? strlen (key) : 0;

  if (n_bytes >= 1 && n_bytes <= MAX_KEY_BYTES
      && strspn (key, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:/-")
             == n_bytes)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s \"%.64s\"%s: expected [A-Za-z0-9_.:/-]{1,255}", what, key != NULL ? key : "",
                   n_bytes > 64 ? "..." : "");
}

static gboolean
check_up (const TpsRendezvousStore *store, GError **error)
{
  if (!store->down)
    return TRUE;
  return tps_fail (error, TPS_ERROR_UNAVAILABLE, "the rendezvous store is shutting down");
}

static gboolean
refuse_growth (GError **error, const gchar *key, const gchar *limit)
{
  return tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "key %s: a store holds at most %s", key,
                   limit);
}

/* ---- values --------------------------------------------------------------------------------- */

/* The bytes of a value, with the charge for the value and its key. Replies may keep a value after
 * its key has been removed. */
typedef struct
{
  TpsBudget *budget; /* a reference */
  gsize n_charged;
  guint8 bytes[];
} Value;

static void
free_value (gpointer data)
{
  Value *value = data;
  TpsBudget *budget = value->budget;
  gsize n_charged = value->n_charged;

  g_free (value);
  tps_budget_release (budget, n_charged);
  tps_budget_unref (budget);
}

/* Copies the value, because it may be in a buffer that is charged to in-flight requests. The caller
 * owns the copy. */
static GBytes *
copy_value (TpsBudget *budget, const gchar *key, GBytes *value, GError **error)
{
  gsize n_bytes;
  gconstpointer bytes = g_bytes_get_data (value, &n_bytes);
  gsize n_charged = KEY_OVERHEAD_BYTES + strlen (key) + n_bytes;
  Value *copy;

  if (!tps_budget_charge (budget, n_charged, error))
    return NULL;
  copy = g_try_malloc (sizeof *copy + n_bytes);
  if (copy == NULL)
    {
      tps_budget_release (budget, n_charged);
      return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                            "key %.64s: no memory for a value of %" G_GSIZE_FORMAT " bytes", key,
                            n_bytes);
    }
  copy->budget = tps_budget_ref (budget);
  copy->n_charged = n_charged;
  if (n_bytes > 0)
    memcpy (copy->bytes, bytes, n_bytes);
  return g_bytes_new_with_free_func (copy->bytes, n_bytes, free_value, copy);
}

static gsize
count_bytes (const gchar *key, GBytes *value)
{
  return strlen (key) + g_bytes_get_size (value);
}

static gboolean
check_room (const TpsRendezvousStore *store, const gchar *key, GBytes *value, GBytes *old,
            GError **error)
{
  gsize n_old = old != NULL ? count_bytes (key, old) : 0;

  if (g_bytes_get_size (value) > TPS_RENDEZVOUS_MAX_VALUE_BYTES)
    return refuse_growth (error, key, "1 MiB per value");
  if (old == NULL && (guint) g_tree_nnodes (store->values) >= TPS_RENDEZVOUS_MAX_KEYS)
    return refuse_growth (error, key, "65,536 keys");
  if (store->n_bytes - n_old + count_bytes (key, value) > TPS_RENDEZVOUS_MAX_BYTES)
    return refuse_growth (error, key, "256 MiB");
  return TRUE;
}

/* Sets the value of a key. Moves waiters for the key to `ended`. The lock must be held. */
static gboolean
set_value (TpsRendezvousStore *store, const gchar *key, GBytes *value, GQueue *ended,
           GError **error)
{
  GBytes *old = g_tree_lookup (store->values, key);
  GBytes *copy;
  const GQueue *queue; /* of the waiters for the key */

  if (!check_room (store, key, value, old, error))
    return FALSE;
  copy = copy_value (store->budget, key, value, error);
  if (copy == NULL)
    return FALSE;
  store->n_bytes += count_bytes (key, copy) - (old != NULL ? count_bytes (key, old) : 0);
  g_tree_replace (store->values, g_strdup (key), copy);
  while ((queue = g_hash_table_lookup (store->waiters.by_key, key)) != NULL)
    {
      Waiter *waiter = queue->head->data;

      waiter->value = g_bytes_ref (copy);
      take (&store->waiters, waiter, ended);
    }
  return TRUE;
}

/* ---- operations ----------------------------------------------------------------------------- */

static gint
compare_keys (gconstpointer a, gconstpointer b, gpointer unused)
{
  return strcmp (a, b);
}

TpsRendezvousStore *
tps_rendezvous_store_new (const TpsBudgets *budgets)
{
  const TpsBudgets *charged = tps_budgets_or_none (budgets);
  TpsPushWindowOptions pushes = { .budget = charged->rendezvous_windows };
  TpsRendezvousStore *store = g_new0 (TpsRendezvousStore, 1);

  tps_mutex_init (&store->lock);
  store->budget = tps_budget_ref (charged->rendezvous);
  store->values = g_tree_new_full (compare_keys, NULL, g_free, (GDestroyNotify) g_bytes_unref);
  store->waiters = (Waiters) {
    .by_key = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free),
    .by_owner = g_hash_table_new_full (NULL, NULL, NULL, g_free),
    .by_deadline = g_tree_new_full (compare_deadlines, NULL, NULL, NULL),
    .charge = { tps_budget_ref (store->budget), 0 },
  };
  store->pushes = tps_push_window_new (&pushes);
  return store;
}

void
tps_rendezvous_store_free (TpsRendezvousStore *store)
{
  g_assert (store->waiters.n_waiters == 0);
  g_hash_table_unref (store->waiters.by_key);
  g_hash_table_unref (store->waiters.by_owner);
  g_tree_unref (store->waiters.by_deadline);
  tps_budget_unref (store->waiters.charge.budget);
  g_tree_unref (store->values);
  tps_budget_unref (store->budget);
  tps_push_window_free (store->pushes);
  tps_mutex_clear (&store->lock);
  g_free (store);
}

gboolean
tps_rendezvous_store_put (TpsRendezvousStore *store, const gchar *key, GBytes *value,
                          GError **error)
{
  GQueue ended = G_QUEUE_INIT;
  gboolean ok;

  if (!check_key (key, "key", error))
    return FALSE;
  tps_mutex_lock (&store->lock);
  ok = check_up (store, error) && set_value (store, key, value, &ended, error);
  tps_mutex_unlock (&store->lock);
  answer_waiters (&ended, TPS_ERROR_UNAVAILABLE);
  return ok;
}

GBytes *
tps_rendezvous_store_peek (TpsRendezvousStore *store, const gchar *key, GError **error)
{
  GBytes *value = NULL;

  if (!check_key (key, "key", error))
    return NULL;
  TPS_LOCK_SCOPE (&store->lock);
  if (check_up (store, error))
    {
      value = g_tree_lookup (store->values, key);
      if (value != NULL)
        g_bytes_ref (value);
      else
        g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "key %s does not exist", key);
    }
  return value;
}

static gboolean
check_connected (const TpsRendezvousWait *wait, GError **error)
{
  if (wait->is_connected == NULL || wait->is_connected (wait->user_data))
    return TRUE;
  return tps_fail (error, TPS_ERROR_CONNECTION_LOST, "the connection has closed");
}

void
tps_rendezvous_store_get (TpsRendezvousStore *store, const gchar *key,
                          const TpsRendezvousWait *wait)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (GBytes) value = NULL;
  gboolean waits = FALSE;

  if (check_key (key, "key", &error))
    {
      tps_mutex_lock (&store->lock);
      if (check_up (store, &error))
        {
          value = g_tree_lookup (store->values, key);
          if (value != NULL)
            g_bytes_ref (value);
          else if (check_connected (wait, &error))
            waits = add_waiter (&store->waiters, key, wait, &error);
        }
      tps_mutex_unlock (&store->lock);
    }
  if (!waits)
    wait->done (wait->user_data, value, error);
}

void
tps_rendezvous_store_drop_owner (TpsRendezvousStore *store, gconstpointer owner)
{
  const GQueue *queue;
  GQueue ended = G_QUEUE_INIT;

  tps_mutex_lock (&store->lock);
  while ((queue = g_hash_table_lookup (store->waiters.by_owner, owner)) != NULL)
    take (&store->waiters, queue->head->data, &ended);
  tps_mutex_unlock (&store->lock);
  answer_waiters (&ended, TPS_ERROR_CONNECTION_LOST);
}

/* Parses a decimal number. A value with a zero byte must be refused, because the byte would hide
 * the bytes after it. `bytes` is NULL if the value is empty. */
static gboolean
parse_number (const gchar *key, GBytes *value, gint64 *number, GError **error)
{
  gsize n_bytes;
  const gchar *bytes = g_bytes_get_data (value, &n_bytes);
  g_autofree gchar *text = g_strndup (bytes, MIN (n_bytes, 32));

  if (n_bytes > 0 && n_bytes < 32 && strlen (text) == n_bytes
      && g_ascii_string_to_signed (text, 10, G_MININT64, G_MAXINT64, number, NULL))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "key %s: its value is not a decimal number",
                   key);
}

/* Adds `amount` to the number in the value of a key; a missing key counts as 0. Moves waiters for
 * the key to `ended`. The lock must be held. */
static gboolean
add_to_value (TpsRendezvousStore *store, const gchar *key, gint64 amount, gint64 *sum,
              GQueue *ended, GError **error)
{
  g_autoptr (GBytes) value = NULL;
  GBytes *old = g_tree_lookup (store->values, key);
  gint64 number = 0;
  gchar *text;

  if (old != NULL && !parse_number (key, old, &number, error))
    return FALSE;
  if (__builtin_add_overflow (number, amount, sum))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "key %s: %" G_GINT64_FORMAT " + %" G_GINT64_FORMAT " overflows", key, number,
                     amount);
  text = g_strdup_printf ("%" G_GINT64_FORMAT, *sum);
  value = g_bytes_new_take (text, strlen (text));
  return set_value (store, key, value, ended, error);
}

TpsPushWindow *
tps_rendezvous_store_get_pushes (TpsRendezvousStore *store)
{
  return store->pushes;
}

/* Adds to a value, unless the push has been applied already. The lock must be held; therefore, the
 * window never contains a running push. */
static gboolean
add_once (TpsRendezvousStore *store, const gchar *key, gint64 amount, const TpsRendezvousPush *push,
          gint64 *sum, GQueue *ended, GError **error)
{
  TpsPushHash *hash = tps_push_hash_new ();
  TpsPushDigest digest;
  g_autoptr (GError) failure = NULL;
  TpsPushRequest request = {
    .client = push->client, .sequence = push->sequence, .digest = &digest, .tenant = push->tenant
  };
  TpsPushVerdict verdict;

  tps_push_hash_add_string (hash, key);
  tps_push_hash_add_i64 (hash, amount);
  digest = tps_push_hash_end (hash);
  verdict = tps_push_window_begin (store->pushes, &request, sum, error);
  if (verdict != TPS_PUSH_NEW)
    return verdict == TPS_PUSH_REPEAT;
  add_to_value (store, key, amount, sum, ended, &failure);
  if (failure == NULL)
    tps_push_window_end (store->pushes, push->client, push->sequence, *sum, 0);
  else
    tps_push_window_fail (store->pushes, push->client, push->sequence, failure);
  if (failure == NULL)
    return TRUE;
  g_propagate_error (error, g_steal_pointer (&failure));
  return FALSE;
}

gboolean
tps_rendezvous_store_add (TpsRendezvousStore *store, const gchar *key, gint64 amount,
                          const TpsRendezvousPush *push, gint64 *sum, GError **error)
{
  GQueue ended = G_QUEUE_INIT;
  gboolean has_push = push != NULL && push->client != NULL;
  gboolean ok;

  if (!check_key (key, "key", error) || (has_push && !check_key (push->client, "client", error)))
    return FALSE;
  tps_mutex_lock (&store->lock);
  ok = check_up (store, error)
       && (has_push ? add_once (store, key, amount, push, sum, &ended, error)
                    : add_to_value (store, key, amount, sum, &ended, error));
  tps_mutex_unlock (&store->lock);
  answer_waiters (&ended, TPS_ERROR_UNAVAILABLE);
  return ok;
}

gboolean
tps_rendezvous_store_remove (TpsRendezvousStore *store, const gchar *prefix, GError **error)
{
  GTreeNode *node;
  gboolean ok;

  if (!check_key (prefix, "prefix", error))
    return FALSE;
  TPS_LOCK_SCOPE (&store->lock);
  ok = check_up (store, error);
  while (ok && (node = g_tree_lower_bound (store->values, prefix)) != NULL
         && g_str_has_prefix (g_tree_node_key (node), prefix))
    {
      store->n_bytes -= count_bytes (g_tree_node_key (node), g_tree_node_value (node));
      g_tree_remove (store->values, g_tree_node_key (node));
    }
  return ok;
}

/* ---- expiry and shut-down ------------------------------------------------------------------- */

void
tps_rendezvous_store_get_size (TpsRendezvousStore *store, guint *n_keys, guint *n_waiters)
{
  TPS_LOCK_SCOPE (&store->lock);
  *n_keys = (guint) g_tree_nnodes (store->values);
  *n_waiters = store->waiters.n_waiters;
}

gint64
tps_rendezvous_store_get_next_deadline_ns (TpsRendezvousStore *store)
{
  const Waiter *earliest;

  TPS_LOCK_SCOPE (&store->lock);
  earliest = get_earliest (&store->waiters);
  return earliest != NULL ? earliest->wait.deadline_ns : G_MAXINT64;
}

void
tps_rendezvous_store_expire (TpsRendezvousStore *store, gint64 now_ns)
{
  GQueue ended = G_QUEUE_INIT;

  tps_mutex_lock (&store->lock);
  take_late (&store->waiters, now_ns, &ended);
  tps_mutex_unlock (&store->lock);
  answer_waiters (&ended, TPS_ERROR_DEADLINE_EXCEEDED);
}

void
tps_rendezvous_store_shut_down (TpsRendezvousStore *store)
{
  GQueue ended = G_QUEUE_INIT;

  tps_mutex_lock (&store->lock);
  store->down = TRUE;
  take_late (&store->waiters, G_MAXINT64, &ended);
  tps_mutex_unlock (&store->lock);
  answer_waiters (&ended, TPS_ERROR_UNAVAILABLE);
}

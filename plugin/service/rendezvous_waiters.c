/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/service/rendezvous_waiters.h"

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

static gint
compare_deadlines (gconstpointer a, gconstpointer b, gpointer unused)
{
  const Waiter *left = a;
  const Waiter *right = b;

  if (left->wait.deadline_ns != right->wait.deadline_ns)
    return left->wait.deadline_ns < right->wait.deadline_ns ? -1 : 1;
  return left->id < right->id ? -1 : left->id > right->id;
}

void
tps_rendezvous_waiters_init (TpsRendezvousWaiters *waiters, TpsBudget *budget)
{
  *waiters = (TpsRendezvousWaiters) {
    .by_key = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free),
    .by_owner = g_hash_table_new_full (NULL, NULL, NULL, g_free),
    .by_deadline = g_tree_new_full (compare_deadlines, NULL, NULL, NULL),
    .charge = { tps_budget_ref (budget), 0 },
  };
}

void
tps_rendezvous_waiters_clear (TpsRendezvousWaiters *waiters)
{
  g_assert (waiters->n_waiters == 0);
  g_hash_table_unref (waiters->by_key);
  g_hash_table_unref (waiters->by_owner);
  g_tree_unref (waiters->by_deadline);
  tps_budget_unref (waiters->charge.budget);
}

/* ---- new waiters ---------------------------------------------------------------------------- */

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
check_room (const TpsRendezvousWaiters *waiters, const gchar *key, gconstpointer owner,
            GError **error)
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

gboolean
tps_rendezvous_waiters_add (TpsRendezvousWaiters *waiters, const gchar *key,
                            const TpsRendezvousWait *wait, GError **error)
{
  Waiter *waiter;

  if (!check_room (waiters, key, wait->owner, error)
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

/* ---- ended waiters -------------------------------------------------------------------------- */

static void
leave_queue (GHashTable *table, gconstpointer key, GList *link)
{
  GQueue *queue = g_hash_table_lookup (table, key);

  g_queue_unlink (queue, link);
  if (queue->length == 0)
    g_hash_table_remove (table, key);
}

static void
take (TpsRendezvousWaiters *waiters, Waiter *waiter, GQueue *ended)
{
  leave_queue (waiters->by_key, waiter->key, &waiter->of_key);
  if (waiter->wait.owner != NULL)
    leave_queue (waiters->by_owner, waiter->wait.owner, &waiter->of_owner);
  g_tree_remove (waiters->by_deadline, waiter);
  waiters->n_waiters--;
  tps_charge_set (&waiters->charge, waiters->n_waiters * WAITER_BYTES, NULL);
  g_queue_push_tail_link (ended, &waiter->ended);
}

void
tps_rendezvous_waiters_take_key (TpsRendezvousWaiters *waiters, const gchar *key, GBytes *value,
                                 GQueue *ended)
{
  const GQueue *queue;

  while ((queue = g_hash_table_lookup (waiters->by_key, key)) != NULL)
    {
      Waiter *waiter = queue->head->data;

      waiter->value = g_bytes_ref (value);
      take (waiters, waiter, ended);
    }
}

void
tps_rendezvous_waiters_take_owner (TpsRendezvousWaiters *waiters, gconstpointer owner,
                                   GQueue *ended)
{
  const GQueue *queue;

  while ((queue = g_hash_table_lookup (waiters->by_owner, owner)) != NULL)
    take (waiters, queue->head->data, ended);
}

static Waiter *
get_earliest (const TpsRendezvousWaiters *waiters)
{
  GTreeNode *node = g_tree_node_first (waiters->by_deadline);

  return node != NULL ? g_tree_node_key (node) : NULL;
}

void
tps_rendezvous_waiters_take_late (TpsRendezvousWaiters *waiters, gint64 now_ns, GQueue *ended)
{
  Waiter *waiter;

  while ((waiter = get_earliest (waiters)) != NULL && waiter->wait.deadline_ns <= now_ns)
    take (waiters, waiter, ended);
}

void
tps_rendezvous_waiters_take_all (TpsRendezvousWaiters *waiters, GQueue *ended)
{
  tps_rendezvous_waiters_take_late (waiters, G_MAXINT64, ended);
}

gint64
tps_rendezvous_waiters_get_next_deadline_ns (const TpsRendezvousWaiters *waiters)
{
  const Waiter *earliest = get_earliest (waiters);

  return earliest != NULL ? earliest->wait.deadline_ns : G_MAXINT64;
}

/* ---- answers -------------------------------------------------------------------------------- */

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

static void
free_waiter (Waiter *waiter)
{
  g_clear_pointer (&waiter->value, g_bytes_unref);
  g_free (waiter->key);
  g_free (waiter);
}

void
tps_rendezvous_waiters_answer (GQueue *ended, TpsErrorCode code)
{
  GList *link;

  while ((link = g_queue_pop_head_link (ended)) != NULL)
    {
      Waiter *waiter = link->data;
      g_autoptr (GError) error = NULL;

      if (waiter->value == NULL)
        error = g_error_new (TPS_ERROR, code, "key %s %s", waiter->key, explain (code));
      waiter->wait.done (waiter->wait.user_data, waiter->value, error);
      free_waiter (waiter);
    }
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/core.h"

#include "runtime/base/error.h"
#include "runtime/device/device_memory.h"

/* ---- list of sessions ----------------------------------------------------------------------- */

typedef struct
{
  guint64 id;
  gpointer session;
} Entry;

/* Returns the index of the first entry with an id above `after`. Entries are sorted by id. The lock
 * must be held. */
static guint
find_after (const TpsSessionList *list, guint64 after)
{
  guint begin = 0, end = list->entries->len;

  while (begin < end)
    {
      guint middle = begin + (end - begin) / 2;

      if (g_array_index (list->entries, Entry, middle).id > after)
        end = middle;
      else
        begin = middle + 1;
    }
  return begin;
}

guint64
tps_session_list_add (TpsSessionList *list, gpointer session)
{
  Entry entry = { .session = session };

  TPS_LOCK_SCOPE (&list->lock);
  entry.id = ++list->last_id;
  g_array_append_val (list->entries, entry);
  return entry.id;
}

void
tps_session_list_remove (TpsSessionList *list, guint64 id)
{
  TPS_LOCK_SCOPE (&list->lock);
  g_array_remove_index (list->entries, find_after (list, id - 1));
}

guint
tps_session_list_ref_next (TpsSessionList *list, guint64 after, gpointer *sessions, guint n_max,
                           void (*ref) (gpointer session))
{
  guint n = 0;

  TPS_LOCK_SCOPE (&list->lock);
  for (guint i = find_after (list, after); i < list->entries->len && n < n_max; i++)
    {
      sessions[n] = g_array_index (list->entries, Entry, i).session;
      ref (sessions[n++]);
    }
  return n;
}

/* ---- core ----------------------------------------------------------------------------------- */

#define MAX_KEPT_BYTES ((gsize) 1 << 30)
/* Page-locked bodies are kept for reuse up to 1 / MAX_KEPT_PINNED_PART of their budget, because an
 * allocation for each request would be too slow. The rest of the memory remains available to other
 * programs. */
#define MAX_KEPT_PINNED_PART 2

static const TpsFamily accepted_connections = TPS_FAMILY (COUNTER, "connections_accepted_total",
                                                          "Connections that were accepted.");
static const TpsFamily refused_connections = TPS_FAMILY (
    COUNTER, "connections_refused_total",
    "Connections that were closed at once, because too many were open.");
static const TpsFamily open_connections = TPS_FAMILY (GAUGE, "connections",
                                                      "Connections that are open.");
static const TpsFamily received_bytes = TPS_FAMILY (
    COUNTER, "received_bytes_total",
    "Bytes that connections received, not counting those of encryption.");
static const TpsFamily sent_bytes = TPS_FAMILY (
    COUNTER, "sent_bytes_total", "Bytes that connections sent, not counting those of encryption.");
static const TpsFamily shared_segments = TPS_FAMILY (
    GAUGE, "shared_segments", "Segments of memory that the process shares with its clients.");

static gint64
read_segments (gpointer unused)
{
  return tps_segments_get_n_in_process ();
}

TpsServerCore *
tps_server_core_new (const TpsServerLimits *limits, const TpsBudgets *budgets, TpsDevice *device,
                     TpsMetrics *metrics)
{
  TpsServerCore *core = g_new0 (TpsServerCore, 1);
  TpsCounters *counters = metrics != NULL ? tps_metrics_get_counters (metrics) : NULL;

  tps_refcount_init (&core->refcount);
  tps_mutex_init (&core->lock);
  tps_cond_init (&core->changed);
  tps_mutex_init (&core->sessions.lock);
  core->sessions.entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  core->limits = *limits;
  core->host_services = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_host_service_free);
  if (metrics != NULL)
    core->metrics = tps_metrics_ref (metrics);
  core->counts = (TpsServerCounts) {
    .accepted = tps_counters_use_counter (counters, &accepted_connections, NULL, NULL),
    .refused = tps_counters_use_counter (counters, &refused_connections, NULL, NULL),
    .open = tps_counters_use_gauge (counters, &open_connections, NULL, NULL),
    .received_bytes = tps_counters_use_counter (counters, &received_bytes, NULL, NULL),
    .sent_bytes = tps_counters_use_counter (counters, &sent_bytes, NULL, NULL),
  };
  tps_counters_add_reader (counters, &shared_segments, NULL, NULL, read_segments, NULL, NULL);
  core->bodies = tps_pinned_pool_new (device, budgets->pending, budgets->kept,
                                      device != NULL ? tps_budget_get_max (budgets->pending)
                                                           / MAX_KEPT_PINNED_PART
                                                     : MAX_KEPT_BYTES);
  core->strangers_bodies = tps_buffer_pool_new (budgets->strangers, NULL, 0);
  core->replies = tps_budget_ref (budgets->replies);
  core->segments = tps_budget_ref (budgets->shared);
  core->segments_on_device = tps_budget_new (NULL, "shared memory of the device",
                                             tps_budget_get_max (budgets->shared));
  core->stopping_error = g_error_new_literal (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                                              "this server is shutting down");
  tps_error_set_retry_after_ms (core->stopping_error, TPS_RETRY_AFTER_MS); /* it may restart */
  return core;
}

TPS_DEFINE_REF (TpsServerCore, tps_server_core)

void
tps_server_core_unref (TpsServerCore *core)
{
  if (!tps_refcount_dec (&core->refcount))
    return;
  g_clear_pointer (&core->dispatcher, tps_dispatcher_unref);
  g_clear_pointer (&core->chunks, tps_chunks_free);
  g_ptr_array_unref (core->host_services);
  g_array_unref (core->sessions.entries);
  tps_mutex_clear (&core->sessions.lock);
  tps_buffer_pool_unref (core->bodies);
  tps_buffer_pool_unref (core->strangers_bodies);
  tps_budget_unref (core->replies);
  tps_budget_unref (core->segments);
  tps_budget_unref (core->segments_on_device);
  g_clear_pointer (&core->tls, tps_tls_acceptor_free);
  g_clear_pointer (&core->access, tps_access_unref);
  g_clear_pointer (&core->metrics, tps_metrics_unref);
  g_clear_pointer (&core->quotas, tps_quotas_unref);
  g_clear_pointer (&core->common_segments, tps_common_segments_unref);
  g_error_free (core->stopping_error);
  tps_cond_clear (&core->changed);
  tps_mutex_clear (&core->lock);
  g_free (core);
}

/* A half-closed connection that closes decrements `n_half_closed` before `n_connections`. */
gboolean
tps_server_core_is_full (TpsServerCore *core)
{
  guint n_half_closed = atomic_load (&core->n_half_closed);

  return atomic_load (&core->n_connections) >= core->limits.max_connections + n_half_closed;
}

/* Both accesses must be sequentially consistent, because the waiter sets `stopping` and then reads
 * the count. Otherwise, the last drop could miss `stopping` while the waiter reads an old count. */
void
tps_server_core_drop (TpsServerCore *core, atomic_uint *count)
{
  if (atomic_fetch_sub (count, 1) != 1 || !atomic_load (&core->stopping))
    return;
  TPS_LOCK_SCOPE (&core->lock);
  tps_cond_broadcast (&core->changed);
}

gboolean
tps_server_core_wait_for_none (TpsServerCore *core, atomic_uint *count, gint64 deadline_ns)
{
  gboolean in_time = TRUE;

  tps_mutex_lock (&core->lock);
  while (atomic_load (count) > 0 && in_time)
    in_time = tps_cond_wait_until (&core->changed, &core->lock, deadline_ns);
  tps_mutex_unlock (&core->lock);
  return atomic_load (count) == 0;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/counters.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/sync.h"

#define N_SHARDS 8
#define CACHE_LINE 64

typedef struct
{
  _Alignas(CACHE_LINE) atomic_ullong n;
} Shard;

struct TpsCounter
{
  Shard shards[N_SHARDS];
};

struct TpsGauge
{
  atomic_llong level;
};

/* One counter or gauge in the list. */
typedef struct
{
  gchar *name;
  gchar *label;
  gchar *value;
  TpsCounter *counter; /* NULL: a gauge */
  TpsGauge *gauge;
  TpsGaugeRead read; /* NULL: the gauge says its level */
  gpointer user_data;
  GDestroyNotify release;
} Entry;

struct TpsCounters
{
  TpsRefcount refcount;

  TpsMutex lock;      /* guards everything below */
  GPtrArray *entries; /* of Entry */
};

static void
entry_free (gpointer data)
{
  Entry *entry = data;

  if (entry->release != NULL)
    entry->release (entry->user_data);
  g_free (entry->name);
  g_free (entry->label);
  g_free (entry->value);
  free (entry->counter);
  g_free (entry->gauge);
  g_free (entry);
}

TpsCounters *
tps_counters_new (void)
{
  TpsCounters *counters = g_new0 (TpsCounters, 1);

  tps_refcount_init (&counters->refcount);
  tps_mutex_init (&counters->lock);
  counters->entries = g_ptr_array_new_with_free_func (entry_free);
  return counters;
}

void
tps_counters_unref (TpsCounters *counters)
{
  if (!tps_refcount_dec (&counters->refcount))
    return;
  g_ptr_array_unref (counters->entries);
  tps_mutex_clear (&counters->lock);
  g_free (counters);
}

/* ---- finding -------------------------------------------------------------------------------- */

static TpsCounter *
counter_new (void)
{
  TpsCounter *counter = aligned_alloc (CACHE_LINE, sizeof *counter);

  g_assert (counter != NULL);
  for (guint i = 0; i < N_SHARDS; i++)
    atomic_init (&counter->shards[i].n, 0);
  return counter;
}

static gboolean
is_entry (const Entry *entry, const gchar *name, const gchar *label, const gchar *value)
{
  return strcmp (entry->name, name) == 0 && g_strcmp0 (entry->label, label) == 0
         && g_strcmp0 (entry->value, value) == 0;
}

/* With the lock held. */
static Entry *
provide_entry (TpsCounters *counters, const gchar *name, const gchar *label, const gchar *value,
               gboolean is_gauge)
{
  Entry *entry = NULL;

  for (guint i = 0; i < counters->entries->len && entry == NULL; i++)
    if (is_entry (counters->entries->pdata[i], name, label, value))
      entry = counters->entries->pdata[i];
  if (entry == NULL)
    {
      entry = g_new0 (Entry, 1);
      entry->name = g_strdup (name);
      entry->label = g_strdup (label);
      entry->value = g_strdup (value);
      if (is_gauge)
        entry->gauge = g_new0 (TpsGauge, 1);
      else
        entry->counter = counter_new ();
      g_ptr_array_add (counters->entries, entry);
    }
  return entry;
}

static Entry *
ensure_entry (TpsCounters *counters, const gchar *name, const gchar *label, const gchar *value,
              gboolean is_gauge)
{
  Entry *entry;

  tps_mutex_lock (&counters->lock);
  entry = provide_entry (counters, name, label, value, is_gauge);
  tps_mutex_unlock (&counters->lock);
  return entry;
}

TpsCounter *
tps_counters_get_counter (TpsCounters *counters, const gchar *name, const gchar *label,
                          const gchar *value)
{
  return counters != NULL ? ensure_entry (counters, name, label, value, FALSE)->counter : NULL;
}

TpsGauge *
tps_counters_get_gauge (TpsCounters *counters, const gchar *name, const gchar *label,
                        const gchar *value)
{
  return counters != NULL ? ensure_entry (counters, name, label, value, TRUE)->gauge : NULL;
}

void
tps_counters_add_gauge (TpsCounters *counters, const gchar *name, const gchar *label,
                        const gchar *value, TpsGaugeRead read, gpointer user_data,
                        GDestroyNotify release)
{
  GDestroyNotify release_old = NULL;
  gpointer old = NULL;
  Entry *entry;

  if (counters == NULL)
    {
      if (release != NULL)
        release (user_data);
      return;
    }
  tps_mutex_lock (&counters->lock);
  entry = provide_entry (counters, name, label, value, TRUE);
  release_old = entry->release;
  old = entry->user_data;
  entry->read = read;
  entry->user_data = user_data;
  entry->release = release;
  tps_mutex_unlock (&counters->lock);
  if (release_old != NULL)
    release_old (old);
}

/* ---- counting ------------------------------------------------------------------------------- */

/* Threads are dealt round the shards. */
static guint
get_shard (void)
{
  static atomic_uint n_threads;
  static _Thread_local guint number; /* from 1; 0 = none yet */

  if (number == 0)
    number = atomic_fetch_add_explicit (&n_threads, 1, memory_order_relaxed) % N_SHARDS + 1;
  return number - 1;
}

void
tps_counter_add (TpsCounter *counter, guint64 n)
{
  if (counter != NULL)
    atomic_fetch_add_explicit (&counter->shards[get_shard ()].n, n, memory_order_relaxed);
}

guint64
tps_counter_get (const TpsCounter *counter)
{
  guint64 n = 0;

  for (guint i = 0; counter != NULL && i < N_SHARDS; i++)
    n += atomic_load_explicit (&counter->shards[i].n, memory_order_relaxed);
  return n;
}

void
tps_gauge_add (TpsGauge *gauge, gint64 delta)
{
  if (gauge != NULL)
    atomic_fetch_add_explicit (&gauge->level, delta, memory_order_relaxed);
}

void
tps_gauge_set (TpsGauge *gauge, gint64 level)
{
  if (gauge != NULL)
    atomic_store_explicit (&gauge->level, level, memory_order_relaxed);
}

gint64
tps_gauge_get (const TpsGauge *gauge)
{
  return gauge != NULL ? atomic_load_explicit (&gauge->level, memory_order_relaxed) : 0;
}

/* ---- listing -------------------------------------------------------------------------------- */

static gint
compare_counts (gconstpointer a, gconstpointer b)
{
  const TpsCount *left = a;
  const TpsCount *right = b;
  gint order = strcmp (left->name, right->name);

  return order != 0 ? order : g_strcmp0 (left->value, right->value);
}

static gint64
get_number (const Entry *entry)
{
  if (entry->read != NULL)
    return entry->read (entry->user_data);
  return entry->gauge != NULL ? tps_gauge_get (entry->gauge)
                              : (gint64) tps_counter_get (entry->counter);
}

GArray *
tps_counters_list (TpsCounters *counters)
{
  GArray *counts = g_array_new (FALSE, FALSE, sizeof (TpsCount));

  tps_mutex_lock (&counters->lock);
  for (guint i = 0; i < counters->entries->len; i++)
    {
      const Entry *entry = counters->entries->pdata[i];
      TpsCount count = {
        .name = entry->name,
        .label = entry->label,
        .value = entry->value,
        .is_gauge = entry->gauge != NULL,
        .number = get_number (entry),
      };

      g_array_append_val (counts, count);
    }
  tps_mutex_unlock (&counters->lock);
  g_array_sort (counts, compare_counts);
  return counts;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_floor.h"

#include <string.h>

#include "runtime/server/push_digest.h"

typedef struct
{
  TpsPushDigest name; /* hash of the client's name; first, the key */
  TpsPushFloor floor;
  gint64 heard_ns;
  GList link; /* in `recent` */
} Entry;

struct TpsPushFloors
{
  guint max_floors;
  gint64 idle_ns;
  TpsCharge charge;
  GHashTable *entries; /* a set of Entry */
  GQueue recent;       /* of Entry, the one heard of longest ago first */
};

static guint
hash_entry (gconstpointer entry)
{
  guint hash;

  memcpy (&hash, ((const Entry *) entry)->name.bytes, sizeof hash);
  return hash;
}

static gboolean
is_same_entry (gconstpointer a, gconstpointer b)
{
  return memcmp (((const Entry *) a)->name.bytes, ((const Entry *) b)->name.bytes,
                 sizeof ((const Entry *) a)->name.bytes)
         == 0;
}

/* ---- one floor ------------------------------------------------------------------------------- */

static void
raise_stair (TpsPushStair *stair, gint64 sequence, gint64 lsn)
{
  if (!stair->is_set)
    *stair = (TpsPushStair) { TRUE, sequence, lsn };
  stair->sequence = MAX (stair->sequence, sequence);
  stair->lsn = MAX (stair->lsn, lsn);
}

void
tps_push_floor_raise (TpsPushFloor *floor, gint64 sequence, gint64 lsn)
{
  raise_stair (&floor->now, sequence, lsn);
}

void
tps_push_floor_begin_anew (TpsPushFloor *floor)
{
  if (floor->now.is_set)
    raise_stair (&floor->earlier, floor->now.sequence, floor->now.lsn);
  floor->now.is_set = FALSE;
}

static gboolean
is_above (const TpsPushStair *stair, gint64 sequence, gint64 incarnation)
{
  return !stair->is_set || sequence > stair->sequence || incarnation > stair->lsn;
}

const TpsPushStair *
tps_push_floor_find_above (const TpsPushFloor *floor, gint64 sequence, gint64 incarnation)
{
  if (!is_above (&floor->now, sequence, incarnation))
    return &floor->now;
  return is_above (&floor->earlier, sequence, incarnation) ? NULL : &floor->earlier;
}

/* ---- all of them ----------------------------------------------------------------------------- */

TpsPushFloors *
tps_push_floors_new (guint max_floors, gint64 idle_ns, TpsBudget *budget)
{
  TpsPushFloors *floors = g_new0 (TpsPushFloors, 1);

  floors->max_floors = max_floors;
  floors->idle_ns = idle_ns;
  floors->charge.budget = budget;
  floors->entries = g_hash_table_new_full (hash_entry, is_same_entry, g_free, NULL);
  g_queue_init (&floors->recent);
  return floors;
}

void
tps_push_floors_free (TpsPushFloors *floors)
{
  g_hash_table_unref (floors->entries);
  tps_charge_clear (&floors->charge);
  g_free (floors);
}

static void
remove_entry (TpsPushFloors *floors, Entry *entry)
{
  g_queue_unlink (&floors->recent, &entry->link);
  g_hash_table_remove (floors->entries, entry);
  tps_charge_set (&floors->charge, floors->charge.n_bytes - TPS_PUSH_FLOOR_BYTES, NULL);
}

static void
expire (TpsPushFloors *floors, gint64 now_ns)
{
  while (floors->recent.head != NULL)
    {
      Entry *entry = floors->recent.head->data;

      if (now_ns - entry->heard_ns < floors->idle_ns)
        return;
      remove_entry (floors, entry);
    }
}

gboolean
tps_push_floors_has_room (TpsPushFloors *floors, gint64 now_ns)
{
  expire (floors, now_ns);
  return floors->recent.length < floors->max_floors
         && floors->charge.n_bytes + TPS_PUSH_FLOOR_BYTES
                <= tps_budget_get_max (floors->charge.budget);
}

static Entry
key_of (const gchar *client)
{
  return (Entry) { .name = tps_push_digest_of_bytes (client, strlen (client)) };
}

static Entry *
find_entry (TpsPushFloors *floors, const gchar *client)
{
  Entry key;

  if (floors->recent.length == 0)
    return NULL;
  key = key_of (client);
  return g_hash_table_lookup (floors->entries, &key);
}

gboolean
tps_push_floors_add (TpsPushFloors *floors, const gchar *client, const TpsPushFloor *floor,
                     gint64 now_ns)
{
  Entry *entry;

  if (!tps_push_floors_has_room (floors, now_ns)
      || !tps_charge_add (&floors->charge, TPS_PUSH_FLOOR_BYTES, NULL))
    return FALSE;
  entry = g_new0 (Entry, 1);
  *entry = key_of (client);
  entry->floor = *floor;
  entry->heard_ns = now_ns;
  entry->link.data = entry;
  g_queue_push_tail_link (&floors->recent, &entry->link);
  g_hash_table_add (floors->entries, entry);
  return TRUE;
}

const TpsPushFloor *
tps_push_floors_find (TpsPushFloors *floors, const gchar *client, gint64 now_ns)
{
  Entry *entry;

  expire (floors, now_ns);
  entry = find_entry (floors, client);
  if (entry == NULL)
    return NULL;
  entry->heard_ns = now_ns;
  g_queue_unlink (&floors->recent, &entry->link);
  g_queue_push_tail_link (&floors->recent, &entry->link);
  return &entry->floor;
}

void
tps_push_floors_remove (TpsPushFloors *floors, const gchar *client)
{
  Entry *entry = find_entry (floors, client);

  if (entry != NULL)
    remove_entry (floors, entry);
}

guint
tps_push_floors_get_n (const TpsPushFloors *floors)
{
  return floors->recent.length;
}

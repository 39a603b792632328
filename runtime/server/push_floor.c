/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_floor.h"

#include <string.h>

#include "runtime/base/slab.h"
#include "runtime/server/push_digest.h"

typedef struct
{
  TpsPushDigest name; /* the digest of the client's name; the key of `entries` */
  TpsPushFloor floor;
  gint64 heard_ns;
  GList link;        /* in `recent` */
  GList export_link; /* in sides[side] */
  TpsExportSide side;
} Entry;

struct TpsPushFloors
{
  guint max_floors;
  gint64 idle_ns;
  TpsCharge charge;
  TpsSlab records;     /* of Entry */
  GHashTable *entries; /* a set of Entry */
  GQueue recent;       /* of Entry, least recently used first */
  GQueue sides[2];     /* of Entry */
  TpsExportSide passed_side;
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

/* Returns TRUE if the stair does not cover the push: the sequence is higher, or the object was
 * created after the last command of the stair. */
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

/* ---- the table of floors --------------------------------------------------------------------- */

TpsPushFloors *
tps_push_floors_new (guint max_floors, gint64 idle_ns, TpsBudget *budget)
{
  TpsPushFloors *floors = g_new0 (TpsPushFloors, 1);

  floors->max_floors = max_floors;
  floors->idle_ns = idle_ns;
  floors->charge.budget = budget;
  tps_slab_init (&floors->records, sizeof (Entry));
  floors->entries = g_hash_table_new (hash_entry, is_same_entry);
  g_queue_init (&floors->recent);
  g_queue_init (&floors->sides[0]);
  g_queue_init (&floors->sides[1]);
  return floors;
}

static void
remove_entry (TpsPushFloors *floors, Entry *entry)
{
  g_queue_unlink (&floors->recent, &entry->link);
  g_queue_unlink (&floors->sides[entry->side], &entry->export_link);
  g_hash_table_remove (floors->entries, entry);
  tps_slab_give (&floors->records, entry);
  tps_charge_set (&floors->charge, floors->charge.n_bytes - TPS_PUSH_FLOOR_BYTES, NULL);
}

void
tps_push_floors_free (TpsPushFloors *floors)
{
  while (floors->recent.head != NULL)
    remove_entry (floors, floors->recent.head->data);
  g_hash_table_unref (floors->entries);
  tps_slab_clear (&floors->records);
  g_free (floors);
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

/* Returns an entry for look-ups, which has only a name. */
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

/* Adds a copy of `made`, whose name must be set, as the most recently used floor. The charge moves
 * from `payer`; NULL = a new charge. FALSE: there is no room. */
static gboolean
add_entry (TpsPushFloors *floors, const Entry *made, TpsBudget *payer, gint64 now_ns)
{
  Entry *entry;

  if (!tps_push_floors_has_room (floors, now_ns)
      || !tps_budget_move (payer, floors->charge.budget, TPS_PUSH_FLOOR_BYTES))
    return FALSE;
  floors->charge.n_bytes += TPS_PUSH_FLOOR_BYTES;
  entry = tps_slab_take (&floors->records);
  *entry = *made;
  entry->link.data = entry->export_link.data = entry;
  g_queue_push_tail_link (&floors->recent, &entry->link);
  g_queue_push_tail_link (&floors->sides[entry->side], &entry->export_link);
  g_hash_table_add (floors->entries, entry);
  return TRUE;
}

gboolean
tps_push_floors_add (TpsPushFloors *floors, const gchar *client, const TpsPushFloor *floor,
                     TpsExportSide side, TpsBudget *payer, gint64 now_ns)
{
  Entry entry = key_of (client);

  entry.floor = *floor;
  entry.heard_ns = now_ns;
  entry.side = side;
  return add_entry (floors, &entry, payer, now_ns);
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

/* ---- exports --------------------------------------------------------------------------------- */

TpsExportSide
tps_push_floors_get_passed_side (const TpsPushFloors *floors)
{
  return floors->passed_side;
}

TpsExportSide
tps_push_floors_get_side (const TpsPushFloor *floor)
{
  return ((const Entry *) ((const guint8 *) floor - G_STRUCT_OFFSET (Entry, floor)))->side;
}

void
tps_push_floors_begin_export (TpsPushFloors *floors)
{
  /* All entries are on the passed side, which now becomes the side to be visited. */
  floors->passed_side = 1 - floors->passed_side;
}

gboolean
tps_push_floors_export_next (TpsPushFloors *floors, gint64 now_ns, TpsExportedFloor *floor)
{
  GList *link = g_queue_pop_head_link (&floors->sides[1 - floors->passed_side]);
  Entry *entry;

  if (link == NULL)
    return FALSE;
  entry = link->data;
  entry->side = floors->passed_side;
  g_queue_push_tail_link (&floors->sides[entry->side], link);
  *floor = (TpsExportedFloor) { .floor = entry->floor, .idle_ns = now_ns - entry->heard_ns };
  memcpy (floor->name, entry->name.bytes, sizeof floor->name);
  return TRUE;
}

gboolean
tps_push_floors_import (TpsPushFloors *floors, gint64 now_ns, const TpsExportedFloor *floor)
{
  Entry entry = { .floor = floor->floor,
                  .heard_ns = now_ns - floor->idle_ns,
                  .side = floors->passed_side };
  Entry *known;

  memcpy (entry.name.bytes, floor->name, sizeof floor->name);
  known = g_hash_table_lookup (floors->entries, &entry);
  if (known != NULL)
    remove_entry (floors, known);
  return add_entry (floors, &entry, NULL, now_ns);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/push_floor.h"

#include <string.h>

#include "runtime/base/slab.h"
#include "runtime/server/push_digest.h"

typedef struct
{
  TpsPushDigest name; /* the digest of the client's name; the key of `entries` */
  TpsHeldFloor held;
  gint64 heard_ns;
  GList link;        /* in `recent` */
  GList export_link; /* in sides[held.side] */
} Entry;

struct TpsPushFloors
{
  gint64 idle_ns;
  TpsBudget *budget;
  TpsSlab records;     /* of Entry */
  GHashTable *entries; /* a set of Entry */
  GQueue recent;       /* of Entry, nearly: least recently used first */
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
tps_push_floors_new (gint64 idle_ns, TpsBudget *budget)
{
  TpsPushFloors *floors = g_new0 (TpsPushFloors, 1);

  floors->idle_ns = idle_ns;
  floors->budget = budget;
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
  g_queue_unlink (&floors->sides[entry->held.side], &entry->export_link);
  g_hash_table_remove (floors->entries, entry);
  tps_slab_give (&floors->records, entry);
}

static void
forget_entry (TpsPushFloors *floors, Entry *entry)
{
  entry->held.share->n_clients--;
  remove_entry (floors, entry);
  tps_budget_release (floors->budget, TPS_PUSH_FLOOR_BYTES);
}

void
tps_push_floors_free (TpsPushFloors *floors)
{
  while (floors->recent.head != NULL)
    forget_entry (floors, floors->recent.head->data);
  g_hash_table_unref (floors->entries);
  tps_slab_clear (&floors->records);
  g_free (floors);
}

void
tps_push_floors_expire (TpsPushFloors *floors, gint64 now_ns)
{
  while (floors->recent.head != NULL)
    {
      Entry *entry = floors->recent.head->data;

      if (now_ns - entry->heard_ns < floors->idle_ns)
        return;
      forget_entry (floors, entry);
    }
}

void
tps_push_floors_forget (TpsPushFloors *floors, const TpsPushShare *share, gint64 idle_ns,
                        gint64 now_ns)
{
  GList *next;

  for (GList *item = floors->recent.head; item != NULL; item = next)
    {
      Entry *entry = item->data;

      next = item->next;
      if (entry->held.share == share && now_ns - entry->heard_ns >= idle_ns)
        forget_entry (floors, entry);
    }
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

/* Adds a copy of `made`, whose name must be set. */
static void
add_entry (TpsPushFloors *floors, const Entry *made)
{
  Entry *entry = tps_slab_take (&floors->records);

  *entry = *made;
  entry->link.data = entry->export_link.data = entry;
  g_queue_push_tail_link (&floors->recent, &entry->link);
  g_queue_push_tail_link (&floors->sides[entry->held.side], &entry->export_link);
  g_hash_table_add (floors->entries, entry);
}

void
tps_push_floors_add (TpsPushFloors *floors, const gchar *client, const TpsHeldFloor *held,
                     gint64 heard_ns)
{
  Entry entry = key_of (client);

  entry.held = *held;
  entry.heard_ns = heard_ns;
  add_entry (floors, &entry);
}

const TpsHeldFloor *
tps_push_floors_find (TpsPushFloors *floors, const gchar *client, gint64 now_ns)
{
  Entry *entry;

  tps_push_floors_expire (floors, now_ns);
  entry = find_entry (floors, client);
  if (entry == NULL)
    return NULL;
  entry->heard_ns = now_ns;
  g_queue_unlink (&floors->recent, &entry->link);
  g_queue_push_tail_link (&floors->recent, &entry->link);
  return &entry->held;
}

void
tps_push_floors_take (TpsPushFloors *floors, const gchar *client)
{
  remove_entry (floors, find_entry (floors, client));
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
  entry->held.side = floors->passed_side;
  g_queue_push_tail_link (&floors->sides[entry->held.side], link);
  *floor = (TpsExportedFloor) { .floor = entry->held.floor,
                                .share = entry->held.share,
                                .idle_ns = now_ns - entry->heard_ns };
  memcpy (floor->name, entry->name.bytes, sizeof floor->name);
  return TRUE;
}

gboolean
tps_push_floors_import (TpsPushFloors *floors, gint64 now_ns, const TpsExportedFloor *floor,
                        GError **error)
{
  Entry entry = { .held = { floor->floor, floor->share, floors->passed_side },
                  .heard_ns = now_ns - floor->idle_ns };

  memcpy (entry.name.bytes, floor->name, sizeof floor->name);
  if (g_hash_table_contains (floors->entries, &entry)
      || !tps_budget_charge (floors->budget, TPS_PUSH_FLOOR_BYTES, error))
    return FALSE;
  entry.held.share->n_clients++;
  add_entry (floors, &entry);
  return TRUE;
}

static gint
compare_heard (gconstpointer a, gconstpointer b, gpointer unused)
{
  const Entry *left = a;
  const Entry *right = b;

  return (left->heard_ns > right->heard_ns) - (left->heard_ns < right->heard_ns);
}

void
tps_push_floors_end_import (TpsPushFloors *floors)
{
  g_queue_sort (&floors->recent, compare_heard, NULL);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/server/session_list.h"

typedef struct
{
  guint64 id;
  gpointer session;
} Entry;

void
tps_session_list_init (TpsSessionList *list)
{
  tps_mutex_init (&list->lock);
  list->entries = g_array_new (FALSE, FALSE, sizeof (Entry));
  list->last_id = 0;
}

void
tps_session_list_clear (TpsSessionList *list)
{
  g_array_unref (list->entries);
  tps_mutex_clear (&list->lock);
}

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

  tps_mutex_lock (&list->lock);
  entry.id = ++list->last_id;
  g_array_append_val (list->entries, entry);
  tps_mutex_unlock (&list->lock);
  return entry.id;
}

void
tps_session_list_remove (TpsSessionList *list, guint64 id)
{
  tps_mutex_lock (&list->lock);
  g_array_remove_index (list->entries, find_after (list, id - 1));
  tps_mutex_unlock (&list->lock);
}

guint
tps_session_list_ref_next (TpsSessionList *list, guint64 after, gpointer *sessions, guint n_max,
                           void (*ref) (gpointer session))
{
  guint n = 0;

  tps_mutex_lock (&list->lock);
  for (guint i = find_after (list, after); i < list->entries->len && n < n_max; i++)
    {
      sessions[n] = g_array_index (list->entries, Entry, i).session;
      ref (sessions[n++]);
    }
  tps_mutex_unlock (&list->lock);
  return n;
}

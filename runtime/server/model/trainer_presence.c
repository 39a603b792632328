/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/model/trainer_presence.h"

typedef struct
{
  gint32 trainer;
  guint n_pushes; /* over this connection, without repeats */
  gconstpointer connection;
} Entry;

void
tps_trainer_presence_init (TpsTrainerPresence *presence)
{
  presence->by_trainer = g_hash_table_new_full (NULL, NULL, NULL, g_free);
  presence->by_connection = g_hash_table_new_full (NULL, NULL, NULL,
                                                   (GDestroyNotify) g_ptr_array_unref);
}

void
tps_trainer_presence_clear (TpsTrainerPresence *presence)
{
  g_hash_table_unref (presence->by_connection);
  g_hash_table_unref (presence->by_trainer);
}

void
tps_trainer_presence_reset (TpsTrainerPresence *presence)
{
  g_hash_table_remove_all (presence->by_connection);
  g_hash_table_remove_all (presence->by_trainer);
}

static void
detach (TpsTrainerPresence *presence, Entry *entry)
{
  GPtrArray *entries = g_hash_table_lookup (presence->by_connection, entry->connection);

  g_ptr_array_remove_fast (entries, entry);
  if (entries->len == 0)
    g_hash_table_remove (presence->by_connection, entry->connection);
}

static void
attach (TpsTrainerPresence *presence, Entry *entry, gconstpointer connection)
{
  GPtrArray *entries = g_hash_table_lookup (presence->by_connection, connection);

  if (entries == NULL)
    {
      entries = g_ptr_array_new ();
      g_hash_table_insert (presence->by_connection, (gpointer) (gsize) connection, entries);
    }
  g_ptr_array_add (entries, entry);
  entry->connection = connection;
  entry->n_pushes = 0;
}

void
tps_trainer_presence_note (TpsTrainerPresence *presence, gint32 trainer, gconstpointer connection,
                           gboolean is_repeat)
{
  Entry *entry = g_hash_table_lookup (presence->by_trainer, GINT_TO_POINTER (trainer));

  if (entry == NULL)
    {
      entry = g_new0 (Entry, 1);
      entry->trainer = trainer;
      g_hash_table_insert (presence->by_trainer, GINT_TO_POINTER (trainer), entry);
      attach (presence, entry, connection);
    }
  else if (entry->connection != connection)
    {
      detach (presence, entry);
      attach (presence, entry, connection);
    }
  if (!is_repeat)
    entry->n_pushes++;
}

GArray *
tps_trainer_presence_take (TpsTrainerPresence *presence, gconstpointer connection)
{
  GPtrArray *entries = g_hash_table_lookup (presence->by_connection, connection);
  GArray *departed;

  if (entries == NULL)
    return NULL;
  departed = g_array_sized_new (FALSE, FALSE, sizeof (TpsDepartedTrainer), entries->len);
  for (guint i = 0; i < entries->len; i++)
    {
      const Entry *entry = g_ptr_array_index (entries, i);
      TpsDepartedTrainer trainer = { entry->trainer, entry->n_pushes };

      g_array_append_val (departed, trainer);
      g_hash_table_remove (presence->by_trainer, GINT_TO_POINTER (trainer.trainer));
    }
  g_hash_table_remove (presence->by_connection, connection);
  return departed;
}

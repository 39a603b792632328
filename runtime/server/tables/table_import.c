/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables that become known without a record of their creation: restored from a snapshot, or
 * imported from files (table_snapshot.h). */

#include "runtime/base/error.h"
#include "runtime/server/tables/table_snapshot.h"
#include "runtime/server/tables/table_store_private.h"

gboolean
tps_table_store_adopt (TpsTableStore *store, TpsTable *table, GError **error)
{
  gboolean is_new;

  tps_rw_lock_write (&store->tables_lock);
  is_new = !g_hash_table_contains (store->tables, table->spec.name);
  if (is_new)
    g_hash_table_insert (store->tables, table->spec.name, tps_table_ref (table));
  tps_rw_lock_unlock (&store->tables_lock);
  if (!is_new)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS, "table %s already exists",
                 table->spec.name);
  return is_new;
}

gboolean
tps_table_store_begin_import (TpsTableStore *store, const gchar *name, GError **error)
{
  g_autoptr (TpsTable) present = NULL;
  gboolean is_free;

  tps_mutex_lock (&store->making_lock);
  present = tps_table_store_find (store, name);
  is_free = present == NULL && !g_hash_table_contains (store->making, name)
            && !g_hash_table_contains (store->importing, name);
  if (is_free)
    {
      tps_rw_lock_write (&store->tables_lock);
      g_hash_table_insert (store->importing, g_strdup (name), NULL);
      tps_rw_lock_unlock (&store->tables_lock);
    }
  tps_mutex_unlock (&store->making_lock);
  if (!is_free)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
                 "table %s already exists, or is being created", name);
  return is_free;
}

/* The log cannot hold the rows, so the creation is not logged. The log has a gap instead of its
 * record. */
gboolean
tps_table_store_admit_import (TpsTableStore *store, TpsTable *table, GError **error)
{
  TpsTableChange creation;

  if (!tps_sequencer_may_admit (store->sequencer, 0, error))
    return FALSE;
  tps_table_change_init (&creation, TPS_COMMAND_CREATE_TABLE, &table->spec);
  creation.command.durability = TPS_DURABILITY_NONE;
  tps_mutex_lock (&store->making_lock);
  tps_rw_lock_write (&store->tables_lock);
  table->incarnation = tps_sequencer_admit (store->sequencer, &creation.ordered, NULL);
  tps_table_set_progress (table, (TpsTableProgress) { table->incarnation, table->n_steps });
  g_hash_table_insert (store->importing, g_strdup (table->spec.name), table);
  tps_rw_lock_unlock (&store->tables_lock);
  tps_mutex_unlock (&store->making_lock);
  return tps_table_change_finish (&creation, store, error);
}

void
tps_table_store_end_import (TpsTableStore *store, const gchar *name, TpsTable *table)
{
  tps_mutex_lock (&store->making_lock);
  tps_rw_lock_write (&store->tables_lock);
  g_hash_table_remove (store->importing, name);
  if (table != NULL)
    g_hash_table_insert (store->tables, table->spec.name, tps_table_ref (table));
  tps_rw_lock_unlock (&store->tables_lock);
  tps_mutex_unlock (&store->making_lock);
  if (table != NULL)
    tps_table_change_trace_created (&table->spec);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Creating and dropping tables.
 *
 * To create a table, the store adds the name to `making`, and fills the table without a lock. Then
 * it admits the command and makes the table known under one lock. Every command that finds the
 * table therefore has a later LSN. A second creation of the same name waits until the first
 * creation has ended, and then looks up the name again.
 *
 * To drop a table, the store removes the table and admits the command under one lock. Pushes that
 * were admitted earlier still take effect. Later pushes are refused.
 */

#include "runtime/server/tables/table_store_private.h"

#include "runtime/base/error.h"
#include "runtime/base/trace.h"

static TpsTraceEvent table_dropped = TPS_TRACE_EVENT ("table_dropped", TPS_TRACE_INFO);

static gboolean
check_same (const TpsTable *table, const TpsTableSpec *spec, GError **error)
{
  g_autofree gchar *difference = tps_table_spec_dup_difference (&table->spec, spec);

  if (difference == NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
               "table %s already exists with a different %s", spec->name, difference);
  return FALSE;
}

static gboolean
fail_importing (const gchar *name, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS, "table %s is being imported", name);
  return FALSE;
}

/* Waits until no other thread makes a table of this name. If the table is known then, sets
 * `present` to a reference. Otherwise sets `present` to NULL and adds the name to `making`; the
 * name is borrowed until end_making(). Errors: ALREADY_EXISTS (a table of this name is being
 * imported). */
static gboolean
begin_making (TpsTableStore *store, gchar *name, TpsTable **present, GError **error)
{
  gboolean is_importing;

  tps_mutex_lock (&store->making_lock);
  while (g_hash_table_contains (store->making, name))
    tps_cond_wait (&store->made, &store->making_lock);
  is_importing = g_hash_table_contains (store->importing, name);
  *present = is_importing ? NULL : tps_table_store_find (store, name);
  if (!is_importing && *present == NULL)
    g_hash_table_add (store->making, name);
  tps_mutex_unlock (&store->making_lock);
  return !is_importing || fail_importing (name, error);
}

/* Makes the table known and waits for its command. Takes ownership of `table`. */
static gboolean
publish (TpsTableStore *store, TpsTable *table, GError **error)
{
  TpsTableChange creation;

  tps_table_change_init (&creation, TPS_COMMAND_CREATE_TABLE, &table->spec);
  tps_rw_lock_write (&store->tables_lock);
  table->incarnation = tps_sequencer_admit (store->sequencer, &creation.ordered, NULL);
  g_hash_table_insert (store->tables, table->spec.name, table);
  tps_rw_lock_unlock (&store->tables_lock);
  return tps_table_change_finish (&creation, store, error);
}

/* Removes the name from `making` and wakes the threads that wait for it. */
static void
end_making (TpsTableStore *store, const gchar *name)
{
  tps_mutex_lock (&store->making_lock);
  g_hash_table_remove (store->making, name);
  tps_cond_broadcast (&store->made);
  tps_mutex_unlock (&store->making_lock);
}

/* Sets missing fields to the defaults of the store. */
static void
fill_in (const TpsTableStore *store, TpsTableSpec *spec)
{
  if (spec->place.device[0] == '\0')
    spec->place = store->place;
  if (spec->durability == 0)
    spec->durability = store->durability;
}

static gboolean
check_durability (const TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  if (spec->durability <= TPS_DURABILITY_NONE || store->durability != 0)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "spec.durability: %s, but this server has no data directory",
               tps_durability_name (spec->durability));
  return FALSE;
}

gboolean
tps_table_store_create (TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  g_auto (TpsTableSpec) resolved = { 0 };
  g_autoptr (TpsTable) present = NULL;
  TpsTable *table;
  gboolean ok;

  tps_table_spec_copy (&resolved, spec);
  if (!tps_table_spec_resolve (&resolved, error) || !check_durability (store, &resolved, error)
      || !tps_sequencer_may_admit (store->sequencer, 0, error))
    return FALSE;
  if (!begin_making (store, resolved.name, &present, error))
    return FALSE;
  /* If the log could not keep the creation for which this one has waited, the server is read-only
   * now. */
  if (present != NULL)
    return check_same (present, &resolved, error)
           && tps_sequencer_may_admit (store->sequencer, 0, error);
  fill_in (store, &resolved);
  table = tps_table_store_make_table (store, &resolved, FALSE, error);
  if (table != NULL)
    tps_table_change_trace_created (&resolved);
  ok = table != NULL && publish (store, table, error);
  end_making (store, resolved.name);
  return ok;
}

/* Removes the table, and initialises and admits `drop`. Returns the store's reference. If there is
 * no table, returns NULL, and `drop` is not initialised. */
static TpsTable *
take_out (TpsTableStore *store, const gchar *name, TpsTableChange *drop)
{
  TpsTable *table;

  tps_rw_lock_write (&store->tables_lock);
  table = g_hash_table_lookup (store->tables, name);
  if (table != NULL)
    {
      g_hash_table_steal (store->tables, name);
      tps_table_change_init (drop, TPS_COMMAND_DROP_TABLE, &table->spec);
      tps_sequencer_admit (store->sequencer, &drop->ordered, &table->turns);
    }
  tps_rw_lock_unlock (&store->tables_lock);
  return table;
}

gboolean
tps_table_store_drop (TpsTableStore *store, const gchar *table, GError **error)
{
  TpsTableChange drop;
  TpsTable *dropped;
  gboolean ok;

  if (!tps_sequencer_may_admit (store->sequencer, 0, error))
    return FALSE;
  dropped = take_out (store, table, &drop);
  if (dropped == NULL)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "table: there is no table %s", table);
      return FALSE;
    }
  ok = tps_table_change_finish (&drop, store, error);
  tps_trace (&table_dropped, tps_field_text ("table", table));
  tps_table_unref (dropped);
  return ok;
}

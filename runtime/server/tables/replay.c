/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Replay of the records of commands: of all commands into an empty store, or of the commands that
 * follow a snapshot.
 *
 * A snapshot is written while commands take effect, so its tables may already contain changes of
 * the replayed records. These changes are left out: changes of rows by the rows' LSNs
 * (host/table_rows.c), steps by the tables' progress (apply.c), and creations and drops of tables
 * by their incarnations (this file). If one of these records names a table that does not exist, the
 * table was dropped, or dropped and created again, while the snapshot was written. */

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/server/tables/apply.h"
#include "runtime/server/tables/table_calls.h"
#include "runtime/server/tables/table_snapshot.h"

/* Returns TRUE if the restored snapshot may contain effects of the command. */
static gboolean
is_in_snapshot (TpsTableStore *store, const TpsCommand *command)
{
  return command->lsn <= tps_table_store_get_snapshot_lsn (store);
}

static gboolean
fail_missing (const gchar *table, const TpsCommand *command, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND,
               "record %" G_GINT64_FORMAT
               ": table %s does not exist, or has a different incarnation",
               command->lsn, table);
  return FALSE;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static gboolean
replay_create (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  gint64 present = tps_table_store_get_incarnation (store, command->create->name);

  if (present >= command->lsn && is_in_snapshot (store, command))
    return TRUE;
  return tps_table_store_create (store, command->create, error);
}

static gboolean
replay_drop (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  gint64 present = tps_table_store_get_incarnation (store, command->drop);

  TPS_PLANT ("drop-not-replayed", return TRUE);
  if ((present == 0 || present > command->lsn) && is_in_snapshot (store, command))
    return TRUE;
  return tps_table_store_drop (store, command->drop, error);
}

/* ---- pushes ---------------------------------------------------------------------------------- */

/* Sets `dropped` to a set of the names of the record's tables that were dropped later; NULL if all
 * tables exist. The names are borrowed from the record. */
static gboolean
find_dropped (TpsTableStore *store, const TpsCommand *command, GHashTable **dropped, GError **error)
{
  *dropped = NULL;
  for (guint i = 0; i < command->n_tables; i++)
    {
      const TpsCommandTable *table = &command->tables[i];

      if (tps_table_store_get_incarnation (store, table->name) == table->incarnation)
        continue;
      if (!is_in_snapshot (store, command))
        return fail_missing (table->name, command, error);
      if (*dropped == NULL)
        *dropped = g_hash_table_new (g_str_hash, g_str_equal);
      g_hash_table_add (*dropped, (gpointer) (guintptr) table->name);
    }
  return TRUE;
}

static gboolean
push_record (TpsTableStore *store, const TpsCommand *record, GError **error)
{
  TpsTablePush push = { .may_wait = TRUE, .record = record };

  if (record->kind != TPS_COMMAND_APPLY_BAGS)
    {
      push.table = record->tables[0].name;
      push.indices = record->rows.indices;
      push.values = record->rows.values;
      push.is_assignment = record->kind == TPS_COMMAND_ASSIGN_ROWS;
      push.as_of_lsn = record->rows.as_of_lsn;
      TPS_PLANT ("replay-without-last-row",
                 push.indices.shape.dims[0] = --push.values.shape.dims[0]);
    }
  else
    {
      push.gradients = record->bags.gradients;
      push.n_gradients = record->bags.n_gradients;
    }
  return tps_table_store_push_and_wait (store, &push, error);
}

/* Pushes a record of bags without the dropped tables. The other tables keep their order. */
static gboolean
push_rest (TpsTableStore *store, const TpsCommand *record, GHashTable *dropped, GError **error)
{
  g_autofree TpsCommandTable *tables = g_new (TpsCommandTable, record->n_tables);
  g_autofree TpsBagGradient *gradients = g_new (TpsBagGradient, record->bags.n_gradients);
  TpsCommand rest = *record;

  rest.n_tables = 0;
  rest.tables = tables;
  for (guint i = 0; i < record->n_tables; i++)
    if (!g_hash_table_contains (dropped, record->tables[i].name))
      tables[rest.n_tables++] = record->tables[i];
  if (rest.n_tables == 0)
    return TRUE;
  rest.bags = (TpsCommandBags) { .gradients = gradients };
  for (guint i = 0; i < record->bags.n_gradients; i++)
    if (!g_hash_table_contains (dropped, record->bags.gradients[i].query.table))
      gradients[rest.bags.n_gradients++] = record->bags.gradients[i];
  return push_record (store, &rest, error);
}

/* Adds the push id of a record to the window, as the id of a push that has ended. The id is already
 * in the window if the snapshot contained it. `steps`: as in tps_apply_get_steps(). Errors:
 * RESOURCE_EXHAUSTED. */
static gboolean
remember_id (TpsTableStore *store, const TpsCommand *record, gint64 steps, GError **error)
{
  TpsPushWindow *window = tps_table_store_get_pushes (store);
  TpsPushRequest request = { .client = record->id.client,
                             .sequence = record->id.sequence,
                             .digest = &record->id.digest,
                             .incarnation = G_MAXINT64,
                             .tenant = record->id.tenant };

  TPS_PLANT ("window-not-restored", return TRUE);
  for (guint i = 0; i < record->n_tables; i++)
    request.incarnation = MIN (request.incarnation, record->tables[i].incarnation);
  return tps_push_window_replay (window, &request, record->time_ms, steps, record->lsn, error);
}

static gboolean
replay_push (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  g_autoptr (GHashTable) dropped = NULL;
  gint64 steps = 0;
  gboolean ok;

  if (!find_dropped (store, command, &dropped, error))
    return FALSE;
  if (dropped == NULL)
    ok = push_record (store, command, error);
  else
    ok = command->kind != TPS_COMMAND_APPLY_BAGS || push_rest (store, command, dropped, error);
  if (command->has_failed)
    steps = tps_apply_get_steps (command->tables, command->n_tables);
  if (ok && command->id.client != NULL && (!command->has_failed || steps != 0))
    ok = remember_id (store, command, steps, error);
  return ok;
}

static gboolean
replay (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  switch (command->kind)
    {
    case TPS_COMMAND_CREATE_TABLE:
      return replay_create (store, command, error);
    case TPS_COMMAND_DROP_TABLE:
      return replay_drop (store, command, error);
    case TPS_COMMAND_APPLY_ROWS:
    case TPS_COMMAND_ASSIGN_ROWS:
    case TPS_COMMAND_APPLY_BAGS:
      return replay_push (store, command, error);
    case TPS_COMMAND_INIT_MODEL:
    case TPS_COMMAND_UPDATE_MODEL:
    case TPS_COMMAND_RESET_MODEL:
      break;
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "command %d does not change tables",
               (gint) command->kind);
  return FALSE;
}

gboolean
tps_table_store_replay (TpsTableStore *store, const TpsCommand *command, GError **error)
{
  TpsSequencer *sequencer = tps_table_store_get_sequencer (store);

  /* The replayed command gets the LSN of its record. If the record is left out, no command gets the
   * LSN, so it is set again at the end. */
  tps_sequencer_set_lsn (sequencer, command->lsn - 1);
  if (!replay (store, command, error))
    return FALSE;
  tps_sequencer_set_lsn (sequencer, command->lsn);
  return TRUE;
}

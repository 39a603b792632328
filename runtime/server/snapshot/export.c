/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Imports the tables, without shards, into a store that belongs to no server, and writes a snapshot
 * of this store. */

#include "runtime/server/snapshot/export.h"

#include "runtime/base/error.h"
#include "runtime/server/snapshot/import.h"
#include "runtime/server/snapshot/snapshot_folder.h"
#include "runtime/server/snapshot/snapshot_tables.h"
#include "runtime/server/tables/table_snapshot.h"

static void
observe (gpointer unused, TpsOrdered *ordered)
{
  tps_ordered_release (ordered, NULL);
}

static gboolean
check_empty (TpsDisk *disk, const gchar *to, GError **error)
{
  g_auto (GStrv) names = tps_snapshot_folder_list (disk, to, error);

  if (names == NULL)
    return FALSE;
  if (names[0] == NULL)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS,
               "%s: it contains %s already; choose another folder", to, names[0]);
  return FALSE;
}

static gboolean
import_table (TpsDisk *disk, TpsTableStore *store, const TpsSnapshotTables *found, guint i,
              GError **error)
{
  g_auto (TpsTableSpec) spec = { 0 };
  g_auto (GStrv) files = NULL;
  TpsTableImport import = { .disk = disk, .into = store };

  tps_table_spec_copy (&spec, tps_snapshot_tables_get_spec (found, i));
  tps_shard_init_whole (&spec.shard, spec.shard.rows);
  files = tps_snapshot_tables_list_files (found, spec.name, error);
  if (files == NULL)
    return FALSE;
  import.paths = (const gchar *const *) files;
  import.n_paths = g_strv_length (files);
  return tps_table_import (&import, &spec, error);
}

static gboolean
import_all (TpsDisk *disk, const gchar *const *paths, guint n_paths, TpsTableStore *store,
            GError **error)
{
  g_autoptr (TpsSnapshotTables) found = tps_snapshot_tables_new (
      disk, paths, n_paths, tps_table_store_get_budget (store), error);

  if (found == NULL)
    return FALSE;
  for (guint i = 0; i < tps_snapshot_tables_get_n_specs (found); i++)
    if (!import_table (disk, store, found, i, error))
      return FALSE;
  return TRUE;
}

gboolean
tps_snapshot_export (TpsDisk *disk, const gchar *const *paths, guint n_paths, const gchar *to,
                     TpsSnapshotInfo *info, GError **error)
{
  TpsSequencerOptions ordering = { .observe = observe };
  g_autoptr (TpsSequencer) sequencer = tps_sequencer_new (&ordering);
  TpsTableStoreOptions tables = { .sequencer = sequencer, .keeps_row_lsns = TRUE };
  g_autoptr (TpsTableStore) store = tps_table_store_new (&tables);
  TpsSnapshotOptions options = {
    .disk = disk, .folder = to, .sequencer = sequencer, .tables = store
  };

  return check_empty (disk, to, error) && import_all (disk, paths, n_paths, store, error)
         && tps_snapshot_write (&options, info, error);
}

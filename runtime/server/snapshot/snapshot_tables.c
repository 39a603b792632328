/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* An export imports the tables, without shards, into a store that belongs to no server, and writes
 * a snapshot of this store. */

#include "runtime/server/snapshot/snapshot_tables.h"

#include "runtime/server/snapshot/import.h"
#include "runtime/server/snapshot/manifest.h"
#include "runtime/server/snapshot/snapshot_folder.h"
#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/tables/table_snapshot.h"
#include "runtime/base/error.h"

typedef struct
{
  gchar *folder;
  TpsManifest manifest;
} Snapshot;

struct TpsSnapshotTables
{
  TpsDisk *disk;     /* borrowed */
  TpsBudget *budget; /* borrowed; NULL = none */
  GArray *snapshots; /* of Snapshot, at least one */
  GPtrArray *specs;  /* of the TpsTableSpec of each table, from the first snapshot that has it */
};

static void
clear_snapshot (gpointer data)
{
  Snapshot *snapshot = data;

  tps_manifest_clear (&snapshot->manifest);
  g_free (snapshot->folder);
}

static Snapshot *
get_snapshot (const TpsSnapshotTables *tables, guint i)
{
  return &g_array_index (tables->snapshots, Snapshot, i);
}

static gboolean
read_snapshot (Snapshot *snapshot, TpsDisk *disk, const gchar *path, TpsBudget *budget,
               GError **error)
{
  tps_manifest_init (&snapshot->manifest);
  snapshot->manifest.charge.budget = budget;
  snapshot->folder = tps_snapshot_folder_locate (disk, path, error);
  return snapshot->folder != NULL
         && tps_manifest_read (&snapshot->manifest, disk, snapshot->folder, error);
}

static void
add_specs (TpsSnapshotTables *tables, const Snapshot *snapshot, GHashTable *names)
{
  for (guint i = 0; i < snapshot->manifest.tables->len; i++)
    {
      TpsTableSpec *spec = &g_array_index (snapshot->manifest.tables, TpsManifestTable, i).spec;

      if (g_hash_table_add (names, spec->name))
        g_ptr_array_add (tables->specs, spec);
    }
}

TpsSnapshotTables *
tps_snapshot_tables_new (TpsDisk *disk, const gchar *const *paths, guint n_paths, TpsBudget *budget,
                         GError **error)
{
  g_autoptr (TpsSnapshotTables) tables = g_new0 (TpsSnapshotTables, 1);
  g_autoptr (GHashTable) names = g_hash_table_new (g_str_hash, g_str_equal);

  tables->disk = disk;
  tables->budget = budget;
  tables->specs = g_ptr_array_new ();
  tables->snapshots = g_array_new (FALSE, TRUE, sizeof (Snapshot));
  g_array_set_clear_func (tables->snapshots, clear_snapshot);
  for (guint i = 0; i < n_paths; i++)
    {
      g_array_set_size (tables->snapshots, i + 1);
      if (!read_snapshot (get_snapshot (tables, i), disk, paths[i], budget, error))
        return NULL;
      add_specs (tables, get_snapshot (tables, i), names);
    }
  return g_steal_pointer (&tables);
}

void
tps_snapshot_tables_free (TpsSnapshotTables *tables)
{
  if (tables == NULL)
    return;
  g_array_unref (tables->snapshots);
  g_ptr_array_unref (tables->specs);
  g_free (tables);
}

guint
tps_snapshot_tables_get_n_specs (const TpsSnapshotTables *tables)
{
  return tables->specs->len;
}

const TpsTableSpec *
tps_snapshot_tables_get_spec (const TpsSnapshotTables *tables, guint i)
{
  return g_ptr_array_index (tables->specs, i);
}

/* Adds the path of a file that is the one of the manifest. A file of a different snapshot may be
 * intact as well. */
static gboolean
add_file (GPtrArray *files, const TpsSnapshotTables *tables, const Snapshot *snapshot,
          const TpsManifestFile *file, GError **error)
{
  gchar *path = g_build_filename (snapshot->folder, file->name, NULL);
  g_autoptr (TpsSafetensorsReader)
      reader = tps_safetensors_reader_new_charged (tables->disk, path, tables->budget, error);

  g_ptr_array_add (files, path);
  return reader != NULL && tps_snapshot_check_file (reader, file, error);
}

static gboolean
add_files (GPtrArray *files, const TpsSnapshotTables *tables, const Snapshot *snapshot,
           const TpsManifestTable *table, GError **error)
{
  if (!add_file (files, tables, snapshot, &table->file, error))
    return FALSE;
  for (guint i = 0; i < tps_manifest_table_get_n_increments (table); i++)
    if (!add_file (files, tables, snapshot, tps_manifest_table_get_increment (table, i), error))
      return FALSE;
  return TRUE;
}

GStrv
tps_snapshot_tables_list_files (const TpsSnapshotTables *tables, const gchar *name, GError **error)
{
  g_autoptr (GPtrArray) files = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < tables->snapshots->len; i++)
    {
      const GArray *entries = get_snapshot (tables, i)->manifest.tables;

      for (guint j = 0; j < entries->len; j++)
        if (g_str_equal (g_array_index (entries, TpsManifestTable, j).spec.name, name)
            && !add_files (files, tables, get_snapshot (tables, i),
                           &g_array_index (entries, TpsManifestTable, j), error))
          return NULL;
    }
  if (files->len == 0)
    return tps_fail_null (error, TPS_ERROR_NOT_FOUND, "table %s: it is not in any of the snapshots",
                          name);
  g_ptr_array_add (files, NULL);
  return (GStrv) g_ptr_array_free (g_steal_pointer (&files), FALSE);
}

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
  return tps_fail (error, TPS_ERROR_ALREADY_EXISTS,
                   "%s: it contains %s already; choose another folder", to, names[0]);
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
  g_autoptr (TpsSnapshotTables)
      found = tps_snapshot_tables_new (disk, paths, n_paths, store->budget, error);

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

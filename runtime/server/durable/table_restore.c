/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Restores tables from files while requests continue:
 *
 *   - The paths are resolved, and the files of each table are found.
 *   - The names of the tables are reserved, and the rows are read.
 *   - The tables get their LSNs.
 *   - A snapshot is written, which makes the tables durable.
 *   - The tables become known to requests.
 */

#include "runtime/server/durable/table_restore.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/server/snapshot/import.h"
#include "runtime/server/snapshot/snapshot_tables.h"
#include "runtime/server/tables/table_snapshot.h"

#define ASK_NS ((gint64) 10 * 1000000) /* between checks of is_cancelled() */

/* ---- paths ----------------------------------------------------------------------------------- */

/* Returns TRUE if `path` is relative and has only names of files and folders. */
static gboolean
is_below (const gchar *path)
{
  g_auto (GStrv) parts = g_strsplit (path, "/", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] == '\0' || g_str_equal (parts[i], ".") || g_str_equal (parts[i], ".."))
      return FALSE;
  return parts[0] != NULL;
}

/* Returns the path of `path` below `root`; the caller frees it. Symbolic links are followed, since
 * only the operator can make them. Errors: PERMISSION_DENIED (no root), INVALID_ARGUMENT (the path
 * is empty, absolute, or has an empty part, "." or ".."). */
static gchar *
resolve (const gchar *root, const gchar *path, GError **error)
{
  if (root == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_PERMISSION_DENIED,
                         "this server reads no files for its clients: it has no --import-dir");
  else if (!is_below (path))
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "\"%s\" is not a path below --import-dir, such as \"monday/snapshots\"", path);
  else
    return g_build_filename (root, path, NULL);
  return NULL;
}

/* Returns the paths below `root`. The caller frees them with g_strfreev(). */
static GStrv
resolve_all (const gchar *root, const gchar *const *paths, guint n_paths, GError **error)
{
  g_autoptr (GPtrArray) resolved = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < n_paths; i++)
    {
      gchar *path = resolve (root, paths[i], error);

      if (path == NULL)
        return NULL;
      g_ptr_array_add (resolved, path);
    }
  g_ptr_array_add (resolved, NULL);
  return (GStrv) g_ptr_array_free (g_steal_pointer (&resolved), FALSE);
}

/* ---- tables and their files ------------------------------------------------------------------ */

/* A table that is being restored. */
typedef struct
{
  TpsTableSpec spec;
  GStrv files;
  gboolean is_begun; /* the name is reserved */
  TpsTable *table;
} Making;

static void
clear_making (gpointer data)
{
  Making *making = data;

  tps_table_spec_clear (&making->spec);
  g_strfreev (making->files);
  g_clear_pointer (&making->table, tps_table_unref);
}

/* A snapshot may be hostile, so the tenant in its specifications does not count. */
static Making *
add_making (GArray *all, const TpsTableSpec *spec, const gchar *tenant)
{
  Making *making;

  g_array_set_size (all, all->len + 1);
  making = &g_array_index (all, Making, all->len - 1);
  tps_table_spec_copy (&making->spec, spec);
  g_free (making->spec.tenant);
  making->spec.tenant = g_strdup (tenant);
  return making;
}

static gboolean
plan_snapshots (const TpsTableRestoreOptions *options, const TpsTableSource *source,
                GStrv snapshots, GArray *all, GError **error)
{
  g_autoptr (TpsSnapshotTables) found = tps_snapshot_tables_new (
      options->disk, (const gchar *const *) snapshots, source->n_paths,
      tps_table_store_get_budget (options->tables), error);
  guint n;

  if (found == NULL)
    return FALSE;
  n = source->n_specs > 0 ? source->n_specs : tps_snapshot_tables_get_n_specs (found);
  for (guint i = 0; i < n; i++)
    {
      Making *making = add_making (
          all, source->n_specs > 0 ? &source->specs[i] : tps_snapshot_tables_get_spec (found, i),
          source->tenant);

      making->files = tps_snapshot_tables_list_files (found, making->spec.name, error);
      if (making->files == NULL)
        return FALSE;
    }
  return TRUE;
}

static gboolean
plan (const TpsTableRestoreOptions *options, const TpsTableSource *source, GArray *all,
      GError **error)
{
  g_auto (GStrv) paths = resolve_all (options->root, source->paths, source->n_paths, error);

  if (paths == NULL)
    return FALSE;
  if (source->are_snapshots)
    return plan_snapshots (options, source, paths, all, error);
  add_making (all, source->specs, source->tenant)->files = g_steal_pointer (&paths);
  return TRUE;
}

/* ---- making tables --------------------------------------------------------------------------- */

static gboolean
begin_all (const TpsTableRestoreOptions *options, GArray *all, GError **error)
{
  for (guint i = 0; i < all->len; i++)
    {
      Making *making = &g_array_index (all, Making, i);

      making->is_begun = tps_table_store_begin_import (options->tables, making->spec.name, error);
      if (!making->is_begun)
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_all (const TpsTableRestoreOptions *options, const TpsTableSource *source, GArray *all,
          GError **error)
{
  for (guint i = 0; i < all->len; i++)
    {
      Making *making = &g_array_index (all, Making, i);
      TpsTableImport import = { .disk = options->disk,
                                .into = options->tables,
                                .paths = (const gchar *const *) making->files,
                                .n_paths = g_strv_length (making->files),
                                .tensor = source->tensor,
                                .is_cancelled = options->is_cancelled,
                                .user_data = options->user_data };

      making->table = tps_table_import_read (&import, &making->spec, error);
      if (making->table == NULL)
        return FALSE;
    }
  return TRUE;
}

/* Waits until all commands up to `lsn`, the LSN of a table's creation, have ended. Only a snapshot
 * that begins after this wait is certain to contain the table. */
static gboolean
wait_ended (const TpsTableRestoreOptions *options, gint64 lsn, GError **error)
{
  while (!tps_sequencer_wait_ended (options->sequencer, lsn, tps_clock_now_ns () + ASK_NS))
    if (options->is_cancelled (options->user_data))
      return tps_fail (error, TPS_ERROR_ABORTED, "the import was cancelled");
  return TRUE;
}

static gboolean
admit_all (const TpsTableRestoreOptions *options, GArray *all, GError **error)
{
  for (guint i = 0; i < all->len; i++)
    {
      TpsTable *table = g_array_index (all, Making, i).table;

      if (!tps_table_store_admit_import (options->tables, table, error)
          || !wait_ended (options, table->incarnation, error))
        return FALSE;
    }
  return TRUE;
}

/* Releases the reserved names. If `is_done` is TRUE, adds the tables to the store. */
static void
end_all (const TpsTableRestoreOptions *options, GArray *all, gboolean is_done)
{
  for (guint i = 0; i < all->len; i++)
    {
      const Making *making = &g_array_index (all, Making, i);

      if (making->is_begun)
        tps_table_store_end_import (options->tables, making->spec.name,
                                    is_done ? making->table : NULL);
    }
}

static gboolean
check_source (const TpsTableRestoreOptions *options, const TpsTableSource *source, GError **error)
{
  if (options->tables == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         "this server has no service EmbeddingTable");
  else if (source->n_paths == 0)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                         "the list of paths is empty, expected at least one");
  else
    return TRUE;
  return FALSE;
}

gboolean
tps_table_restore_run (const TpsTableRestoreOptions *options, const TpsTableSource *source,
                       GError **error)
{
  g_autoptr (GArray) all = g_array_new (FALSE, TRUE, sizeof (Making));
  gboolean is_done;

  g_array_set_clear_func (all, clear_making);
  is_done = check_source (options, source, error) && plan (options, source, all, error)
            && begin_all (options, all, error) && read_all (options, source, all, error)
            && admit_all (options, all, error)
            && options->write_snapshot (options->user_data, error);
  end_all (options, all, is_done);
  return is_done;
}

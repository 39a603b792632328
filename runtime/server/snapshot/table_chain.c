/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/table_chain.h"

#include "runtime/server/snapshot/table_file.h"

/* The names of files have the number of the table. Only files of whole tables end in
 * ".safetensors". A program that does not support increments therefore never reads outdated rows as
 * the table. */
#define WHOLE_NAME "table-%06u.safetensors"
#define BASE_NAME "table-%06u.base"
#define INCREMENT_NAME "table-%06u.increment-%02u"

/* All increments of a table together take at most one part in MAX_PART of its size. */
#define MAX_PART 2

typedef struct
{
  const TpsTableChain *chain;
  TpsTable *table;
  guint number;
  TpsTableFileRows rows;
  TpsSnapshotPace *pace;
  TpsManifestTable *entry;
} Writing;

static gboolean
write_rows (const Writing *writing, const gchar *name, TpsManifestFile *file, GError **error)
{
  g_autofree gchar *path = g_build_filename (writing->chain->folder, name, NULL);

  file->name = g_strdup (name);
  return tps_table_file_write (writing->table, writing->chain->disk, path, &writing->rows,
                               writing->pace, file, error);
}

/* ---- increments ------------------------------------------------------------------------------ */

/* Links `file` of the earlier snapshot as `name` in the new one. FALSE: the disk cannot link
 * files. */
static gboolean
share (const TpsTableChain *chain, const TpsManifestFile *file, const gchar *name,
       TpsManifestFile *shared)
{
  g_autofree gchar *from = g_build_filename (chain->earlier_folder, file->name, NULL);
  g_autofree gchar *to = g_build_filename (chain->folder, name, NULL);

  if (chain->disk->link == NULL || !chain->disk->link (chain->disk, from, to, NULL))
    return FALSE;
  *shared = *file;
  shared->name = g_strdup (name);
  return TRUE;
}

static gboolean
share_all (const Writing *writing, const TpsManifestTable *earlier, gboolean is_whole)
{
  const TpsTableChain *chain = writing->chain;
  g_autofree gchar *base = g_strdup_printf (is_whole ? WHOLE_NAME : BASE_NAME, writing->number);

  if (!share (chain, &earlier->file, base, &writing->entry->file))
    return FALSE;
  for (guint i = 0; i < tps_manifest_table_get_n_increments (earlier); i++)
    {
      g_autofree gchar *name = g_strdup_printf (INCREMENT_NAME, writing->number, i + 1);
      TpsManifestFile shared;

      if (!share (chain, tps_manifest_table_get_increment (earlier, i), name, &shared))
        return FALSE;
      tps_manifest_table_add_increment (writing->entry, &shared);
    }
  return TRUE;
}

static gboolean
write_increment (const Writing *writing, GError **error)
{
  guint n = tps_manifest_table_get_n_increments (writing->entry);
  g_autofree gchar *name = g_strdup_printf (INCREMENT_NAME, writing->number, n + 1);
  TpsManifestFile file = { 0 };
  gboolean ok = write_rows (writing, name, &file, error);

  tps_manifest_table_add_increment (writing->entry, &file);
  return ok;
}

/* Finds the rows that have changed since the earlier snapshot. Commands up to its LSN had ended
 * before it read the first row, so it contains the present state of all rows without a later LSN.
 * FALSE: there is no memory, or the snapshot has been cancelled. The caller then writes the table
 * whole, and the next call of tps_snapshot_pace() reports the cancellation. */
static gboolean
find_changed_rows (Writing *writing, guint8 **bits)
{
  TpsTable *table = writing->table;
  gsize n_rows = (gsize) table->spec.shard.n_rows;

  *bits = g_try_malloc0 (n_rows / 8 + 1);
  if (*bits == NULL)
    return FALSE;
  writing->rows.changed = *bits;
  for (gsize slot = 0, n; slot < n_rows; slot += n)
    {
      n = MIN (TPS_TABLE_MAX_SCANNED_ROWS, n_rows - slot);
      writing->rows.n_changed += tps_table_find_changed_rows (table, slot, n,
                                                              writing->chain->earlier->lsn, *bits);
      tps_snapshot_held (writing->pace, n * sizeof (gint64));
      if (!tps_snapshot_pace (writing->pace, 0, NULL))
        return FALSE;
    }
  return TRUE;
}

/* As find_changed_rows(). If rows have no LSNs of their own, the progress of the table shows
 * whether any row has changed. It contains all commands up to the LSN of the new snapshot, because
 * they have ended. FALSE: some row may have changed, so the table must be written whole. */
static gboolean
find_changes (Writing *writing, guint8 **bits)
{
  if (tps_table_knows_changed_rows (writing->table))
    return find_changed_rows (writing, bits);
  return writing->entry->progress.lsn <= writing->chain->earlier->lsn;
}

/* Returns TRUE if no row has changed, or if there may be one more increment and all increments
 * together would be small enough. */
static gboolean
may_grow (const Writing *writing, const TpsManifestTable *earlier)
{
  guint n = tps_manifest_table_get_n_increments (earlier);
  guint64 n_bytes = (guint64) writing->rows.n_changed
                    * (tps_table_file_get_row_bytes (writing->table) + sizeof (gint64));

  for (guint i = 0; i < n; i++)
    n_bytes += tps_manifest_table_get_increment (earlier, i)->n_bytes;
  return writing->rows.n_changed == 0
         || (n < writing->chain->max_increments && n_bytes <= earlier->file.n_bytes / MAX_PART);
}

/* Removes all files from `entry`. Files that were linked before the disk refused stay in the
 * folder, and are deleted with it. */
static void
forget_files (TpsManifestTable *entry)
{
  g_clear_pointer (&entry->file.name, g_free);
  g_clear_pointer (&entry->increments, g_array_unref);
}

static gboolean
begin_increment (Writing *writing, guint8 **bits)
{
  const TpsManifest *manifest = writing->chain->earlier;
  const TpsManifestTable *earlier;
  gboolean is_whole;

  if (manifest == NULL || writing->chain->max_increments == 0)
    return FALSE;
  earlier = tps_manifest_find_table (manifest, writing->table->spec.name,
                                     writing->table->incarnation);
  if (earlier == NULL || !find_changes (writing, bits) || !may_grow (writing, earlier))
    return FALSE;
  is_whole = writing->rows.n_changed == 0 && tps_manifest_table_get_n_increments (earlier) == 0;
  if (share_all (writing, earlier, is_whole))
    return TRUE;
  forget_files (writing->entry);
  return FALSE;
}

/* ---- a table --------------------------------------------------------------------------------- */

static gboolean
write_whole (Writing *writing, GError **error)
{
  g_autofree gchar *name = g_strdup_printf (WHOLE_NAME, writing->number);

  writing->rows.changed = NULL;
  return write_rows (writing, name, &writing->entry->file, error);
}

gboolean
tps_table_chain_write (const TpsTableChain *chain, TpsTable *table, guint number,
                       TpsSnapshotPace *pace, TpsManifestTable *entry, GError **error)
{
  Writing writing = { chain, table, number, { 0 }, pace, entry };
  g_autofree guint8 *bits = NULL;

  entry->incarnation = table->incarnation;
  /* The progress is read before the rows, so the rows contain all of it. */
  entry->progress = tps_table_get_progress (table);
  writing.rows.n_steps = entry->progress.n_steps;
  tps_table_spec_copy (&entry->spec, &table->spec);
  if (!begin_increment (&writing, &bits))
    return write_whole (&writing, error);
  return writing.rows.n_changed == 0 || write_increment (&writing, error);
}

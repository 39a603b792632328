/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/durable/data_folder.h"

#include <stdio.h>
#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"
#include "runtime/server/log/log_format.h"
#include "runtime/server/snapshot/snapshot.h"

#define LOCK "LOCK"
#define FORMAT TPS_DATA_FOLDER_FORMAT
#define NEW_FORMAT FORMAT ".new" /* complete before it is renamed */
#define LOG "log"
#define VERSION "thriftps data 2\n"
#define FIRST_EPOCH 1

static TpsTraceEvent format_failed = TPS_TRACE_EVENT ("format_failed", TPS_TRACE_WARNING);

static gchar *
make_path (const TpsDataFolder *folder, const gchar *name)
{
  return g_strconcat (folder->path, "/", name, NULL);
}

/* ---- FORMAT ---------------------------------------------------------------------------------- */

/* Returns TRUE if a directory without FORMAT has no contents that matter. It may have names that a
 * server makes before it marks the directory, and names that file systems make. */
static gboolean
is_empty (GStrv names)
{
  for (; *names != NULL; names++)
    if (!g_str_equal (*names, LOCK) && !g_str_equal (*names, NEW_FORMAT)
        && !g_str_equal (*names, "lost+found") && !tps_disk_is_deleted_name (*names))
      return FALSE;
  return TRUE;
}

static gchar *
make_text (const TpsDataFolder *folder, gint64 lsn, gint64 snapshot_lsn)
{
  g_autofree gchar *epoch = g_strdup_printf ("epoch %u\n", folder->epoch);
  g_autofree gchar *head = g_strdup_printf (
      VERSION "history %s\n%slsn %" G_GINT64_FORMAT "\nsnapshot %" G_GINT64_FORMAT "\n",
      folder->history, folder->epoch > 0 ? epoch : "", lsn, snapshot_lsn);

  return g_strdup_printf ("%scrc32c %08x\n", head, tps_crc32c (0, head, strlen (head)));
}

/* Writes the file FORMAT. The file is synced before it gets its name, so it is complete if it
 * exists. An interrupted or failed call may have left NEW_FORMAT. */
static gboolean
mark (TpsDataFolder *folder, gint64 lsn, gint64 snapshot_lsn, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *path = make_path (folder, FORMAT);
  g_autofree gchar *new_path = make_path (folder, NEW_FORMAT);
  g_autofree gchar *text = make_text (folder, lsn, snapshot_lsn);

  tps_disk_discard_all (disk, new_path, NULL);
  if (!tps_disk_write_text (disk, new_path, text, error)
      || !disk->rename (disk, new_path, path, error)
      || !disk->sync_folder (disk, folder->path, error))
    return FALSE;
  folder->lsn = lsn;
  folder->snapshot_lsn = snapshot_lsn;
  return TRUE;
}

static gboolean
mark_new (TpsDataFolder *folder, GError **error)
{
  g_autofree gchar *history = NULL;
  TpsLogId id;

  tps_log_id_draw (&id);
  history = tps_log_id_to_text (&id);
  g_strlcpy (folder->history, history, sizeof folder->history);
  folder->epoch = FIRST_EPOCH;
  return mark (folder, 0, 0, error);
}

/* The text must be the one that a server writes for these values, with its checksum. Earlier
 * versions wrote no epoch. */
static gboolean
parse (TpsDataFolder *folder, const gchar *text, GError **error)
{
  TpsLogId id;
  g_autofree gchar *expected = NULL;
  gint n_first = 0, n_epoch = 0;

  sscanf (text, VERSION "history %32[0-9a-f]\n%n", folder->history, &n_first);
  sscanf (text + n_first, "epoch %u\n%n", &folder->epoch, &n_epoch);
  if (sscanf (text + n_first + n_epoch, "lsn %" G_GINT64_FORMAT "\nsnapshot %" G_GINT64_FORMAT "\n",
              &folder->lsn, &folder->snapshot_lsn)
          == 2
      && tps_log_id_parse (folder->history, &id))
    expected = make_text (folder, folder->lsn, folder->snapshot_lsn);
  folder->epoch = MAX (folder->epoch, FIRST_EPOCH);
  if (g_strcmp0 (expected, text) == 0)
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_ABORTED,
      "data directory %s: %s is damaged: its checksum is wrong; restore it from a copy of "
      "the directory, or begin a new directory with --restore-from=%s",
      folder->path, FORMAT, folder->snapshots_path);
}

static gboolean
read_format (TpsDataFolder *folder, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *path = make_path (folder, FORMAT);
  TpsDiskFile *file = disk->open (disk, path, TPS_DISK_READ_ONLY, error);
  gchar text[256] = "";
  gssize n_bytes;

  if (file == NULL)
    return FALSE;
  n_bytes = disk->read (file, text, sizeof text - 1, 0, error);
  disk->close (file);
  if (n_bytes < 0)
    return FALSE;
  if (g_str_has_prefix (text, VERSION))
    return parse (folder, text, error);
  text[strcspn (text, "\n")] = '\0';
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "data directory %s: %s says \"%s\", but this version of the server reads \"%.*s\"; "
      "use the version that wrote the directory, or restore %s from a copy",
      folder->path, FORMAT, text, (gint) strlen (VERSION) - 1, VERSION, FORMAT);
}

static gboolean
check_or_mark (TpsDataFolder *folder, GError **error)
{
  g_auto (GStrv) names = folder->disk->list (folder->disk, folder->path, error);

  if (names == NULL)
    return FALSE;
  if (g_strv_contains ((const gchar *const *) names, FORMAT))
    return read_format (folder, error);
  if (is_empty (names))
    return mark_new (folder, error);
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "data directory %s: it is not empty and has no file %s, so it does not belong to a "
      "server; choose another directory, or restore this one from a copy",
      folder->path, FORMAT);
}

/* ---- life ------------------------------------------------------------------------------------ */

static gboolean
lock (TpsDataFolder *folder, GError **error)
{
  g_autofree gchar *path = make_path (folder, LOCK);

  folder->file = folder->disk->lock (folder->disk, path, error);
  if (folder->file == NULL)
    g_prefix_error (error, "data directory %s: ", folder->path);
  return folder->file != NULL;
}

TpsDataFolder *
tps_data_folder_open (TpsDisk *disk, const gchar *path, GError **error)
{
  g_autoptr (TpsDataFolder) folder = g_new0 (TpsDataFolder, 1);

  tps_mutex_init (&folder->lock);
  folder->disk = disk;
  folder->path = g_strdup (path);
  folder->log_path = make_path (folder, LOG);
  folder->snapshots_path = make_path (folder, TPS_SNAPSHOT_FOLDER);
  if (!disk->make_folder (disk, path, error))
    return NULL;
  if (!lock (folder, error) || !check_or_mark (folder, error))
    {
      tps_data_folder_explain (error);
      return NULL;
    }
  return g_steal_pointer (&folder);
}

void
tps_data_folder_close (TpsDataFolder *folder)
{
  if (folder == NULL)
    return;
  if (folder->file != NULL)
    folder->disk->close (folder->file);
  tps_mutex_clear (&folder->lock);
  g_free (folder->snapshots_path);
  g_free (folder->log_path);
  g_free (folder->path);
  g_free (folder);
}

void
tps_data_folder_explain (GError **error)
{
  if (error == NULL || !g_error_matches (*error, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    return;
  (*error)->code = TPS_ERROR_ABORTED;
  g_prefix_error (error, "a part of the data directory is missing; restore it from a copy: ");
}

gboolean
tps_data_folder_raise (TpsDataFolder *folder, gint64 lsn, gint64 snapshot_lsn, GError **error)
{
  GError *failure = NULL;
  gboolean ok;

  tps_mutex_lock (&folder->lock);
  ok = (lsn <= folder->lsn && snapshot_lsn <= folder->snapshot_lsn)
       || mark (folder, MAX (lsn, folder->lsn), MAX (snapshot_lsn, folder->snapshot_lsn), &failure);
  tps_mutex_unlock (&folder->lock);
  if (ok)
    return TRUE;
  tps_trace (&format_failed, tps_field_text ("message", failure->message));
  g_propagate_error (error, failure);
  return FALSE;
}

gboolean
tps_data_folder_lower (TpsDataFolder *folder, gint64 lsn, GError **error)
{
  return lsn >= folder->lsn || mark (folder, lsn, folder->snapshot_lsn, error);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/durable/data_folder.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/snapshot/snapshot.h"

#define LOCK "LOCK"
#define FORMAT "FORMAT"
#define NEW_FORMAT "FORMAT.new" /* complete before it is renamed */
#define LOG "log"
#define FORMAT_TEXT "thriftps data 1\n"

struct TpsDataFolder
{
  TpsDisk *disk;
  gchar *path;
  gchar *log_path;
  gchar *snapshots_path;
  TpsDiskFile *lock;
};

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

static gboolean
write_new_format (const TpsDataFolder *folder, const gchar *path, GError **error)
{
  TpsDisk *disk = folder->disk;
  TpsDiskFile *file = disk->open (disk, path, TPS_DISK_CREATE, error);
  gboolean ok;

  if (file == NULL)
    return FALSE;
  ok = disk->write (file, FORMAT_TEXT, strlen (FORMAT_TEXT), 0, TRUE, error);
  disk->close (file);
  return ok;
}

/* Marks the directory with the file FORMAT. The file is synced before it gets its name, so it is
 * complete if it exists. `has_new` is TRUE if an interrupted start has left NEW_FORMAT. */
static gboolean
mark (const TpsDataFolder *folder, gboolean has_new, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *path = make_path (folder, FORMAT);
  g_autofree gchar *new_path = make_path (folder, NEW_FORMAT);

  return (!has_new || disk->remove (disk, new_path, error))
         && write_new_format (folder, new_path, error) && disk->rename (disk, new_path, path, error)
         && disk->sync_folder (disk, folder->path, error);
}

static gboolean
check_format (const TpsDataFolder *folder, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *path = make_path (folder, FORMAT);
  TpsDiskFile *file = disk->open (disk, path, TPS_DISK_READ_ONLY, error);
  gchar text[64] = "";
  gssize n_bytes;

  if (file == NULL)
    return FALSE;
  n_bytes = disk->read (file, text, sizeof text - 1, 0, error);
  disk->close (file);
  if (n_bytes < 0)
    return FALSE;
  if (strcmp (text, FORMAT_TEXT) == 0)
    return TRUE;
  text[strcspn (text, "\n")] = '\0';
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "data directory %s: %s says \"%s\", but this version of the server reads \"%.*s\"",
               folder->path, FORMAT, text, (gint) strlen (FORMAT_TEXT) - 1, FORMAT_TEXT);
  return FALSE;
}

static gboolean
check_or_mark (const TpsDataFolder *folder, GError **error)
{
  g_auto (GStrv) names = folder->disk->list (folder->disk, folder->path, error);

  if (names == NULL)
    return FALSE;
  if (g_strv_contains ((const gchar *const *) names, FORMAT))
    return check_format (folder, error);
  if (is_empty (names))
    return mark (folder, g_strv_contains ((const gchar *const *) names, NEW_FORMAT), error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "data directory %s: it is not empty and has no file %s, so it does not belong to a "
               "server; choose another directory",
               folder->path, FORMAT);
  return FALSE;
}

/* ---- life ------------------------------------------------------------------------------------ */

static gboolean
lock (TpsDataFolder *folder, GError **error)
{
  g_autofree gchar *path = make_path (folder, LOCK);

  folder->lock = folder->disk->lock (folder->disk, path, error);
  if (folder->lock == NULL)
    g_prefix_error (error, "data directory %s: ", folder->path);
  return folder->lock != NULL;
}

TpsDataFolder *
tps_data_folder_open (TpsDisk *disk, const gchar *path, GError **error)
{
  g_autoptr (TpsDataFolder) folder = g_new0 (TpsDataFolder, 1);

  folder->disk = disk;
  folder->path = g_strdup (path);
  folder->log_path = make_path (folder, LOG);
  folder->snapshots_path = make_path (folder, TPS_SNAPSHOT_FOLDER);
  if (!disk->make_folder (disk, path, error) || !lock (folder, error)
      || !check_or_mark (folder, error))
    return NULL;
  return g_steal_pointer (&folder);
}

void
tps_data_folder_close (TpsDataFolder *folder)
{
  if (folder == NULL)
    return;
  if (folder->lock != NULL)
    folder->disk->close (folder->lock);
  g_free (folder->snapshots_path);
  g_free (folder->log_path);
  g_free (folder->path);
  g_free (folder);
}

const gchar *
tps_data_folder_get_path (const TpsDataFolder *folder)
{
  return folder->path;
}

const gchar *
tps_data_folder_get_log_path (const TpsDataFolder *folder)
{
  return folder->log_path;
}

const gchar *
tps_data_folder_get_snapshots_path (const TpsDataFolder *folder)
{
  return folder->snapshots_path;
}

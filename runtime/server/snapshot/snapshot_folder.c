/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/snapshot_folder.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/snapshot/manifest.h"

#define PREFIX "snapshot-"
#define N_DIGITS 20

void
tps_snapshot_folder_name (gint64 lsn, gchar name[TPS_SNAPSHOT_MAX_NAME + 1])
{
  g_snprintf (name, TPS_SNAPSHOT_MAX_NAME + 1, PREFIX "%0*" G_GINT64_FORMAT, N_DIGITS, lsn);
}

gint64
tps_snapshot_folder_get_lsn (const gchar *name)
{
  return g_ascii_strtoll (name + strlen (PREFIX), NULL, 10);
}

static gboolean
is_snapshot_name (const gchar *name)
{
  if (!g_str_has_prefix (name, PREFIX) || strlen (name) != strlen (PREFIX) + N_DIGITS)
    return FALSE;
  for (const gchar *digit = name + strlen (PREFIX); *digit != '\0'; digit++)
    if (!g_ascii_isdigit (*digit))
      return FALSE;
  return TRUE;
}

/* Sets `has_manifest`. INVALID_ARGUMENT: the manifest is a folder, or the snapshot is a file, so
 * there is no manifest. After any other failure than NOT_FOUND, such as too many open files, it is
 * not known whether there is a manifest, so the function fails. Otherwise, a complete snapshot
 * could be taken for an incomplete one and be deleted. */
static gboolean
find_manifest (TpsDisk *disk, const gchar *path, gboolean *has_manifest, GError **error)
{
  g_autofree gchar *manifest = g_build_filename (path, TPS_MANIFEST_NAME, NULL);
  GError *failure = NULL;
  TpsDiskFile *file = disk->open (disk, manifest, TPS_DISK_READ_ONLY, &failure);

  *has_manifest = file != NULL;
  if (file != NULL)
    disk->close (file);
  else if (!g_error_matches (failure, TPS_ERROR, TPS_ERROR_NOT_FOUND)
           && !g_error_matches (failure, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT))
    {
      g_propagate_error (error, failure);
      return FALSE;
    }
  else
    g_error_free (failure);
  return TRUE;
}

/* Removes the names that do not belong to a complete snapshot or, if `is_complete` is FALSE, to an
 * incomplete one. */
static gboolean
filter (GStrv names, TpsDisk *disk, const gchar *folder, gboolean is_complete, GError **error)
{
  gboolean ok = TRUE, has_manifest;
  guint n = 0;

  for (guint i = 0; names[i] != NULL; i++)
    {
      gboolean is_wanted = FALSE;

      if (ok && is_snapshot_name (names[i]))
        {
          g_autofree gchar *path = g_build_filename (folder, names[i], NULL);

          ok = find_manifest (disk, path, &has_manifest, error);
          is_wanted = ok && has_manifest == is_complete;
        }
      if (is_wanted)
        names[n++] = names[i];
      else
        g_free (names[i]);
    }
  names[n] = NULL;
  return ok;
}

static GStrv
list (TpsDisk *disk, const gchar *folder, gboolean is_complete, GError **error)
{
  GError *failure = NULL;
  g_auto (GStrv) names = disk->list (disk, folder, &failure);

  if (g_error_matches (failure, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    {
      g_error_free (failure);
      return g_new0 (gchar *, 1);
    }
  if (names == NULL)
    g_propagate_error (error, failure);
  else if (filter (names, disk, folder, is_complete, error))
    return g_steal_pointer (&names);
  return NULL;
}

GStrv
tps_snapshot_folder_list (TpsDisk *disk, const gchar *folder, GError **error)
{
  return list (disk, folder, TRUE, error);
}

gboolean
tps_snapshot_folder_delete (TpsDisk *disk, const gchar *folder, const gchar *name, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, name, NULL);
  g_autofree gchar *manifest = g_build_filename (path, TPS_MANIFEST_NAME, NULL);
  gboolean has_manifest;

  return find_manifest (disk, path, &has_manifest, error)
         && (!has_manifest
             || (disk->remove (disk, manifest, error) && disk->sync_folder (disk, path, error)))
         && tps_disk_discard_all (disk, path, error);
}

gboolean
tps_snapshot_delete_incomplete (TpsDisk *disk, const gchar *folder, GError **error)
{
  g_auto (GStrv) names = list (disk, folder, FALSE, error);
  gboolean ok = names != NULL;

  for (guint i = 0; names != NULL && names[i] != NULL; i++)
    ok = tps_snapshot_folder_delete (disk, folder, names[i], ok ? error : NULL) && ok;
  return ok;
}

/* Returns the newest snapshot in a folder of snapshots; NULL without an error: there is none. */
static gchar *
find_newest (TpsDisk *disk, const gchar *folder, GError **error)
{
  g_auto (GStrv) names = tps_snapshot_folder_list (disk, folder, error);
  guint n = names != NULL ? g_strv_length (names) : 0;

  return n > 0 ? g_build_filename (folder, names[n - 1], NULL) : NULL;
}

gchar *
tps_snapshot_folder_locate (TpsDisk *disk, const gchar *path, GError **error)
{
  g_autofree gchar *below = g_build_filename (path, TPS_SNAPSHOT_FOLDER, NULL);
  GError *failure = NULL;
  gboolean is_complete;
  gchar *found;

  if (!find_manifest (disk, path, &is_complete, error))
    return NULL;
  if (is_complete)
    return g_strdup (path);
  found = find_newest (disk, path, &failure);
  if (found == NULL && failure == NULL)
    found = find_newest (disk, below, &failure);
  if (failure != NULL)
    g_propagate_error (error, failure);
  else if (found == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "%s: there is no snapshot", path);
  return found;
}

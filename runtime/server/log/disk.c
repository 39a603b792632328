/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/disk.h"

#include "runtime/base/error.h"

gboolean
tps_disk_is_deleted_name (const gchar *name)
{
  return g_str_has_prefix (name, ".nfs") || g_str_has_prefix (name, ".fuse_hidden");
}

gboolean
tps_disk_discard (TpsDisk *disk, const gchar *path, GError **error)
{
  return disk->discard != NULL ? disk->discard (disk, path, error)
                               : disk->remove (disk, path, error);
}

gboolean
tps_disk_discard_all (TpsDisk *disk, const gchar *path, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_auto (GStrv) names = NULL;

  if (tps_disk_discard (disk, path, &failure))
    return TRUE;
  /* Only a folder can have contents. */
  if (!g_error_matches (failure, TPS_ERROR, TPS_ERROR_ALREADY_EXISTS))
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  names = disk->list (disk, path, error);
  if (names == NULL)
    return FALSE;
  for (guint i = 0; names[i] != NULL; i++)
    {
      g_autofree gchar *below = g_build_filename (path, names[i], NULL);

      if (!tps_disk_discard_all (disk, below, error))
        return FALSE;
    }
  return disk->remove (disk, path, error);
}

void
tps_disk_free (TpsDisk *disk)
{
  disk->free (disk);
}

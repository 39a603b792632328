/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/disk.h"

TpsDisk *
tps_disk_new (void)
{
  TpsDisk *disk = tps_disk_new_uring (NULL);

  return disk != NULL ? disk : tps_disk_new_posix ();
}

gboolean
tps_disk_discard (TpsDisk *disk, const gchar *path, GError **error)
{
  return disk->discard != NULL ? disk->discard (disk, path, error)
                               : disk->remove (disk, path, error);
}

void
tps_disk_free (TpsDisk *disk)
{
  disk->free (disk);
}

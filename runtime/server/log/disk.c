/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/disk.h"

#include "runtime/base/trace.h"

static TpsTraceEvent disk_chosen = TPS_TRACE_EVENT ("disk_chosen", TPS_TRACE_INFO);

TpsDisk *
tps_disk_new (void)
{
  g_autoptr (GError) refusal = NULL;
  TpsDisk *disk = tps_disk_new_uring (&refusal);

  if (disk != NULL)
    {
      tps_trace (&disk_chosen, tps_field_text ("writes", "io_uring"));
      return disk;
    }
  tps_trace (&disk_chosen, tps_field_text ("writes", "pwrite"),
             tps_field_text ("reason", refusal->message));
  return tps_disk_new_posix ();
}

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

void
tps_disk_free (TpsDisk *disk)
{
  disk->free (disk);
}

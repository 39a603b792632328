/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/snapshot_io.h"

#include "runtime/base/error.h"

#define TELL_BYTES ((guint64) 4 << 20) /* between calls of progress() */

gboolean
tps_snapshot_pace (TpsSnapshotPace *pace, gsize n_bytes, GError **error)
{
  const TpsSnapshotOptions *options = pace->options;

  pace->n_done += n_bytes;
  if (options->progress != NULL && pace->n_done - pace->n_told >= TELL_BYTES)
    {
      options->progress (options->user_data, pace->n_done, MAX (pace->n_bytes, pace->n_done));
      pace->n_told = pace->n_done;
    }
  if (options->is_cancelled == NULL || !options->is_cancelled (options->user_data))
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED, "the snapshot was cancelled");
}

void
tps_snapshot_held (const TpsSnapshotPace *pace, gsize n_bytes)
{
  const TpsSnapshotOptions *options = pace->options;

  if (options->held != NULL)
    options->held (options->user_data, n_bytes);
}

gboolean
tps_snapshot_check_file (TpsSafetensorsReader *reader, const TpsManifestFile *file, GError **error)
{
  guint64 n_bytes = (guint64) reader->n_bytes;
  guint32 crc32c = reader->header_crc32c;

  if (n_bytes == file->n_bytes && crc32c == file->header_crc32c)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "%s: %" G_GUINT64_FORMAT
                   " bytes with a header of CRC32C %08x; the manifest says "
                   "%" G_GUINT64_FORMAT " bytes and %08x",
                   reader->path, n_bytes, crc32c, file->n_bytes, file->header_crc32c);
}

TpsSafetensorsReader *
tps_snapshot_open_file (TpsDisk *disk, const gchar *folder, const TpsManifestFile *file,
                        GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, file->name, NULL);
  g_autoptr (TpsSafetensorsReader) reader = tps_safetensors_reader_new (disk, path, error);

  return reader != NULL && tps_snapshot_check_file (reader, file, error) ? g_steal_pointer (&reader)
                                                                         : NULL;
}

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
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_ABORTED, "the snapshot was cancelled");
  return FALSE;
}

void
tps_snapshot_held (const TpsSnapshotPace *pace, gsize n_bytes)
{
  const TpsSnapshotOptions *options = pace->options;

  if (options->held != NULL)
    options->held (options->user_data, n_bytes);
}

TpsSafetensorsReader *
tps_snapshot_open_file (TpsDisk *disk, const gchar *folder, const TpsManifestFile *file,
                        GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, file->name, NULL);
  g_autoptr (TpsSafetensorsReader) reader = tps_safetensors_reader_new (disk, path, error);

  if (reader == NULL)
    return NULL;
  if (tps_safetensors_reader_get_n_bytes (reader) == file->n_bytes
      && tps_safetensors_reader_get_header_crc32c (reader) == file->header_crc32c)
    return g_steal_pointer (&reader);
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
               "%s: %" G_GUINT64_FORMAT " bytes with a header of CRC32C %08x; the manifest says "
               "%" G_GUINT64_FORMAT " bytes and %08x",
               path, tps_safetensors_reader_get_n_bytes (reader),
               tps_safetensors_reader_get_header_crc32c (reader), file->n_bytes,
               file->header_crc32c);
  return NULL;
}

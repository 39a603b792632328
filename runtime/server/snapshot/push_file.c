/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/push_file.h"

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/server/push_window.h"

#define TENSOR "push_ids"
#define READ_BYTES (1 << 20)

/* ---- writing --------------------------------------------------------------------------------- */

static gboolean
append_all (TpsPushWindow *window, TpsSafetensorsWriter *writer, guint tensor,
            TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (GByteArray) records = g_byte_array_sized_new (2 * TPS_PUSH_EXPORT_BYTES);

  TPS_PLANT ("snapshot-without-push-ids", return TRUE);
  tps_push_export_begin (window);
  while (tps_push_export_some (window, records))
    {
      tps_snapshot_held (pace, records->len);
      if (!tps_safetensors_writer_append (writer, tensor, records->data, records->len))
        return TRUE; /* finish() reports the error */
      if (!tps_snapshot_pace (pace, records->len, error))
        return FALSE;
      g_byte_array_set_size (records, 0);
    }
  return TRUE;
}

gboolean
tps_push_file_write (TpsPushWindow *window, TpsDisk *disk, const gchar *folder,
                     TpsSnapshotPace *pace, TpsManifestFile *file, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, file->name, NULL);
  g_autoptr (TpsSafetensorsWriter) writer = tps_safetensors_writer_new (disk, path, error);
  gint64 dim = -1;
  guint tensor;

  if (writer == NULL)
    return FALSE;
  tensor = tps_safetensors_writer_add_tensor (writer, TENSOR, "U8", 1, &dim, NULL);
  return tps_safetensors_writer_begin (writer, error)
         && append_all (window, writer, tensor, pace, error)
         && tps_safetensors_writer_finish (writer, &file->n_bytes, &file->header_crc32c, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static gboolean
fail (const gchar *folder, const TpsManifestFile *file, gint64 offset, GError **error)
{
  if (error != NULL && *error != NULL) /* a record does not fit the memory */
    {
      g_prefix_error (error, "%s/%s: ", folder, file->name);
      return FALSE;
    }
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "%s/%s: not a record of push ids at offset %" G_GINT64_FORMAT, folder,
                   file->name, offset);
}

/* Reads all records. An incomplete record at the end of `records` stays there until the rest has
 * been read. */
static gboolean
read_all (TpsPushWindow *window, TpsSafetensorStream *stream, const gchar *folder,
          const TpsManifestFile *file, TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (GByteArray) records = g_byte_array_new ();

  while (stream->at < stream->tensor->end)
    {
      guint n_kept = records->len;
      gsize n = (gsize) MIN (READ_BYTES, stream->tensor->end - stream->at);
      gsize n_used;

      if (n_kept > G_MAXUINT / 2)
        return fail (folder, file, stream->at - n_kept, error);
      g_byte_array_set_size (records, n_kept + (guint) n);
      if (!tps_safetensor_stream_read (stream, records->data + n_kept, n, error)
          || !tps_snapshot_pace (pace, n, error))
        return FALSE;
      if (!tps_push_export_read (window, records->data, records->len, &n_used, error))
        return fail (folder, file, stream->at - (gint64) (records->len - n_used), error);
      g_byte_array_remove_range (records, 0, (guint) n_used);
    }
  tps_push_export_end_read (window);
  return records->len == 0 || fail (folder, file, stream->at - records->len, error);
}

gboolean
tps_push_file_read (TpsPushWindow *window, TpsDisk *disk, const gchar *folder,
                    const TpsManifestFile *file, TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (TpsSafetensorsReader) reader = tps_snapshot_open_file (disk, folder, file, error);
  gint64 any = -1;
  const TpsSafetensor *tensor;
  TpsSafetensorStream stream;

  if (reader == NULL)
    return FALSE;
  tensor = tps_safetensors_reader_require (reader, TENSOR, "U8", 1, &any, error);
  if (tensor == NULL)
    return FALSE;
  tps_safetensor_stream_init (&stream, reader, tensor);
  return read_all (window, &stream, folder, file, pace, error);
}

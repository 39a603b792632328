/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/snapshot.h"

#include <string.h>

#include "runtime/base/durability.h"
#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/sync.h"
#include "runtime/server/model/model_capture.h"
#include "runtime/server/push_window.h"
#include "runtime/server/snapshot/json_reader.h"
#include "runtime/server/snapshot/snapshot_folder.h"
#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/snapshot/table_file.h"
#include "runtime/server/tables/table_snapshot.h"

#define DEFAULT_KEEP 2
#define ASK_NS ((gint64) 10 * 1000000)   /* between checks of is_cancelled() during a wait */
#define END_NS ((gint64) 1000 * 1000000) /* the maximum wait of get_first_lsn() */

/* ---- the model: a file for each version that is kept, and one for the optimizer's state ------ */

/* Only the file of the newest version is for other programs. They read all files that end in
 * ".safetensors", and use the names of tensors literally. */
#define NEWEST_NAME "model-%020" G_GINT64_MODIFIER "d.safetensors"
#define VERSION_NAME "model-%020" G_GINT64_MODIFIER "d.version"
#define STATE_NAME "model-state.optimizer"

#define STATE "state"
#define PIECE_BYTES ((gsize) 1 << 20)

/* The name of a parameter may consist of any bytes. A key of the format must be UTF-8, and one key
 * is reserved. If a name cannot be a key, all keys of the file have the form "parameter.3". The
 * metadata always has the names, in base64. */
#define NAMES "thriftps_parameters"
#define RESERVED "__metadata__"

static gboolean
are_keys (const TpsModelVersion *version)
{
  for (guint i = 0; i < version->n_parameters; i++)
    {
      const gchar *name = version->parameters[i].name;

      if (!g_utf8_validate (name, -1, NULL) || g_str_equal (name, RESERVED))
        return FALSE;
    }
  return TRUE;
}

static gchar *
dup_key (const gchar *name, guint i, gboolean are_names)
{
  return are_names ? g_strdup (name) : g_strdup_printf ("parameter.%u", i);
}

static gchar *
dup_names (const TpsModelVersion *version)
{
  GString *json = g_string_new ("[");

  for (guint i = 0; i < version->n_parameters; i++)
    {
      const gchar *name = version->parameters[i].name;
      g_autofree gchar *encoded = g_base64_encode ((const guchar *) name, strlen (name));

      g_string_append_printf (json, i > 0 ? ",\"%s\"" : "\"%s\"", encoded);
    }
  g_string_append_c (json, ']');
  return g_string_free (json, FALSE);
}

static gboolean
append_all (TpsSafetensorsWriter *writer, guint tensor, const guint8 *data, gsize n_bytes,
            TpsSnapshotPace *pace, GError **error)
{
  for (gsize at = 0, n; at < n_bytes; at += n)
    {
      n = MIN (PIECE_BYTES, n_bytes - at);
      if (!tps_safetensors_writer_append (writer, tensor, data + at, n))
        return TRUE; /* finish() reports the error */
      if (!tps_snapshot_pace (pace, n, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
append_parameters (TpsSafetensorsWriter *writer, const TpsModelVersion *version,
                   TpsSnapshotPace *pace, GError **error)
{
  for (guint i = 0; i < version->n_parameters; i++)
    {
      const TpsTensor *tensor = &version->parameters[i].tensor;

      if (!append_all (writer, i, tps_tensor_data (tensor), tps_shape_n_bytes (&tensor->shape),
                       pace, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
write_version (const TpsModelVersion *version, TpsDisk *disk, const gchar *folder,
               TpsSnapshotPace *pace, TpsManifestFile *file, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, file->name, NULL);
  g_autofree gchar *names = dup_names (version);
  g_autoptr (TpsSafetensorsWriter) writer = tps_safetensors_writer_new (disk, path, error);
  gboolean are_names = are_keys (version);

  if (writer == NULL)
    return FALSE;
  tps_safetensors_writer_add_metadata (writer, NAMES, names);
  for (guint i = 0; i < version->n_parameters; i++)
    {
      const TpsNamedTensor *parameter = &version->parameters[i];
      g_autofree gchar *key = dup_key (parameter->name, i, are_names);

      tps_safetensors_writer_add_tensor (
          writer, key, tps_safetensors_dtype (parameter->tensor.shape.dtype),
          parameter->tensor.shape.n_dims, parameter->tensor.shape.dims, NULL);
    }
  return tps_safetensors_writer_begin (writer, error)
         && append_parameters (writer, version, pace, error)
         && tps_safetensors_writer_finish (writer, &file->n_bytes, &file->header_crc32c, error);
}

static gboolean
write_versions (const TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
                TpsSnapshotPace *pace, TpsManifestModel *model, GError **error)
{
  for (guint i = 0; i < capture->n_versions; i++)
    {
      TpsManifestVersion entry = { .version = capture->versions[i]->version };
      gboolean ok;

      entry.file.name = g_strdup_printf (i + 1 == capture->n_versions ? NEWEST_NAME : VERSION_NAME,
                                         entry.version);
      ok = write_version (capture->versions[i], disk, folder, pace, &entry.file, error);
      g_array_append_val (model->versions, entry);
      if (!ok)
        return FALSE;
    }
  return TRUE;
}

static gboolean
write_state (const TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
             TpsSnapshotPace *pace, TpsManifestFile *file, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, file->name, NULL);
  g_autoptr (TpsSafetensorsWriter) writer = tps_safetensors_writer_new (disk, path, error);
  gsize n_bytes = tps_buffer_get_size (capture->state);
  gint64 dim = (gint64) (n_bytes / sizeof (gfloat));
  guint tensor;

  if (writer == NULL)
    return FALSE;
  tensor = tps_safetensors_writer_add_tensor (writer, STATE, "F32", 1, &dim, NULL);
  return tps_safetensors_writer_begin (writer, error)
         && append_all (writer, tensor, tps_buffer_get_data (capture->state),
                        (gsize) dim * sizeof (gfloat), pace, error)
         && tps_safetensors_writer_finish (writer, &file->n_bytes, &file->header_crc32c, error);
}

/* Writes the files of `capture` to `folder`, and fills in `model` except for the push ids. Errors:
 * those of the disk, ABORTED (cancelled). */
static gboolean
model_files_write (const TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
                   TpsSnapshotPace *pace, TpsManifestModel *model, GError **error)
{
  model->lsn = capture->lsn;
  model->incarnation = capture->incarnation;
  if (capture->incarnation == 0)
    return TRUE;
  model->optimizer = capture->optimizer;
  memcpy (model->beginning, capture->beginning.bytes, sizeof model->beginning);
  g_array_append_vals (model->answers, capture->answers->data, capture->answers->len);
  model->state.name = g_strdup (STATE_NAME);
  return write_versions (capture, disk, folder, pace, model, error)
         && write_state (capture, disk, folder, pace, &model->state, error);
}

static TpsBuffer *
read_elements (TpsSafetensorsReader *reader, const TpsSafetensor *tensor, TpsSnapshotPace *pace,
               GError **error)
{
  gsize n_bytes = (gsize) (tensor->end - tensor->begin);
  g_autoptr (TpsBuffer)
      buffer = tps_buffer_pool_get (tps_buffer_pool_get_default (), n_bytes, error);
  TpsSafetensorStream stream;

  if (buffer == NULL)
    return NULL;
  tps_safetensor_stream_init (&stream, reader, tensor);
  for (gsize at = 0, n; at < n_bytes; at += n)
    {
      n = MIN (PIECE_BYTES, n_bytes - at);
      if (!tps_safetensor_stream_read (&stream, tps_buffer_get_data (buffer) + at, n, error)
          || !tps_snapshot_pace (pace, n, error))
        return NULL;
    }
  return g_steal_pointer (&buffer);
}

/* Returns the names of parameters from the metadata. The caller frees them with g_strfreev(). */
static GStrv
parse_names (TpsSafetensorsReader *reader, const gchar *what, GError **error)
{
  const gchar *text = g_hash_table_lookup (reader->metadata, NAMES);
  GPtrArray *names = g_ptr_array_new_with_free_func (g_free);
  GString *value = g_string_new (NULL);
  TpsJsonReader json;
  gboolean ok;

  text = text != NULL ? text : "";
  tps_json_reader_init (&json, text, strlen (text));
  tps_json_begin_array (&json);
  while (tps_json_next_element (&json))
    {
      gsize n;
      g_autofree guchar *name = NULL;

      tps_json_read_string (&json, value);
      name = g_base64_decode (value->str, &n);
      g_ptr_array_add (names, g_strndup ((const gchar *) name, n));
    }
  ok = tps_json_end (&json, what, error);
  g_string_free (value, TRUE);
  g_ptr_array_add (names, NULL);
  if (ok)
    return (GStrv) g_ptr_array_free (names, FALSE);
  g_ptr_array_unref (names);
  return NULL;
}

static gboolean
read_parameter (TpsNamedTensor *parameter, TpsSafetensorsReader *reader, const gchar *key,
                const gchar *what, TpsSnapshotPace *pace, GError **error)
{
  const TpsSafetensor *tensor = tps_safetensors_reader_find_tensor (reader, key);
  TpsShape shape;
  TpsBuffer *buffer;

  if (tensor == NULL || !g_str_equal (tensor->dtype, "F32"))
    return tps_fail (error, TPS_ERROR_ABORTED, "%s: there is no tensor %s of type F32", what, key);
  if (!tps_shape_init (&shape, TPS_DTYPE_FLOAT32, tensor->n_dims, tensor->dims, what, error))
    return FALSE;
  buffer = read_elements (reader, tensor, pace, error);
  if (buffer == NULL)
    return FALSE;
  tps_tensor_init_take (&parameter->tensor, &shape, buffer, 0);
  return TRUE;
}

static TpsModelVersion *
read_version (TpsDisk *disk, const gchar *folder, const TpsManifestVersion *entry,
              TpsSnapshotPace *pace, GError **error)
{
  g_autofree gchar *what = g_build_filename (folder, entry->file.name, NULL);
  g_autoptr (TpsSafetensorsReader)
      reader = tps_snapshot_open_file (disk, folder, &entry->file, error);
  g_autoptr (TpsModelVersion) version = NULL;
  g_auto (GStrv) names = NULL;
  gboolean are_names;

  if (reader == NULL)
    return NULL;
  names = parse_names (reader, what, error);
  if (names == NULL)
    return NULL;
  version = tps_model_version_new (entry->version, g_strv_length (names));
  for (guint i = 0; names[i] != NULL; i++)
    version->parameters[i].name = g_strdup (names[i]);
  are_names = are_keys (version);
  for (guint i = 0; i < version->n_parameters; i++)
    {
      g_autofree gchar *key = dup_key (names[i], i, are_names);

      if (!read_parameter (&version->parameters[i], reader, key, what, pace, error))
        return NULL;
    }
  return g_steal_pointer (&version);
}

static gboolean
read_state (TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
            const TpsManifestFile *file, TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (TpsSafetensorsReader) reader = tps_snapshot_open_file (disk, folder, file, error);
  const TpsSafetensor *tensor;
  gint64 any = -1;

  if (reader == NULL)
    return FALSE;
  tensor = tps_safetensors_reader_require (reader, STATE, "F32", 1, &any, error);
  if (tensor == NULL)
    return FALSE;
  capture->state = read_elements (reader, tensor, pace, error);
  return capture->state != NULL;
}

/* Reads the files of `model` into `capture`, which must be all zero. The caller must clear
 * `capture` in any case. Errors: those of the disk, ABORTED, RESOURCE_EXHAUSTED. */
static gboolean
model_files_read (TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
                  const TpsManifestModel *model, TpsSnapshotPace *pace, GError **error)
{
  capture->lsn = model->lsn;
  capture->incarnation = model->incarnation;
  if (model->incarnation == 0)
    return TRUE;
  if (model->versions->len > G_N_ELEMENTS (capture->versions))
    return tps_fail (error, TPS_ERROR_ABORTED,
                     "%s: the manifest has more versions of the model than are kept", folder);
  capture->optimizer = model->optimizer;
  memcpy (capture->beginning.bytes, model->beginning, sizeof model->beginning);
  capture->answers = g_array_ref (model->answers);
  for (guint i = 0; i < model->versions->len; i++)
    {
      capture->versions[i] = read_version (
          disk, folder, &g_array_index (model->versions, TpsManifestVersion, i), pace, error);
      if (capture->versions[i] == NULL)
        return FALSE;
      capture->n_versions++;
    }
  return read_state (capture, disk, folder, &model->state, pace, error);
}

/* ---- tables, whole or as increments ---------------------------------------------------------- */

/* The files of an earlier snapshot get a second name in the folder of the new one (TpsDisk.link),
 * so that every snapshot is complete by itself and may be deleted by itself. */

typedef struct
{
  const TpsSnapshotOptions *options;
  gchar name[TPS_SNAPSHOT_MAX_NAME + 1];
  gchar *folder; /* of this snapshot */
  TpsSnapshotPace pace;
  TpsManifest manifest;
  gchar **names;       /* of the existing snapshots, the oldest first */
  TpsManifest earlier; /* of the newest existing snapshot; without tables if there is none */
  /* The folder of that snapshot; NULL = there is none, or all tables are written whole. */
  gchar *earlier_folder;
} Writing;

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
  Writing *snapshot;
  TpsTable *table;
  guint number; /* in the snapshot */
  TpsTableFileRows rows;
  TpsManifestTable *entry;
} TableWriting;

static gboolean
write_rows (const TableWriting *writing, const gchar *name, TpsManifestFile *file, GError **error)
{
  Writing *snapshot = writing->snapshot;
  g_autofree gchar *path = g_build_filename (snapshot->folder, name, NULL);

  file->name = g_strdup (name);
  return tps_table_file_write (writing->table, snapshot->options->disk, path, &writing->rows,
                               &snapshot->pace, file, error);
}

/* Links `file` of the earlier snapshot as `name` in the new one. FALSE: the disk cannot link
 * files. */
static gboolean
share (const Writing *snapshot, const TpsManifestFile *file, const gchar *name,
       TpsManifestFile *shared)
{
  TpsDisk *disk = snapshot->options->disk;
  g_autofree gchar *from = g_build_filename (snapshot->earlier_folder, file->name, NULL);
  g_autofree gchar *to = g_build_filename (snapshot->folder, name, NULL);

  if (disk->link == NULL || !disk->link (disk, from, to, NULL))
    return FALSE;
  *shared = *file;
  shared->name = g_strdup (name);
  return TRUE;
}

static gboolean
share_all (const TableWriting *writing, const TpsManifestTable *earlier, gboolean is_whole)
{
  g_autofree gchar *base = g_strdup_printf (is_whole ? WHOLE_NAME : BASE_NAME, writing->number);

  if (!share (writing->snapshot, &earlier->file, base, &writing->entry->file))
    return FALSE;
  for (guint i = 0; i < tps_manifest_table_get_n_increments (earlier); i++)
    {
      g_autofree gchar *name = g_strdup_printf (INCREMENT_NAME, writing->number, i + 1);
      TpsManifestFile shared;

      if (!share (writing->snapshot, tps_manifest_table_get_increment (earlier, i), name, &shared))
        return FALSE;
      tps_manifest_table_add_increment (writing->entry, &shared);
    }
  return TRUE;
}

static gboolean
write_increment (const TableWriting *writing, GError **error)
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
find_changed_rows (TableWriting *writing, guint8 **bits)
{
  Writing *snapshot = writing->snapshot;
  TpsTable *table = writing->table;
  gsize n_rows = (gsize) table->spec.shard.n_rows;

  *bits = g_try_malloc0 (n_rows / 8 + 1);
  if (*bits == NULL)
    return FALSE;
  writing->rows.changed = *bits;
  for (gsize slot = 0, n; slot < n_rows; slot += n)
    {
      n = MIN (TPS_TABLE_MAX_SCANNED_ROWS, n_rows - slot);
      writing->rows.n_changed += tps_table_find_changed_rows (table, slot, n, snapshot->earlier.lsn,
                                                              *bits);
      tps_snapshot_held (&snapshot->pace, n * sizeof (gint64));
      if (!tps_snapshot_pace (&snapshot->pace, 0, NULL))
        return FALSE;
    }
  return TRUE;
}

/* As find_changed_rows(). If rows have no LSNs of their own, the progress of the table shows
 * whether any row has changed. It contains all commands up to the LSN of the new snapshot, because
 * they have ended. FALSE: some row may have changed, so the table must be written whole. */
static gboolean
find_changes (TableWriting *writing, guint8 **bits)
{
  if (tps_table_knows_changed_rows (writing->table))
    return find_changed_rows (writing, bits);
  return writing->entry->progress.lsn <= writing->snapshot->earlier.lsn;
}

/* Returns TRUE if no row has changed, or if there may be one more increment and all increments
 * together would be small enough. */
static gboolean
may_grow (const TableWriting *writing, const TpsManifestTable *earlier)
{
  guint n = tps_manifest_table_get_n_increments (earlier);
  guint64 n_bytes = (guint64) writing->rows.n_changed
                    * (tps_table_file_get_row_bytes (writing->table) + sizeof (gint64));

  for (guint i = 0; i < n; i++)
    n_bytes += tps_manifest_table_get_increment (earlier, i)->n_bytes;
  return writing->rows.n_changed == 0
         || (n < writing->snapshot->options->max_increments
             && n_bytes <= earlier->file.n_bytes / MAX_PART);
}

static gboolean
begin_increment (TableWriting *writing, guint8 **bits)
{
  const TpsManifestTable *earlier;
  gboolean is_whole;

  if (writing->snapshot->earlier_folder == NULL)
    return FALSE;
  earlier = tps_manifest_find_table (&writing->snapshot->earlier, writing->table->spec.name,
                                     writing->table->incarnation);
  if (earlier == NULL || !find_changes (writing, bits) || !may_grow (writing, earlier))
    return FALSE;
  is_whole = writing->rows.n_changed == 0 && tps_manifest_table_get_n_increments (earlier) == 0;
  if (share_all (writing, earlier, is_whole))
    return TRUE;
  /* Files that were linked stay in the folder, and are deleted with it. */
  g_clear_pointer (&writing->entry->file.name, g_free);
  g_clear_pointer (&writing->entry->increments, g_array_unref);
  return FALSE;
}

/* Fills in `entry`, which must be empty. */
static gboolean
write_table_files (Writing *snapshot, TpsTable *table, guint number, TpsManifestTable *entry,
                   GError **error)
{
  TableWriting writing = { snapshot, table, number, { 0 }, entry };
  g_autofree guint8 *bits = NULL;

  entry->incarnation = table->incarnation;
  /* The progress is read before the rows, so the rows contain all of it. */
  entry->progress = tps_table_get_progress (table);
  writing.rows.n_steps = entry->progress.n_steps;
  tps_table_spec_copy (&entry->spec, &table->spec);
  if (!begin_increment (&writing, &bits))
    {
      g_autofree gchar *name = g_strdup_printf (WHOLE_NAME, number);

      writing.rows.changed = NULL;
      return write_rows (&writing, name, &entry->file, error);
    }
  return writing.rows.n_changed == 0 || write_increment (&writing, error);
}

/* Writes the rows of a table while pushes continue. The rows that have changed since the earlier
 * snapshot are written as an increment on three conditions: the earlier snapshot has files of the
 * table, with fewer than `max_increments` increments; all increments together take at most half of
 * the bytes of the whole table; and the disk can link files. If no row has changed, no increment is
 * written, and the number and the size of the increments do not matter. Errors: those of the disk,
 * ABORTED (cancelled). */
static gboolean
write_table (Writing *writing, TpsTable *table, guint number, GError **error)
{
  TpsManifestTable entry = { 0 };
  gboolean ok = write_table_files (writing, table, number, &entry, error);

  /* The entry is appended after a failure too, so its memory is freed with the manifest. */
  g_array_append_val (writing->manifest.tables, entry);
  return ok;
}

/* ---- files of push ids ----------------------------------------------------------------------- */

#define TENSOR "push_ids"
#define READ_BYTES (1 << 20)

/* ---- writing --------------------------------------------------------------------------------- */

static gboolean
append_push_ids (TpsPushWindow *window, TpsSafetensorsWriter *writer, guint tensor,
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

/* Writes `file->name` in `folder` while pushes continue, and fills in the rest of `file`. Errors:
 * those of the disk, ABORTED (cancelled). */
static gboolean
write_push_file (TpsPushWindow *window, TpsDisk *disk, const gchar *folder, TpsSnapshotPace *pace,
                 TpsManifestFile *file, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, file->name, NULL);
  g_autoptr (TpsSafetensorsWriter) writer = tps_safetensors_writer_new (disk, path, error);
  gint64 dim = -1;
  guint tensor;

  if (writer == NULL)
    return FALSE;
  tensor = tps_safetensors_writer_add_tensor (writer, TENSOR, "U8", 1, &dim, NULL);
  return tps_safetensors_writer_begin (writer, error)
         && append_push_ids (window, writer, tensor, pace, error)
         && tps_safetensors_writer_finish (writer, &file->n_bytes, &file->header_crc32c, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

static gboolean
fail_push_file (const gchar *folder, const TpsManifestFile *file, gint64 offset, GError **error)
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
read_push_ids (TpsPushWindow *window, TpsSafetensorStream *stream, const gchar *folder,
               const TpsManifestFile *file, TpsSnapshotPace *pace, GError **error)
{
  g_autoptr (GByteArray) records = g_byte_array_new ();

  while (stream->at < stream->tensor->end)
    {
      guint n_kept = records->len;
      gsize n = (gsize) MIN (READ_BYTES, stream->tensor->end - stream->at);
      gsize n_used;

      if (n_kept > G_MAXUINT / 2)
        return fail_push_file (folder, file, stream->at - n_kept, error);
      g_byte_array_set_size (records, n_kept + (guint) n);
      if (!tps_safetensor_stream_read (stream, records->data + n_kept, n, error)
          || !tps_snapshot_pace (pace, n, error))
        return FALSE;
      if (!tps_push_export_read (window, records->data, records->len, &n_used, error))
        return fail_push_file (folder, file, stream->at - (gint64) (records->len - n_used), error);
      g_byte_array_remove_range (records, 0, (guint) n_used);
    }
  tps_push_export_end_read (window);
  return records->len == 0 || fail_push_file (folder, file, stream->at - records->len, error);
}

/* Reads the file into `window`, which no request may use yet. Errors: those of the disk, ABORTED
 * (damaged, cancelled). */
static gboolean
read_push_file (TpsPushWindow *window, TpsDisk *disk, const gchar *folder,
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
  return read_push_ids (window, &stream, folder, file, pace, error);
}

static void
set_info (TpsSnapshotInfo *info, const gchar *name, const TpsManifest *manifest)
{
  *info = (TpsSnapshotInfo) { .lsn = manifest->lsn,
                              .end_lsn = manifest->end_lsn,
                              .moment = manifest->moment,
                              .oldest_lsn = manifest->lsn,
                              .n_tables = manifest->tables->len,
                              .n_increments = tps_manifest_count_increments (manifest),
                              .has_model = manifest->model.incarnation > 0,
                              .n_bytes = tps_manifest_count_bytes (manifest) };
  g_strlcpy (info->name, name, sizeof info->name);
  if (manifest->history != NULL)
    g_strlcpy (info->history, manifest->history, sizeof info->history);
}

/* ---- checks of existing snapshots ------------------------------------------------------------ */

/* Returns TRUE if the snapshot `name`, with `manifest` in `folder`, is one of this server that is
 * not newer than `max_lsn`. */
static gboolean
check_own (const TpsSnapshotOptions *options, const gchar *name, gint64 max_lsn,
           const TpsManifest *manifest, const gchar *folder, GError **error)
{
  gchar right[TPS_SNAPSHOT_MAX_NAME + 1];

  tps_snapshot_folder_name (manifest->lsn, right);
  if (options->history != NULL && g_strcmp0 (manifest->history, options->history) != 0)
    return tps_fail (
        error, TPS_ERROR_ABORTED,
        "%s: this is a snapshot of another server (history %s, and the data directory has "
        "history %s); move it elsewhere; to begin with it, use --restore-from with an "
        "empty data directory",
        folder, manifest->history != NULL ? manifest->history : "not set", options->history);
  if (options->history != NULL && manifest->moment.epoch > options->epoch)
    return tps_fail (
        error, TPS_ERROR_ABORTED,
        "%s: this snapshot has epoch %u, but the data directory only %u, so its FORMAT is "
        "older than the snapshot; restore the directory from a copy",
        folder, manifest->moment.epoch, options->epoch);
  if (!g_str_equal (name, right))
    return tps_fail (error, TPS_ERROR_ABORTED,
                     "%s: its manifest is that of %s; rename it, or move it elsewhere", folder,
                     right);
  if (manifest->lsn > max_lsn)
    return tps_fail (
        error, TPS_ERROR_ABORTED,
        "%s: this snapshot is newer than the state of the server, which is that of LSN "
        "%" G_GINT64_FORMAT ", so it is of a copy of the data directory; move it elsewhere",
        folder, max_lsn);
  return TRUE;
}

/* An earlier snapshot gives the same rows if the log reaches back to it. */
static void
add_remedy (GError **error, const gchar *folder)
{
  if (error != NULL
      && (g_error_matches (*error, TPS_ERROR, TPS_ERROR_ABORTED)
          || g_error_matches (*error, TPS_ERROR, TPS_ERROR_NOT_FOUND)))
    g_prefix_error (error,
                    "snapshot %s cannot be read; if it is damaged, move it elsewhere, so that an "
                    "earlier one and the log are used: ",
                    folder);
}

/* Reads the manifests of all snapshots into `manifest`, one after another, so that it becomes the
 * newest one; it must be initialised and stays empty if there is no snapshot. Old snapshots, and
 * the log before the newest ones, are deleted by their names. Therefore, each name must be right.
 */
static gboolean
read_newest (const TpsSnapshotOptions *options, gchar *const *names, gint64 max_lsn,
             TpsManifest *manifest, GError **error)
{
  for (; *names != NULL; names++)
    {
      g_autofree gchar *folder = g_build_filename (options->folder, *names, NULL);

      tps_manifest_clear (manifest);
      tps_manifest_init (manifest);
      if (!tps_manifest_read (manifest, options->disk, folder, error))
        {
          add_remedy (error, folder);
          return FALSE;
        }
      if (!check_own (options, *names, max_lsn, manifest, folder, error))
        return FALSE;
    }
  return TRUE;
}

/* ---- writing --------------------------------------------------------------------------------- */

static gboolean
write_tables (Writing *writing, GError **error)
{
  g_autoptr (GPtrArray) tables = tps_table_store_ref_tables (writing->options->tables);

  for (guint i = 0; i < tables->len; i++)
    {
      const TpsTable *table = g_ptr_array_index (tables, i);

      writing->pace.n_bytes += (guint64) table->spec.shard.n_rows
                               * tps_table_file_get_row_bytes (table);
    }
  for (guint i = 0; i < tables->len; i++)
    if (!write_table (writing, g_ptr_array_index (tables, i), i, error))
      return FALSE;
  writing->manifest.table_pushes.name = g_strdup ("table-pushes.ids");
  return write_push_file (writing->options->tables->pushes, writing->options->disk, writing->folder,
                          &writing->pace, &writing->manifest.table_pushes, error);
}

/* Waits until all commands up to `lsn` have ended. They may have to wait long for a log on a full
 * disk, so the wait can be cancelled. */
static gboolean
wait_ended (Writing *writing, gint64 lsn, GError **error)
{
  TpsSequencer *sequencer = writing->options->sequencer;

  while (!tps_sequencer_wait_ended (sequencer, lsn, tps_clock_now_ns () + ASK_NS))
    if (!tps_snapshot_pace (&writing->pace, 0, error))
      return FALSE;
  return TRUE;
}

/* Writes the model, and then its push ids. The window has the push ids of all commands in the
 * captured model only after these commands have ended, so the function waits for them. */
static gboolean
write_model (Writing *writing, GError **error)
{
  const TpsSnapshotOptions *options = writing->options;
  TpsManifestModel *model = &writing->manifest.model;
  TpsModelCapture capture;
  gboolean ok;

  if (!tps_model_server_capture (options->model, &capture, error))
    return FALSE;
  writing->manifest.has_model = TRUE;
  ok = model_files_write (&capture, options->disk, writing->folder, &writing->pace, model, error);
  tps_model_server_clear_capture (options->model, &capture);
  if (!ok)
    return FALSE;
  if (!wait_ended (writing, model->lsn, error))
    return FALSE;
  model->pushes.name = g_strdup ("model-pushes.ids");
  return write_push_file (tps_model_server_get_pushes (options->model), options->disk,
                          writing->folder, &writing->pace, &model->pushes, error);
}

/* Writes the manifest, after the log holds every command whose effects may be in the files. A
 * command that has not ended may not have reached the log, and a flush would not wait for it.
 * Therefore, the function first waits until all commands have ended. */
static gboolean
write_manifest (Writing *writing, GError **error)
{
  const TpsSnapshotOptions *options = writing->options;
  gint64 end_lsn = tps_sequencer_get_lsn (options->sequencer);

  writing->manifest.end_lsn = end_lsn;
  TPS_PLANT ("snapshot-lsn-too-new", writing->manifest.lsn = end_lsn);
  TPS_PLANT ("manifest-before-log",
             return tps_manifest_write (&writing->manifest, options->disk, writing->folder, error));
  if (options->flush != NULL
      && (!wait_ended (writing, end_lsn, error)
          || !options->flush (options->user_data, end_lsn, error)))
    return FALSE;
  writing->manifest.moment.epoch = options->epoch;
  if (options->get_time_ms != NULL)
    writing->manifest.moment.time_ms = options->get_time_ms (options->user_data);
  return tps_manifest_write (&writing->manifest, options->disk, writing->folder, error);
}

static gboolean
write_files (Writing *writing, GError **error)
{
  const TpsSnapshotOptions *options = writing->options;

  return options->disk->make_folder (options->disk, writing->folder, error)
         && options->disk->sync_folder (options->disk, options->folder, error)
         && (options->tables == NULL || write_tables (writing, error))
         && (options->model == NULL || write_model (writing, error))
         && write_manifest (writing, error);
}

static gboolean
write_snapshot (Writing *writing, TpsSnapshotInfo *info, GError **error)
{
  const TpsSnapshotOptions *options = writing->options;
  guint keep = options->keep > 0 ? options->keep : DEFAULT_KEEP;
  guint n = g_strv_length (writing->names), n_deleted = 0;

  if (!write_files (writing, error))
    {
      /* This releases disk space for the log. A failure has no consequences, because the next call
       * deletes the rest. */
      tps_snapshot_folder_delete (options->disk, options->folder, writing->name, NULL);
      return FALSE;
    }
  set_info (info, writing->name, &writing->manifest);
  /* Deletes the oldest first. One that cannot be deleted stays, with all later ones, and the next
   * call tries again. */
  while (n_deleted + keep < n + 1
         && tps_snapshot_folder_delete (options->disk, options->folder, writing->names[n_deleted],
                                        NULL))
    n_deleted++;
  if (n_deleted < n)
    info->oldest_lsn = tps_snapshot_folder_get_lsn (writing->names[n_deleted]);
  return TRUE;
}

/* Returns the LSN of the snapshot. The snapshot must contain every change that was answered before
 * it began. A command ends shortly after its answer, so the function waits for the admitted
 * commands. It gives up after END_NS, because a full disk may delay commands for a long time. */
static gint64
get_first_lsn (TpsSequencer *sequencer)
{
  tps_sequencer_wait_ended (sequencer, tps_sequencer_get_lsn (sequencer),
                            tps_clock_now_ns () + END_NS);
  return tps_sequencer_get_ended_lsn (sequencer);
}

gboolean
tps_snapshot_write (const TpsSnapshotOptions *options, TpsSnapshotInfo *info, GError **error)
{
  Writing writing = { .options = options, .pace.options = options };
  g_auto (GStrv) names = NULL;
  gint64 lsn;
  guint n;
  gboolean ok;

  if (options->tables != NULL && !options->tables->keeps_row_lsns)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "snapshots need a store of tables that keeps the LSNs of rows");
  if (!options->disk->make_folder (options->disk, options->folder, error))
    return FALSE;
  names = tps_snapshot_folder_list (options->disk, options->folder, error);
  if (names == NULL)
    return FALSE;
  /* Remains that cannot be deleted do no harm, because readers ignore them. */
  tps_snapshot_delete_incomplete (options->disk, options->folder, NULL);
  lsn = get_first_lsn (options->sequencer);
  tps_snapshot_folder_name (lsn, writing.name);
  tps_manifest_init (&writing.earlier);
  tps_manifest_init (&writing.manifest);
  writing.manifest.lsn = lsn;
  writing.manifest.history = g_strdup (options->history);
  writing.names = names;
  n = g_strv_length (names);
  ok = read_newest (options, names, lsn, &writing.earlier, error);
  if (ok && n > 0 && g_str_equal (names[n - 1], writing.name))
    {
      set_info (info, writing.name, &writing.earlier); /* nothing has changed since */
      info->oldest_lsn = tps_snapshot_folder_get_lsn (names[0]);
    }
  else if (ok)
    {
      writing.folder = g_build_filename (options->folder, writing.name, NULL);
      if (options->max_increments > 0 && n > 0)
        writing.earlier_folder = g_build_filename (options->folder, names[n - 1], NULL);
      ok = write_snapshot (&writing, info, error);
    }
  tps_manifest_clear (&writing.manifest);
  tps_manifest_clear (&writing.earlier);
  g_free (writing.earlier_folder);
  g_free (writing.folder);
  return ok;
}

/* ---- reading --------------------------------------------------------------------------------- */

gboolean
tps_snapshot_find (const TpsSnapshotOptions *options, TpsSnapshotInfo *info, GError **error)
{
  g_auto (GStrv) names = tps_snapshot_folder_list (options->disk, options->folder, error);
  g_auto (TpsManifest) manifest = { 0 };
  guint n;

  *info = (TpsSnapshotInfo) { 0 };
  tps_manifest_init (&manifest);
  if (names == NULL || !read_newest (options, names, G_MAXINT64, &manifest, error))
    return FALSE;
  n = g_strv_length (names);
  if (n == 0)
    return TRUE;
  set_info (info, names[n - 1], &manifest);
  info->oldest_lsn = tps_snapshot_folder_get_lsn (names[0]);
  return TRUE;
}

static gboolean
restore_tables (const TpsSnapshotOptions *options, const gchar *folder, const TpsManifest *manifest,
                TpsSnapshotPace *pace, GError **error)
{
  if (options->tables == NULL && manifest->tables->len > 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: the snapshot holds %u tables, and this server has none", folder,
                     manifest->tables->len);
  for (guint i = 0; i < manifest->tables->len; i++)
    {
      const TpsManifestTable *entry = &g_array_index (manifest->tables, TpsManifestTable, i);
      g_autoptr (TpsTable)
          table = tps_table_store_make_restored (options->tables, &entry->spec, error);

      if (table == NULL || !tps_table_file_read (table, options->disk, folder, entry, pace, error)
          || !tps_table_store_adopt (options->tables, table, error))
        return FALSE;
    }
  if (options->tables == NULL)
    return TRUE;
  tps_table_store_set_snapshot_lsn (options->tables, manifest->end_lsn);
  return manifest->table_pushes.name == NULL
         || read_push_file (options->tables->pushes, options->disk, folder, &manifest->table_pushes,
                            pace, error);
}

static gboolean
restore_model (const TpsSnapshotOptions *options, const gchar *folder, const TpsManifest *manifest,
               TpsSnapshotPace *pace, GError **error)
{
  TpsModelCapture capture = { 0 };
  gboolean ok;

  if (!manifest->has_model)
    return TRUE;
  if (options->model == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: the snapshot is of a server that updates a model, and this one does not",
                     folder);
  ok = model_files_read (&capture, options->disk, folder, &manifest->model, pace, error)
       && tps_model_server_restore (options->model, &capture, error);
  tps_model_capture_clear (&capture);
  return ok
         && read_push_file (tps_model_server_get_pushes (options->model), options->disk, folder,
                            &manifest->model.pushes, pace, error);
}

/* `manifest` must be initialised and empty. */
static gboolean
restore_folder (const TpsSnapshotOptions *options, const gchar *folder, TpsManifest *manifest,
                GError **error)
{
  TpsSnapshotPace pace = { .options = options };

  if (!tps_manifest_read (manifest, options->disk, folder, error))
    return FALSE;
  pace.n_bytes = tps_manifest_count_bytes (manifest);
  return restore_tables (options, folder, manifest, &pace, error)
         && restore_model (options, folder, manifest, &pace, error);
}

gboolean
tps_snapshot_restore (const TpsSnapshotOptions *options, const TpsSnapshotInfo *info,
                      GError **error)
{
  g_autofree gchar *folder = g_build_filename (options->folder, info->name, NULL);
  g_auto (TpsManifest) manifest = { 0 };

  tps_manifest_init (&manifest);
  if (!restore_folder (options, folder, &manifest, error))
    {
      add_remedy (error, folder);
      return FALSE;
    }
  tps_sequencer_set_lsn (options->sequencer, manifest.lsn);
  return TRUE;
}

/* ---- snapshots of other servers -------------------------------------------------------------- */

/* Rows may have LSNs up to end_lsn, and later commands must have larger LSNs. */
gboolean
tps_snapshot_restore_copy (const TpsSnapshotOptions *options, const gchar *folder, GError **error)
{
  g_auto (TpsManifest) manifest = { 0 };

  tps_manifest_init (&manifest);
  if (!restore_folder (options, folder, &manifest, error))
    return FALSE;
  tps_sequencer_set_lsn (options->sequencer, manifest.end_lsn);
  return TRUE;
}

gchar *
tps_snapshot_locate (TpsDisk *disk, const gchar *path, TpsSnapshotInfo *info, GError **error)
{
  g_autofree gchar *folder = tps_snapshot_folder_locate (disk, path, error);
  g_autofree gchar *name = folder != NULL ? g_path_get_basename (folder) : NULL;
  g_auto (TpsManifest) manifest = { 0 };

  tps_manifest_init (&manifest);
  if (folder == NULL || !tps_manifest_read (&manifest, disk, folder, error))
    return NULL;
  if (manifest.end_lsn > TPS_MAX_COUNT / 2)
    return tps_fail_null (error, TPS_ERROR_ABORTED,
                          "snapshot %s: end_lsn %" G_GINT64_FORMAT " is above 2^61", folder,
                          manifest.end_lsn);
  set_info (info, name, &manifest);
  return g_steal_pointer (&folder);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/model_file.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/snapshot/json_reader.h"

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

/* ---- names ----------------------------------------------------------------------------------- */

/* Returns TRUE if all names of parameters can be keys. */
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

/* ---- writing --------------------------------------------------------------------------------- */

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

gboolean
tps_model_files_write (const TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
                       TpsSnapshotPace *pace, TpsManifestModel *model, GError **error)
{
  model->lsn = capture->lsn;
  model->incarnation = capture->incarnation;
  if (capture->incarnation == 0)
    return TRUE;
  model->optimizer = capture->optimizer;
  memcpy (model->beginning, capture->beginning.bytes, sizeof model->beginning);
  for (guint i = 0; i < capture->answers->len; i++)
    {
      const TpsModelAnswer *answer = &g_array_index (capture->answers, TpsModelAnswer, i);
      TpsManifestAnswer entry = { answer->trainer, answer->version };

      g_array_append_val (model->answers, entry);
    }
  model->state.name = g_strdup (STATE_NAME);
  return write_versions (capture, disk, folder, pace, model, error)
         && write_state (capture, disk, folder, pace, &model->state, error);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the elements of a tensor into a new buffer. */
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
  const gchar *text = tps_safetensors_reader_get_metadata (reader, NAMES);
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

gboolean
tps_model_files_read (TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
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
  capture->answers = g_array_new (FALSE, FALSE, sizeof (TpsModelAnswer));
  for (guint i = 0; i < model->answers->len; i++)
    {
      const TpsManifestAnswer *entry = &g_array_index (model->answers, TpsManifestAnswer, i);
      TpsModelAnswer answer = { entry->trainer, entry->version };

      g_array_append_val (capture->answers, answer);
    }
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

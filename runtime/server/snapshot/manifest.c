/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/snapshot/manifest.h"

#include <string.h>

#include "runtime/base/crc32c.h"
#include "runtime/base/durability.h"
#include "runtime/base/error.h"
#include "runtime/server/snapshot/spec_json.h"

#define FORMAT "thriftps snapshot"
#define OTHER_VERSION(word) \
  "the format is " word " than version " G_STRINGIFY (TPS_MANIFEST_VERSION)
#define TEMPORARY_NAME "manifest.tmp"
#define MAX_BYTES ((gint64) 100 << 20)

/* The maximum memory of a parsed manifest for each byte of its text. The worst case is a list of
 * answers: each has 5 bytes of text, and 16 bytes in an array that doubles its size. */
#define TEXT_COST 16

/* The last member of the text is the checksum of all bytes before this member. */
#define TRAILER ",\"crc32c\":\"%08x\"}\n"
#define TRAILER_BYTES 22

/* ---- life ------------------------------------------------------------------------------------ */

static void
clear_file (gpointer data)
{
  g_free (((TpsManifestFile *) data)->name);
}

static void
clear_table (gpointer data)
{
  TpsManifestTable *table = data;

  g_free (table->file.name);
  g_clear_pointer (&table->increments, g_array_unref);
  tps_table_spec_clear (&table->spec);
}

static void
clear_version (gpointer data)
{
  g_free (((TpsManifestVersion *) data)->file.name);
}

void
tps_manifest_init (TpsManifest *manifest)
{
  *manifest = (TpsManifest) {
    .tables = g_array_new (FALSE, TRUE, sizeof (TpsManifestTable)),
    .model = { .versions = g_array_new (FALSE, TRUE, sizeof (TpsManifestVersion)),
               .answers = g_array_new (FALSE, TRUE, sizeof (TpsModelAnswer)) },
  };
  g_array_set_clear_func (manifest->tables, clear_table);
  g_array_set_clear_func (manifest->model.versions, clear_version);
}

void
tps_manifest_clear (TpsManifest *manifest)
{
  g_clear_pointer (&manifest->tables, g_array_unref);
  g_clear_pointer (&manifest->history, g_free);
  g_clear_pointer (&manifest->table_pushes.name, g_free);
  g_clear_pointer (&manifest->model.versions, g_array_unref);
  g_clear_pointer (&manifest->model.answers, g_array_unref);
  g_clear_pointer (&manifest->model.state.name, g_free);
  g_clear_pointer (&manifest->model.pushes.name, g_free);
  tps_charge_clear (&manifest->charge);
}

void
tps_manifest_table_add_increment (TpsManifestTable *table, const TpsManifestFile *file)
{
  if (table->increments == NULL)
    {
      table->increments = g_array_new (FALSE, TRUE, sizeof (TpsManifestFile));
      g_array_set_clear_func (table->increments, clear_file);
    }
  g_array_append_val (table->increments, *file);
}

guint
tps_manifest_table_get_n_increments (const TpsManifestTable *table)
{
  return table->increments != NULL ? table->increments->len : 0;
}

const TpsManifestFile *
tps_manifest_table_get_increment (const TpsManifestTable *table, guint i)
{
  return &g_array_index (table->increments, TpsManifestFile, i);
}

const TpsManifestTable *
tps_manifest_find_table (const TpsManifest *manifest, const gchar *name, gint64 incarnation)
{
  for (guint i = 0; i < manifest->tables->len; i++)
    {
      const TpsManifestTable *table = &g_array_index (manifest->tables, TpsManifestTable, i);

      if (table->incarnation == incarnation && g_str_equal (table->spec.name, name))
        return table;
    }
  return NULL;
}

guint
tps_manifest_count_increments (const TpsManifest *manifest)
{
  guint n = 0;

  for (guint i = 0; i < manifest->tables->len; i++)
    n += tps_manifest_table_get_n_increments (
        &g_array_index (manifest->tables, TpsManifestTable, i));
  return n;
}

static guint64
count_table_bytes (const TpsManifestTable *table)
{
  guint64 n_bytes = table->file.n_bytes;

  for (guint i = 0; i < tps_manifest_table_get_n_increments (table); i++)
    n_bytes += tps_manifest_table_get_increment (table, i)->n_bytes;
  return n_bytes;
}

guint64
tps_manifest_count_bytes (const TpsManifest *manifest)
{
  guint64 n_bytes = manifest->table_pushes.n_bytes + manifest->model.state.n_bytes
                    + manifest->model.pushes.n_bytes;

  for (guint i = 0; i < manifest->model.versions->len; i++)
    n_bytes += g_array_index (manifest->model.versions, TpsManifestVersion, i).file.n_bytes;
  for (guint i = 0; i < manifest->tables->len; i++)
    n_bytes += count_table_bytes (&g_array_index (manifest->tables, TpsManifestTable, i));
  return n_bytes;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void
append_file (GString *json, const TpsManifestFile *file)
{
  g_string_append (json, "{\"name\":");
  tps_json_append_string (json, file->name);
  g_string_append_printf (json, ",\"n_bytes\":%" G_GUINT64_FORMAT ",\"header_crc32c\":%u}",
                          file->n_bytes, file->header_crc32c);
}

static void
append_table (GString *json, const TpsManifestTable *table)
{
  g_string_append_printf (json,
                          "{\"incarnation\":%" G_GINT64_FORMAT ",\"lsn\":%" G_GINT64_FORMAT
                          ",\"n_steps\":%" G_GINT64_FORMAT ",\"spec\":",
                          table->incarnation, table->progress.lsn, table->progress.n_steps);
  tps_table_spec_append_json (json, &table->spec);
  g_string_append (json, ",\"file\":");
  append_file (json, &table->file);
  for (guint i = 0; i < tps_manifest_table_get_n_increments (table); i++)
    {
      g_string_append (json, i == 0 ? ",\"increments\":[" : ",");
      append_file (json, tps_manifest_table_get_increment (table, i));
    }
  g_string_append (json, table->increments != NULL ? "]}" : "}");
}

static void
append_versions (GString *json, const TpsManifestModel *model)
{
  g_string_append (json, ",\"versions\":[");
  for (guint i = 0; i < model->versions->len; i++)
    {
      const TpsManifestVersion *version = &g_array_index (model->versions, TpsManifestVersion, i);

      g_string_append_printf (json,
                              "%s{\"version\":%" G_GINT64_FORMAT ",\"file\":", i > 0 ? "," : "",
                              version->version);
      append_file (json, &version->file);
      g_string_append_c (json, '}');
    }
  g_string_append (json, "],\n\"answers\":[");
  for (guint i = 0; i < model->answers->len; i++)
    {
      const TpsModelAnswer *answer = &g_array_index (model->answers, TpsModelAnswer, i);

      g_string_append_printf (json, "%s[%" G_GINT64_FORMAT ",%" G_GINT64_FORMAT "]",
                              i > 0 ? "," : "", answer->trainer, answer->version);
    }
  g_string_append_c (json, ']');
}

static void
append_model (GString *json, const TpsManifestModel *model)
{
  g_string_append_printf (json,
                          ",\n\"model\":{\"lsn\":%" G_GINT64_FORMAT
                          ",\"incarnation\":%" G_GINT64_FORMAT ",\"pushes\":",
                          model->lsn, model->incarnation);
  append_file (json, &model->pushes);
  if (model->incarnation > 0)
    {
      g_string_append (json, ",\"optimizer\":");
      tps_optimizer_spec_append_json (json, &model->optimizer);
      g_string_append (json, ",\"beginning\":\"");
      for (guint i = 0; i < sizeof model->beginning; i++)
        g_string_append_printf (json, "%02x", model->beginning[i]);
      g_string_append (json, "\",\"state\":");
      append_file (json, &model->state);
      append_versions (json, model);
    }
  g_string_append_c (json, '}');
}

GString *
tps_manifest_to_text (const TpsManifest *manifest)
{
  GString *json = g_string_new (NULL);

  g_string_append_printf (json,
                          "{\"format\":\"" FORMAT "\",\"version\":%d,\n\"lsn\":%" G_GINT64_FORMAT
                          ",\"end_lsn\":%" G_GINT64_FORMAT,
                          TPS_MANIFEST_VERSION, manifest->lsn, manifest->end_lsn);
  if (manifest->history != NULL)
    {
      g_string_append (json, ",\n\"history\":");
      tps_json_append_string (json, manifest->history);
    }
  if (manifest->moment.epoch > 0)
    g_string_append_printf (json, ",\n\"epoch\":%u,\"time_ms\":%" G_GINT64_FORMAT,
                            manifest->moment.epoch, manifest->moment.time_ms);
  g_string_append (json, ",\n\"tables\":[");
  for (guint i = 0; i < manifest->tables->len; i++)
    {
      g_string_append (json, i > 0 ? ",\n" : "\n");
      append_table (json, &g_array_index (manifest->tables, TpsManifestTable, i));
    }
  g_string_append (json, "]");
  if (manifest->table_pushes.name != NULL)
    {
      g_string_append (json, ",\n\"table_pushes\":");
      append_file (json, &manifest->table_pushes);
    }
  if (manifest->has_model)
    append_model (json, &manifest->model);
  g_string_append_printf (json, TRAILER, tps_crc32c (0, json->str, json->len));
  return json;
}

/* Syncs the names of all files before the manifest gets its name. A manifest therefore never refers
 * to files that a power cut has removed. */
gboolean
tps_manifest_write (const TpsManifest *manifest, TpsDisk *disk, const gchar *folder, GError **error)
{
  g_autofree gchar *temporary = g_build_filename (folder, TEMPORARY_NAME, NULL);
  g_autofree gchar *path = g_build_filename (folder, TPS_MANIFEST_NAME, NULL);
  GString *text = tps_manifest_to_text (manifest);
  gboolean ok = tps_disk_write_text (disk, temporary, text->str, error)
                && disk->sync_folder (disk, folder, error)
                && disk->rename (disk, temporary, path, error)
                && disk->sync_folder (disk, folder, error);

  g_string_free (text, TRUE);
  return ok;
}

/* ---- reading --------------------------------------------------------------------------------- */

static gboolean
fail (const gchar *what, const gchar *problem, gint64 offset, GError **error)
{
  return tps_fail (error, TPS_ERROR_ABORTED, "%s: %s at offset %" G_GINT64_FORMAT, what, problem,
                   offset);
}

static gint64
read_count_to (TpsJsonReader *json, gint64 max)
{
  gint64 count = tps_json_read_i64 (json);

  if (count >= 0 && count <= max)
    return count;
  tps_json_fail (json, max == TPS_MAX_COUNT ? "a number outside [0, 2^62]"
                                            : "a number outside [0, 2^32)");
  return 0;
}

/* Reads a length, an LSN, a version, a number of steps or a time. */
static gint64
read_count (TpsJsonReader *json)
{
  return read_count_to (json, TPS_MAX_COUNT);
}

static void
read_file (TpsJsonReader *json, GString *key, TpsManifestFile *file)
{
  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    if (g_str_equal (key->str, "name"))
      {
        tps_json_read_string (json, key);
        g_free (file->name);
        file->name = g_strdup (key->str);
      }
    else if (g_str_equal (key->str, "n_bytes"))
      file->n_bytes = (guint64) read_count (json);
    else if (g_str_equal (key->str, "header_crc32c"))
      file->header_crc32c = (guint32) tps_json_read_i64 (json);
    else
      tps_json_fail (json, "a file with an unknown member");
  if (file->name == NULL || file->name[0] == '\0' || file->name[0] == '.'
      || strchr (file->name, '/') != NULL)
    tps_json_fail (json, "a file with an invalid name");
}

static void
read_table (TpsJsonReader *json, GString *key, TpsManifestTable *table)
{
  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    if (g_str_equal (key->str, "incarnation"))
      table->incarnation = read_count (json);
    else if (g_str_equal (key->str, "lsn"))
      table->progress.lsn = read_count (json);
    else if (g_str_equal (key->str, "n_steps"))
      table->progress.n_steps = read_count (json);
    else if (g_str_equal (key->str, "spec"))
      tps_table_spec_read_json (json, &table->spec);
    else if (g_str_equal (key->str, "file"))
      read_file (json, key, &table->file);
    else if (g_str_equal (key->str, "increments"))
      {
        tps_json_begin_array (json);
        while (tps_json_next_element (json))
          {
            TpsManifestFile file = { 0 };

            read_file (json, key, &file);
            tps_manifest_table_add_increment (table, &file);
          }
      }
    else
      tps_json_fail (json, "a table with an unknown member");
  if (json->problem == NULL
      && (table->file.name == NULL || table->spec.name == NULL || table->incarnation < 1
          || !tps_table_spec_resolve (&table->spec, NULL)))
    tps_json_fail (json, "an incomplete table");
}

static void
read_versions (TpsJsonReader *json, GString *key, TpsManifestModel *model)
{
  tps_json_begin_array (json);
  while (tps_json_next_element (json))
    {
      TpsManifestVersion *version;

      g_array_set_size (model->versions, model->versions->len + 1);
      version = &g_array_index (model->versions, TpsManifestVersion, model->versions->len - 1);
      tps_json_begin_object (json);
      while (tps_json_next_member (json, key))
        if (g_str_equal (key->str, "version"))
          version->version = read_count (json);
        else if (g_str_equal (key->str, "file"))
          read_file (json, key, &version->file);
        else
          tps_json_fail (json, "a version with an unknown member");
      if (version->version < 1 || version->file.name == NULL)
        tps_json_fail (json, "an incomplete version");
    }
}

static void
read_answers (TpsJsonReader *json, TpsManifestModel *model)
{
  tps_json_begin_array (json);
  while (tps_json_next_element (json))
    {
      gint64 pair[2] = { -1, -1 };
      guint n = 0;
      TpsModelAnswer answer;

      tps_json_begin_array (json);
      while (tps_json_next_element (json))
        if (n < G_N_ELEMENTS (pair))
          pair[n++] = read_count (json);
        else
          tps_json_fail (json, "more than a trainer and a version");
      answer = (TpsModelAnswer) { pair[0], pair[1] };
      if (answer.trainer < 0 || answer.version < 1)
        tps_json_fail (json, "not a trainer and a version");
      g_array_append_val (model->answers, answer);
    }
}

static void
read_beginning (TpsJsonReader *json, GString *text, guint8 *beginning, gsize n_bytes)
{
  tps_json_read_string (json, text);
  if (text->len != 2 * n_bytes)
    tps_json_fail (json, "a digest of the wrong length");
  for (gsize i = 0; json->problem == NULL && i < n_bytes; i++)
    {
      gint high = g_ascii_xdigit_value (text->str[2 * i]);
      gint low = g_ascii_xdigit_value (text->str[2 * i + 1]);

      if (high < 0 || low < 0)
        tps_json_fail (json, "a digest that is not hexadecimal");
      else
        beginning[i] = (guint8) (high * 16 + low);
    }
}

static void
read_model_member (TpsJsonReader *json, GString *key, TpsManifestModel *model)
{
  if (g_str_equal (key->str, "lsn"))
    model->lsn = read_count (json);
  else if (g_str_equal (key->str, "incarnation"))
    model->incarnation = read_count (json);
  else if (g_str_equal (key->str, "optimizer"))
    tps_optimizer_spec_read_json (json, &model->optimizer);
  else if (g_str_equal (key->str, "beginning"))
    read_beginning (json, key, model->beginning, sizeof model->beginning);
  else if (g_str_equal (key->str, "versions"))
    read_versions (json, key, model);
  else if (g_str_equal (key->str, "answers"))
    read_answers (json, model);
  else if (g_str_equal (key->str, "state"))
    read_file (json, key, &model->state);
  else if (g_str_equal (key->str, "pushes"))
    read_file (json, key, &model->pushes);
  else
    tps_json_fail (json, "a model with an unknown member");
}

/* Returns TRUE if no member is missing, and the versions ascend. */
static gboolean
is_whole (const TpsManifestModel *model)
{
  if (model->pushes.name == NULL)
    return FALSE;
  for (guint i = 1; i < model->versions->len; i++)
    if (g_array_index (model->versions, TpsManifestVersion, i - 1).version
        >= g_array_index (model->versions, TpsManifestVersion, i).version)
      return FALSE;
  return model->incarnation == 0 || (model->versions->len > 0 && model->state.name != NULL);
}

static void
read_model (TpsJsonReader *json, GString *key, TpsManifestModel *model)
{
  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    read_model_member (json, key, model);
  if (json->problem == NULL
      && (!is_whole (model)
          || (model->incarnation > 0
              && !tps_optimizer_spec_resolve (&model->optimizer, "optimizer", NULL))))
    tps_json_fail (json, "an incomplete model");
}

static void
read_manifest (TpsJsonReader *json, GString *key, TpsManifest *manifest)
{
  gboolean has_format = FALSE;

  manifest->lsn = -1;
  tps_json_begin_object (json);
  while (tps_json_next_member (json, key))
    if (g_str_equal (key->str, "format"))
      {
        tps_json_read_string (json, key);
        if (!g_str_equal (key->str, FORMAT))
          tps_json_fail (json, "not the manifest of a snapshot");
        has_format = TRUE;
      }
    else if (g_str_equal (key->str, "version"))
      {
        gint64 version = tps_json_read_i64 (json);

        if (version != TPS_MANIFEST_VERSION)
          tps_json_fail (json, version < TPS_MANIFEST_VERSION ? OTHER_VERSION ("older")
                                                              : OTHER_VERSION ("newer"));
      }
    else if (g_str_equal (key->str, "lsn"))
      manifest->lsn = read_count (json);
    else if (g_str_equal (key->str, "end_lsn"))
      manifest->end_lsn = read_count (json);
    else if (g_str_equal (key->str, "history"))
      {
        tps_json_read_string (json, key);
        g_free (manifest->history);
        manifest->history = g_strdup (key->str);
      }
    else if (g_str_equal (key->str, "epoch"))
      manifest->moment.epoch = (guint32) read_count_to (json, G_MAXUINT32);
    else if (g_str_equal (key->str, "time_ms"))
      manifest->moment.time_ms = read_count (json);
    else if (g_str_equal (key->str, "tables"))
      {
        tps_json_begin_array (json);
        while (tps_json_next_element (json))
          {
            g_array_set_size (manifest->tables, manifest->tables->len + 1);
            read_table (
                json, key,
                &g_array_index (manifest->tables, TpsManifestTable, manifest->tables->len - 1));
          }
      }
    else if (g_str_equal (key->str, "table_pushes"))
      read_file (json, key, &manifest->table_pushes);
    else if (g_str_equal (key->str, "model"))
      {
        manifest->has_model = TRUE;
        read_model (json, key, &manifest->model);
      }
    else if (g_str_equal (key->str, "crc32c"))
      tps_json_skip (json);
    else
      tps_json_fail (json, "a manifest with an unknown member");
  if (!has_format || manifest->lsn < 0 || manifest->end_lsn < manifest->lsn)
    tps_json_fail (json, "an incomplete manifest");
}

/* Checks the checksum at the end of the text. Manifests of all versions must end with this
 * checksum. A manifest of a different version is then refused because of its version, and not as
 * damaged. */
static gboolean
check_trailer (const gchar *text, gsize n_bytes, const gchar *what, GError **error)
{
  gchar trailer[TRAILER_BYTES + 1];
  guint32 crc;

  if (n_bytes < TRAILER_BYTES)
    return fail (what, "the manifest is truncated", (gint64) n_bytes, error);
  crc = tps_crc32c (0, text, n_bytes - TRAILER_BYTES);
  g_snprintf (trailer, sizeof trailer, TRAILER, crc);
  return memcmp (trailer, text + n_bytes - TRAILER_BYTES, TRAILER_BYTES) == 0
         || fail (what, "the manifest is damaged: its checksum is wrong",
                  (gint64) n_bytes - TRAILER_BYTES, error);
}

gboolean
tps_manifest_parse (TpsManifest *manifest, const gchar *text, gsize n_bytes, const gchar *what,
                    GError **error)
{
  GString *key;
  TpsJsonReader json;
  gboolean ok;

  if (!check_trailer (text, n_bytes, what, error))
    return FALSE;
  key = g_string_new (NULL);
  tps_json_reader_init (&json, text, n_bytes);
  read_manifest (&json, key, manifest);
  ok = tps_json_end (&json, what, error);
  g_string_free (key, TRUE);
  return ok;
}

static gchar *
read_text (TpsDiskFile *file, const gchar *path, TpsCharge *charge, gsize *n_bytes, GError **error)
{
  gint64 size = file->disk->get_size (file, error);
  g_autofree gchar *text = NULL;
  gssize n_read;

  if (size < 0)
    return NULL;
  if (size <= MAX_BYTES && !tps_charge_set (charge, (gsize) size * TEXT_COST, error))
    {
      g_prefix_error (error, "%s: %" G_GINT64_FORMAT " bytes: ", path, size);
      return NULL;
    }
  text = size <= MAX_BYTES ? g_try_malloc ((gsize) size + 1) : NULL;
  if (text == NULL)
    return tps_fail_null (error, TPS_ERROR_RESOURCE_EXHAUSTED,
                          "%s: a manifest of %" G_GINT64_FORMAT " bytes is too large", path, size);
  n_read = file->disk->read (file, text, (gsize) size, 0, error);
  if (n_read < 0)
    return NULL;
  *n_bytes = (gsize) n_read;
  return g_steal_pointer (&text);
}

gboolean
tps_manifest_read (TpsManifest *manifest, TpsDisk *disk, const gchar *folder, GError **error)
{
  g_autofree gchar *path = g_build_filename (folder, TPS_MANIFEST_NAME, NULL);
  TpsDiskFile *file = disk->open (disk, path, TPS_DISK_READ_ONLY, error);
  g_autofree gchar *text = NULL;
  gsize n_bytes;

  if (file == NULL)
    return FALSE;
  text = read_text (file, path, &manifest->charge, &n_bytes, error);
  disk->close (file);
  return text != NULL && tps_manifest_parse (manifest, text, n_bytes, path, error);
}

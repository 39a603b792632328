/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_folder.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/server/log/log_format.h"
#include "runtime/server/log/log_scan.h"

#define MARKER_NEW TPS_LOG_MARKER ".new"
#define MAX_MARKER_BYTES 256

/* ---- the marker ------------------------------------------------------------------------------ */

static gchar *
path_of (const TpsLogFolder *folder, const gchar *name)
{
  return g_build_filename (folder->path, name, NULL);
}

static gboolean
write_marker (TpsLogFolder *folder, const gchar *id, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *path = path_of (folder, TPS_LOG_MARKER);
  g_autofree gchar *path_new = path_of (folder, MARKER_NEW);
  g_autofree gchar *text = NULL;

  if (id == NULL || !tps_log_id_parse (id, &folder->id))
    tps_log_id_draw (&folder->id);
  text = tps_log_marker_to_text (&folder->id);
  /* An interrupted start may have left this file. The error is ignored, because usually the file
   * does not exist. */
  tps_disk_discard_all (disk, path_new, NULL);
  return tps_disk_write_text (disk, path_new, text, error)
         && disk->rename (disk, path_new, path, error)
         && disk->sync_folder (disk, folder->path, error);
}

static gboolean
check_marker (TpsLogFolder *folder, const gchar *path, const gchar *text, GError **error)
{
  guint version;

  if (!tps_log_marker_parse (text, &folder->id, &version))
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT, "%s: not the marker of a log of ThriftPS",
                     path);
  if (version != TPS_LOG_VERSION)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: format version %u, and this program knows version %d only", path, version,
                     TPS_LOG_VERSION);
  return TRUE;
}

static gboolean
check_id (const TpsLogFolder *folder, const gchar *id, GError **error)
{
  g_autofree gchar *found = tps_log_id_to_text (&folder->id);

  if (id == NULL || g_str_equal (id, found))
    return TRUE;
  return tps_fail (
      error, TPS_ERROR_INVALID_ARGUMENT,
      "%s: this is log %s of another server, but the data directory has log %s; restore "
      "the log of this directory from a copy",
      folder->path, found, id);
}

static gboolean
read_marker (TpsLogFolder *folder, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *path = path_of (folder, TPS_LOG_MARKER);
  gchar text[MAX_MARKER_BYTES + 1];
  TpsDiskFile *file = disk->open (disk, path, TPS_DISK_READ_ONLY, error);
  gssize n_read;

  if (file == NULL)
    return FALSE;
  n_read = disk->read (file, text, MAX_MARKER_BYTES, 0, error);
  disk->close (file);
  if (n_read < 0)
    return FALSE;
  text[n_read] = '\0';
  return check_marker (folder, path, text, error);
}

/* ---- contents of a folder -------------------------------------------------------------------- */

/* A folder without a marker must be empty, except for files of an interrupted start. */
static gboolean
check_is_new (const TpsLogFolder *folder, const gchar *const *names, gboolean may_create,
              GError **error)
{
  for (; *names != NULL; names++)
    if (strcmp (*names, MARKER_NEW) != 0 && strcmp (*names, TPS_LOG_LOCK) != 0
        && !tps_disk_is_deleted_name (*names))
      break;
  if (*names == NULL && may_create)
    return TRUE;
  if (*names == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
                 "%s: the log is missing; restore it from a copy, or begin with a snapshot in an "
                 "empty data directory (--restore-from)",
                 folder->path);
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "%s: not the folder of a log: it has no file " TPS_LOG_MARKER
                 ", but %s; choose a folder that is empty, or restore the file from a copy",
                 folder->path, *names);
  return FALSE;
}

static gboolean
add_segment (TpsLogFolder *folder, guint64 number, GError **error)
{
  TpsSegmentInfo segment = { .number = number };

  if (folder->segments->len > 0)
    {
      guint64 last =
          g_array_index (folder->segments, TpsSegmentInfo, folder->segments->len - 1).number;

      if (number != last + 1)
        {
          g_autofree gchar *name = tps_log_segment_name (last + 1);

          return tps_fail (
              error, TPS_ERROR_ABORTED,
              "%s: segment %s is missing; restore it from a copy, or restore a snapshot",
              folder->path, name);
        }
    }
  g_array_append_val (folder->segments, segment);
  return TRUE;
}

/* Adds the segments among `names`, which must be sorted. */
static gboolean
add_segments (TpsLogFolder *folder, const gchar *const *names, GError **error)
{
  for (; *names != NULL; names++)
    {
      guint64 number = tps_log_segment_number (*names);

      if (strcmp (*names, TPS_LOG_MARKER) != 0 && strcmp (*names, MARKER_NEW) != 0
          && strcmp (*names, TPS_LOG_LOCK) != 0 && tps_log_segment_number (*names) == 0
          && !tps_disk_is_deleted_name (*names))
        return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                         "%s: %s does not belong to a log; move it elsewhere", folder->path,
                         *names);
      if (number != 0 && !add_segment (folder, number, error))
        return FALSE;
    }
  return TRUE;
}

/* ---- open ------------------------------------------------------------------------------------ */

static gboolean
make_folder (TpsLogFolder *folder, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *above = g_path_get_dirname (folder->path);

  return disk->make_folder (disk, folder->path, error) && disk->sync_folder (disk, above, error);
}

/* Must be called before the first write, because the folder of a different program must stay
 * unchanged. */
static gboolean
check_folder (TpsLogFolder *folder, gboolean may_create, GError **error)
{
  GError *failure = NULL;
  g_auto (GStrv) names = folder->disk->list (folder->disk, folder->path, &failure);
  const gchar *const *list = (const gchar *const *) names;

  if (g_error_matches (failure, TPS_ERROR, TPS_ERROR_NOT_FOUND))
    {
      g_clear_error (&failure);
      names = g_new0 (gchar *, 1);
      list = (const gchar *const *) names;
    }
  if (failure != NULL)
    g_propagate_error (error, failure);
  return names != NULL
         && (g_strv_contains (list, TPS_LOG_MARKER)
             || check_is_new (folder, list, may_create, error));
}

static gboolean
lock_folder (TpsLogFolder *folder, GError **error)
{
  g_autofree gchar *path = path_of (folder, TPS_LOG_LOCK);

  folder->lock = folder->disk->lock (folder->disk, path, error);
  if (folder->lock != NULL)
    folder->folder_lock = folder->disk->lock (folder->disk, folder->path, error);
  return folder->folder_lock != NULL;
}

/* Reads the folder again under its lock, because another process may have changed it before this
 * one took the lock. */
static gboolean
read_folder (TpsLogFolder *folder, const gchar *id, GError **error)
{
  g_auto (GStrv) names = folder->disk->list (folder->disk, folder->path, error);
  const gchar *const *list = (const gchar *const *) names;

  if (names == NULL)
    return FALSE;
  if (!g_strv_contains (list, TPS_LOG_MARKER))
    return check_is_new (folder, list, TRUE, error) && write_marker (folder, id, error);
  return read_marker (folder, error) && check_id (folder, id, error)
         && add_segments (folder, list, error);
}

gboolean
tps_log_folder_open (TpsLogFolder *folder, TpsDisk *disk, const gchar *path, gboolean may_create,
                     const gchar *id, GError **error)
{
  *folder = (TpsLogFolder) { .disk = disk, .path = g_strdup (path) };
  folder->segments = g_array_new (FALSE, FALSE, sizeof (TpsSegmentInfo));
  if ((!may_create || make_folder (folder, error)) && check_folder (folder, may_create, error)
      && lock_folder (folder, error) && read_folder (folder, id, error))
    return TRUE;
  tps_log_folder_close (folder);
  return FALSE;
}

void
tps_log_folder_close (TpsLogFolder *folder)
{
  if (folder->lock != NULL)
    folder->disk->close (folder->lock);
  if (folder->folder_lock != NULL)
    folder->disk->close (folder->folder_lock);
  folder->lock = folder->folder_lock = NULL;
  g_clear_pointer (&folder->path, g_free);
  g_clear_pointer (&folder->segments, g_array_unref);
}

/* ---- the end --------------------------------------------------------------------------------- */

void
tps_log_end_clear (TpsLogEnd *end)
{
  g_clear_pointer (&end->torn_position, g_free);
}

static TpsSegmentInfo *
segment_at (const TpsLogFolder *folder, guint i)
{
  return &g_array_index (folder->segments, TpsSegmentInfo, i);
}

/* Reads the head of segment `i`, and the head of its first group. Only the last segment may lack a
 * head, because a crash may have interrupted the making of the segment. */
static gboolean
peek_segment (TpsLogFolder *folder, guint i, TpsBufferPool *pool, GError **error)
{
  TpsSegmentInfo *segment = segment_at (folder, i);
  TpsSegmentReader reader;
  gboolean is_read;

  switch (tps_segment_reader_open (&reader, folder->disk, folder->path, segment->number,
                                   &folder->id, pool, error))
    {
    case TPS_SEGMENT_OPENED:
      break;
    case TPS_SEGMENT_UNUSED:
      if (i + 1 == folder->segments->len)
        return TRUE;
      return tps_fail (error, TPS_ERROR_ABORTED,
                       "%020" G_GUINT64_FORMAT TPS_LOG_SUFFIX
                       " at 0: the head of the segment is missing",
                       segment->number);
    case TPS_SEGMENT_REFUSED:
      return FALSE;
    }
  is_read = tps_segment_reader_peek (&reader, &segment->first_lsn, error);
  tps_segment_reader_close (&reader);
  return is_read;
}

/* Checks a segment after the last record. It may have the remains of a torn group, but no intact
 * group. */
static gboolean
check_behind (TpsLogFolder *folder, guint i, TpsBufferPool *pool, TpsLogEnd *end, GError **error)
{
  TpsSegmentInfo *segment = segment_at (folder, i);
  TpsSegmentReader reader;
  gint64 n_torn;
  gboolean is_fine;

  switch (tps_segment_reader_open (&reader, folder->disk, folder->path, segment->number,
                                   &folder->id, pool, error))
    {
    case TPS_SEGMENT_OPENED:
      break;
    case TPS_SEGMENT_UNUSED:
      return TRUE;
    case TPS_SEGMENT_REFUSED:
      return FALSE;
    }
  is_fine = tps_segment_reader_check_rest (&reader, &n_torn, error);
  if (is_fine && n_torn > 0 && end->torn_position == NULL)
    end->torn_position = g_strdup_printf ("%s at %" G_GINT64_FORMAT, reader.name, reader.offset);
  end->n_torn_bytes += is_fine ? n_torn : 0;
  tps_segment_reader_close (&reader);
  return is_fine;
}

static gboolean
read_to_end (TpsSegmentReader *reader, gint64 lsn, TpsLogEnd *end, GError **error)
{
  TpsSegmentVerdict verdict;
  gint64 n_torn;

  while ((verdict = tps_segment_reader_next (reader, lsn, error)) == TPS_SEGMENT_RECORD)
    lsn++;
  if (verdict == TPS_SEGMENT_ERROR || !tps_segment_reader_check_rest (reader, &n_torn, error))
    return FALSE;
  /* No record of a torn group counts, even if its first records are intact. */
  end->last_lsn = (verdict == TPS_SEGMENT_TORN ? reader->group.first_lsn : lsn) - 1;
  end->offset = reader->offset;
  if (n_torn == 0)
    return TRUE;
  end->n_torn_bytes += n_torn;
  g_free (end->torn_position);
  end->torn_position = g_strdup_printf ("%s at %" G_GINT64_FORMAT, reader->name, reader->offset);
  return TRUE;
}

static gboolean
read_last (TpsLogFolder *folder, guint i, TpsBufferPool *pool, TpsLogEnd *end, GError **error)
{
  TpsSegmentInfo *segment = segment_at (folder, i);
  TpsSegmentReader reader;
  gboolean is_read;

  if (tps_segment_reader_open (&reader, folder->disk, folder->path, segment->number, &folder->id,
                               pool, error)
      != TPS_SEGMENT_OPENED)
    return FALSE; /* the head exists, because peek_segment() has read it */
  reader.reads_ahead = TRUE;
  end->number = segment->number;
  is_read = read_to_end (&reader, segment->first_lsn, end, error);
  tps_segment_reader_close (&reader);
  return is_read;
}

static gboolean
is_ascending (const TpsLogFolder *folder, guint n, GError **error)
{
  for (guint i = 1; i < n; i++)
    if (segment_at (folder, i - 1)->first_lsn >= segment_at (folder, i)->first_lsn
        || segment_at (folder, i - 1)->first_lsn == 0)
      return tps_fail (error, TPS_ERROR_ABORTED,
                       "%020" G_GUINT64_FORMAT TPS_LOG_SUFFIX
                       " at %d: its first LSN is %" G_GINT64_FORMAT
                       ", but the segment after it begins with LSN %" G_GINT64_FORMAT,
                       segment_at (folder, i - 1)->number, TPS_LOG_FIRST_GROUP,
                       segment_at (folder, i - 1)->first_lsn, segment_at (folder, i)->first_lsn);
  return TRUE;
}

/* Returns the number of segments up to the last one that has a group. */
static guint
count_used (const TpsLogFolder *folder)
{
  guint n = folder->segments->len;

  while (n > 0 && segment_at (folder, n - 1)->first_lsn == 0)
    n--;
  return n;
}

static gboolean
add_sizes (TpsLogFolder *folder, guint n, TpsLogEnd *end, GError **error)
{
  segment_at (folder, n - 1)->n_bytes = end->n_bytes = end->offset;
  for (guint i = 0; i + 1 < n; i++)
    {
      g_autofree gchar *name = tps_log_segment_name (segment_at (folder, i)->number);
      g_autofree gchar *path = path_of (folder, name);
      TpsDiskFile *file = folder->disk->open (folder->disk, path, TPS_DISK_READ_ONLY, error);
      gint64 size;

      if (file == NULL)
        return FALSE;
      size = folder->disk->get_size (file, error);
      folder->disk->close (file);
      if (size < 0)
        return FALSE;
      segment_at (folder, i)->n_bytes = size;
      end->n_bytes += size;
    }
  return TRUE;
}

gboolean
tps_log_folder_find_end (TpsLogFolder *folder, TpsBufferPool *pool, TpsLogEnd *end, GError **error)
{
  guint n_used;

  *end = (TpsLogEnd) { 0 };
  for (guint i = 0; i < folder->segments->len; i++)
    if (!peek_segment (folder, i, pool, error))
      return FALSE;
  n_used = count_used (folder);
  if (!is_ascending (folder, n_used, error))
    return FALSE;
  for (guint i = n_used; i < folder->segments->len; i++)
    if (!check_behind (folder, i, pool, end, error))
      return FALSE;
  if (n_used == 0)
    return TRUE;
  if (!read_last (folder, n_used - 1, pool, end, error) || !add_sizes (folder, n_used, end, error))
    return FALSE;
  end->first_lsn = segment_at (folder, 0)->first_lsn;
  return TRUE;
}

/* ---- changes --------------------------------------------------------------------------------- */

gboolean
tps_log_folder_delete_segment (TpsLogFolder *folder, guint64 number, GError **error)
{
  g_autofree gchar *name = tps_log_segment_name (number);
  g_autofree gchar *path = path_of (folder, name);

  /* Segments are removed one by one, so their numbers have no gap after a power cut. */
  return tps_disk_discard (folder->disk, path, error)
         && folder->disk->sync_folder (folder->disk, folder->path, error);
}

static gboolean
cut_segment (TpsLogFolder *folder, guint64 number, gint64 offset, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *name = tps_log_segment_name (number);
  g_autofree gchar *path = path_of (folder, name);
  TpsDiskFile *file = disk->open (disk, path, 0, error);
  gint64 size;
  gboolean is_cut;

  if (file == NULL)
    return FALSE;
  size = disk->get_size (file, error);
  is_cut = size >= 0
           && (size <= offset
               || (disk->truncate (file, offset, error) && disk->sync (file, error)));
  disk->close (file);
  return is_cut;
}

gboolean
tps_log_folder_cut (TpsLogFolder *folder, guint64 number, gint64 offset, GError **error)
{
  /* A segment that would have no record is removed. */
  guint64 last = offset > TPS_LOG_FIRST_GROUP ? number : number - MIN (number, 1);

  while (folder->segments->len > 0 && segment_at (folder, folder->segments->len - 1)->number > last)
    {
      if (!tps_log_folder_delete_segment (
              folder, segment_at (folder, folder->segments->len - 1)->number, error))
        return FALSE;
      g_array_set_size (folder->segments, folder->segments->len - 1);
    }
  return last != number || number == 0 || cut_segment (folder, number, offset, error);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log.h"

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/thread.h"
#include "runtime/server/log/log_scan.h"
#include "runtime/server/log/log_writer.h"

#define MAX_THREADS 2

#define DEFAULT_SEGMENT_BYTES ((gint64) 256 << 20)
#define DEFAULT_STAGED_BYTES ((gsize) 32 << 20)
#define DEFAULT_INTERVAL_NS ((gint64) 100 * 1000 * 1000)

struct TpsLog
{
  TpsLogOptions options; /* with defaults */
  TpsLogFolder folder;
  TpsLogWriter writer;
  TpsMutex deleting; /* one at a time */
  gint64 base_lsn;   /* of the last record that was found, or the LSN before the first record */
  guint n_threads;
  TpsThread threads[MAX_THREADS];
};

struct TpsLogCursor
{
  TpsLog *log;
  TpsLogScan scan;
  gint64 lsn;       /* of the next record */
  gint64 limit_lsn; /* the durable LSN before the read-ahead began */
};

/* ---- open ------------------------------------------------------------------------------------ */

void
tps_log_found_clear (TpsLogFound *found)
{
  g_clear_pointer (&found->torn_position, g_free);
}

static TpsLogOptions
with_defaults (const TpsLogOptions *options)
{
  TpsLogOptions result = { 0 };

  if (options != NULL)
    result = *options;
  if (result.segment_bytes == 0)
    result.segment_bytes = DEFAULT_SEGMENT_BYTES;
  if (result.max_staged_bytes == 0)
    result.max_staged_bytes = DEFAULT_STAGED_BYTES;
  if (result.interval_ns == 0)
    result.interval_ns = DEFAULT_INTERVAL_NS;
  if (result.first_lsn == 0)
    result.first_lsn = 1;
  if (result.pool == NULL)
    result.pool = tps_buffer_pool_get_default ();
  return result;
}

/* Checks that a log with records begins at or before `first_lsn`, and does not end before
 * `first_lsn` - 1. */
static gboolean
check_reach (const TpsLog *log, const TpsLogEnd *end, GError **error)
{
  gint64 wanted = log->options.first_lsn;

  if (end->first_lsn == 0 || (end->first_lsn <= wanted && end->last_lsn >= wanted - 1))
    return TRUE;
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "%s: commands are needed from LSN %" G_GINT64_FORMAT
                   " on, but the log has LSN %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT
                   ": segments or snapshots are missing; restore the data directory from a copy",
                   log->folder.path, wanted, end->first_lsn, end->last_lsn);
}

static void
fill_found (const TpsLog *log, TpsLogEnd *end, TpsLogFound *found)
{
  gboolean is_empty = end->first_lsn == 0;

  if (found == NULL)
    return;
  *found = (TpsLogFound) {
    .first_lsn = is_empty ? log->options.first_lsn : end->first_lsn,
    .last_lsn = is_empty ? log->options.first_lsn - 1 : end->last_lsn,
    .n_bytes = end->n_bytes,
    .n_torn_bytes = end->n_torn_bytes,
    .torn_position = g_steal_pointer (&end->torn_position),
  };
}

static gboolean
recover (TpsLog *log, TpsLogFound *found, GError **error)
{
  const TpsLogOptions *options = &log->options;
  TpsLogFolder *folder = &log->folder;
  g_auto (TpsLogEnd) end = { 0 };
  gint64 last_lsn;
  guint64 last_number;

  if (!tps_log_folder_find_end (folder, options->pool, &end, error)
      || !check_reach (log, &end, error)
      || !tps_log_folder_cut (folder, end.number, end.offset, error))
    return FALSE;
  last_lsn = end.first_lsn != 0 ? end.last_lsn : options->first_lsn - 1;
  last_number =
      folder->segments->len > 0
          ? g_array_index (folder->segments, TpsSegmentInfo, folder->segments->len - 1).number
          : 0;
  log->base_lsn = last_lsn;
  tps_log_writer_init (&log->writer, folder, last_lsn, last_number, options->segment_bytes,
                       options->max_staged_bytes / 2, options->interval_ns);
  log->writer.reached = options->reached;
  log->writer.reached_data = options->user_data;
  if (!tps_log_writer_begin (&log->writer, error))
    {
      tps_log_writer_clear (&log->writer);
      return FALSE;
    }
  fill_found (log, &end, found);
  return TRUE;
}

static void *
run_thread (void *user_data)
{
  tps_log_writer_run (user_data);
  return NULL;
}

TpsLog *
tps_log_open_stepped (TpsDisk *disk, const gchar *path, const TpsLogOptions *options,
                      TpsLogFound *found, GError **error)
{
  TpsLog *log = g_new0 (TpsLog, 1);

  log->options = with_defaults (options);
  if (!tps_log_folder_open (&log->folder, disk, path, !log->options.must_exist, log->options.id,
                            error)
      || !recover (log, found, error))
    {
      g_prefix_error (error, "log: ");
      tps_log_folder_close (&log->folder);
      g_free (log);
      return NULL;
    }
  tps_mutex_init (&log->deleting);
  return log;
}

TpsLog *
tps_log_open (TpsDisk *disk, const gchar *path, const TpsLogOptions *options, TpsLogFound *found,
              GError **error)
{
  TpsLog *log = tps_log_open_stepped (disk, path, options, found, error);

  if (log == NULL)
    return NULL;
  for (log->n_threads = 0; log->n_threads < MAX_THREADS; log->n_threads++)
    if (!tps_thread_start (&log->threads[log->n_threads], "tps-log", run_thread, &log->writer,
                           error))
      {
        g_prefix_error (error, "log: ");
        tps_log_close (log, NULL);
        return NULL;
      }
  return log;
}

/* Fails if commands of TPS_DURABILITY_INTERVAL were answered but are not durable. Takes no lock,
 * because the threads have ended. */
static gboolean
check_promises (const TpsLogWriter *writer, GError **error)
{
  if (writer->promised_lsn <= writer->durable_lsn)
    return TRUE;
  return tps_fail (error, writer->failure->code,
                   "changes up to LSN %" G_GINT64_FORMAT
                   " were answered, but only those up to LSN %" G_GINT64_FORMAT
                   " are known to be on the disk: %s",
                   writer->promised_lsn, writer->durable_lsn, writer->failure->message);
}

gboolean
tps_log_close (TpsLog *log, GError **error)
{
  gboolean is_kept;

  tps_log_writer_close (&log->writer);
  /* A stepped log has no threads, so this thread must do the remaining work. */
  tps_log_writer_run (&log->writer);
  for (guint i = 0; i < log->n_threads; i++)
    tps_sync_check (pthread_join (log->threads[i], NULL));
  is_kept = check_promises (&log->writer, error);
  if (log->options.reached != NULL && log->writer.infos->len > 0)
    log->options.reached (log->options.user_data, log->writer.durable_lsn, NULL);
  tps_log_writer_clear (&log->writer);
  tps_mutex_clear (&log->deleting);
  tps_log_folder_close (&log->folder);
  g_free (log);
  return is_kept;
}

void
tps_log_free (TpsLog *log)
{
  tps_log_close (log, NULL);
}

/* ---- appending ------------------------------------------------------------------------------- */

gboolean
tps_log_may_append (TpsLog *log, gsize n_bytes, GError **error)
{
  return tps_log_writer_may_add (&log->writer, n_bytes, error);
}

gboolean
tps_log_is_short (TpsLog *log)
{
  return __atomic_load_n (&log->writer.may_refuse, __ATOMIC_ACQUIRE);
}

void
tps_log_append (TpsLog *log, const TpsCommand *command, TpsDurability durability, TpsLogDone done,
                gpointer user_data)
{
  TpsLogEntry entry = { command, durability, command->lsn, done, user_data };

  tps_log_writer_add (&log->writer, &entry);
}

void
tps_log_flush (TpsLog *log, TpsLogDone done, gpointer user_data)
{
  TpsLogEntry entry = { NULL, TPS_DURABILITY_COMMIT, 0, done, user_data };

  tps_log_writer_add (&log->writer, &entry);
}

void
tps_log_end_intervals (TpsLog *log)
{
  TPS_LOCK_SCOPE (&log->writer.lock);
  log->writer.ends_intervals = TRUE;
}

/* ---- state ----------------------------------------------------------------------------------- */

TpsLogWriter *
tps_log_get_writer (TpsLog *log)
{
  return &log->writer;
}

const TpsLogFolder *
tps_log_get_folder (const TpsLog *log)
{
  return &log->folder;
}

gint64
tps_log_get_durable_lsn (TpsLog *log)
{
  TPS_LOCK_SCOPE (&log->writer.lock);
  return log->writer.durable_lsn;
}

void
tps_log_set_advanced (TpsLog *log, void (*advanced) (gpointer user_data, gint64 durable_lsn),
                      gpointer user_data)
{
  TPS_LOCK_SCOPE (&log->writer.lock);
  log->writer.advanced = advanced;
  log->writer.advanced_data = user_data;
}

gchar *
tps_log_dup_id (TpsLog *log)
{
  return tps_log_id_to_text (&log->folder.id);
}

gint64
tps_log_get_first_lsn (TpsLog *log)
{
  const GArray *infos = log->writer.infos;

  TPS_LOCK_SCOPE (&log->writer.lock);
  return infos->len > 0 ? g_array_index (infos, TpsSegmentInfo, 0).first_lsn : log->base_lsn + 1;
}

gint64
tps_log_get_written_bytes (TpsLog *log)
{
  TPS_LOCK_SCOPE (&log->writer.lock);
  return log->writer.n_written;
}

GArray *
tps_log_dup_segments (TpsLog *log)
{
  TPS_LOCK_SCOPE (&log->writer.lock);
  return g_array_copy (log->writer.infos);
}

void
tps_log_get_size (TpsLog *log, guint *n_segments, gint64 *n_bytes)
{
  const GArray *infos = log->writer.infos;

  TPS_LOCK_SCOPE (&log->writer.lock);
  *n_segments = infos->len;
  *n_bytes = 0;
  for (guint i = 0; i < infos->len; i++)
    *n_bytes += g_array_index (infos, TpsSegmentInfo, i).n_bytes;
}

/* Removes the oldest segment from the list. FALSE: the segment has records from `lsn` on, or is the
 * newest one. */
static gboolean
take_oldest (TpsLog *log, gint64 lsn, TpsSegmentInfo *oldest)
{
  GArray *infos = log->writer.infos;
  gboolean is_old;

  TPS_LOCK_SCOPE (&log->writer.lock);
  is_old = infos->len > 1 && g_array_index (infos, TpsSegmentInfo, 1).first_lsn != 0
           && g_array_index (infos, TpsSegmentInfo, 1).first_lsn <= lsn;
  if (is_old)
    {
      *oldest = g_array_index (infos, TpsSegmentInfo, 0);
      g_array_remove_index (infos, 0);
    }
  return is_old;
}

/* Removes a segment from the list before its file is cut. A reader that fails at the cut file can
 * therefore see that the records have been deleted. */
gboolean
tps_log_delete_before (TpsLog *log, gint64 lsn, GError **error)
{
  TpsSegmentInfo oldest;
  gboolean is_deleted = TRUE;

  TPS_PLANT ("log-deleted-too-early", lsn = tps_log_get_durable_lsn (log));
  TPS_LOCK_SCOPE (&log->deleting);
  while (is_deleted && take_oldest (log, lsn, &oldest))
    {
      is_deleted = tps_log_folder_delete_segment (&log->folder, oldest.number, error);
      if (!is_deleted)
        {
          TPS_LOCK_SCOPE (&log->writer.lock);
          g_array_prepend_val (log->writer.infos, oldest);
        }
    }
  return is_deleted;
}

/* ---- cursors --------------------------------------------------------------------------------- */

TpsLogCursor *
tps_log_cursor_new (TpsLog *log, gint64 lsn, GError **error)
{
  gint64 first_lsn = tps_log_get_first_lsn (log);
  gint64 durable_lsn = tps_log_get_durable_lsn (log);
  TpsLogCursor *cursor;

  if (lsn < first_lsn || lsn > durable_lsn + 1)
    return tps_fail_null (error, TPS_ERROR_NOT_FOUND,
                          "log: LSN %" G_GINT64_FORMAT " is not kept; LSN %" G_GINT64_FORMAT
                          " to %" G_GINT64_FORMAT " are",
                          lsn, first_lsn, durable_lsn);
  cursor = g_new0 (TpsLogCursor, 1);
  cursor->log = log;
  cursor->lsn = lsn;
  tps_log_scan_init (&cursor->scan, &log->folder, log->options.pool);
  cursor->scan.reads_ahead = TRUE;
  return cursor;
}

void
tps_log_cursor_free (TpsLogCursor *cursor)
{
  tps_log_scan_clear (&cursor->scan);
  g_free (cursor);
}

static gboolean
start (TpsLogCursor *cursor, GError **error)
{
  g_autoptr (GArray) infos = tps_log_dup_segments (cursor->log);
  guint64 number = tps_log_scan_find (infos, cursor->lsn);

  if (number != 0)
    return tps_log_scan_start (&cursor->scan, number, TPS_LOG_FIRST_GROUP, cursor->lsn, error);
  return tps_fail (error, TPS_ERROR_NOT_FOUND,
                   "LSN %" G_GINT64_FORMAT
                   " is not kept any more; the first one is %" G_GINT64_FORMAT,
                   cursor->lsn, tps_log_get_first_lsn (cursor->log));
}

static gboolean
read_next (TpsLogCursor *cursor, TpsLogRecord *record, GError **error)
{
  *record = (TpsLogRecord) { 0 };
  if (cursor->lsn > cursor->limit_lsn)
    {
      cursor->limit_lsn = tps_log_get_durable_lsn (cursor->log);
      if (!tps_log_scan_refresh (&cursor->scan, error))
        return FALSE;
    }
  if (cursor->lsn > cursor->limit_lsn)
    return TRUE;
  if (!cursor->scan.is_open && !start (cursor, error))
    return FALSE;
  if (!tps_log_scan_next (&cursor->scan, record, error))
    return FALSE;
  cursor->lsn++;
  return TRUE;
}

gboolean
tps_log_cursor_next (TpsLogCursor *cursor, TpsLogRecord *record, GError **error)
{
  if (read_next (cursor, record, error))
    return TRUE;
  g_prefix_error (error, "log: ");
  return FALSE;
}

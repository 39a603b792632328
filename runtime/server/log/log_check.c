/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_check.h"

#include "runtime/base/error.h"
#include "runtime/server/log/log_format.h"
#include "runtime/server/log/log_folder.h"
#include "runtime/server/log/log_scan.h"

void
tps_log_report_clear (TpsLogReport *report)
{
  g_clear_pointer (&report->torn_position, g_free);
}

static TpsBufferPool *
get_pool (void)
{
  return tps_buffer_pool_get_default ();
}

/* Moves `scan`, which must be uninitialised, to the first record of the log. FALSE without an
 * error: there is no record. */
static gboolean
begin (TpsLogScan *scan, const TpsLogFolder *folder, GError **error)
{
  const GArray *segments = folder->segments;
  gint64 lsn = 0;

  tps_log_scan_init (scan, folder, get_pool ());
  return segments->len > 0
         && tps_log_scan_begin (scan, g_array_index (segments, TpsSegmentInfo, 0).number, &lsn,
                                error)
         && lsn != 0;
}

/* ---- checking -------------------------------------------------------------------------------- */

/* Reads all records up to `last_lsn`, until `visit` returns FALSE. Errors: those of the reader. */
static gboolean
visit_all (TpsLogScan *scan, gint64 last_lsn, TpsLogVisit visit, gpointer user_data,
           TpsLogReport *report, GError **error)
{
  TpsLogRecord record;

  while (scan->lsn <= last_lsn)
    {
      if (!tps_log_scan_next (scan, &record, error))
        return FALSE;
      if (report->first_lsn == 0)
        report->first_lsn = record.lsn;
      report->last_lsn = record.lsn;
      report->moment = record.moment;
      report->n_bytes += (gint64) record.n_bytes;
      if (visit != NULL && !visit (user_data, &record, report))
        return TRUE;
    }
  return TRUE;
}

/* Checks all records. If the end of the log cannot be found, still reads the intact records, so
 * `report` shows where they end. */
static gboolean
check_folder (TpsLogFolder *folder, TpsLogVisit visit, gpointer user_data, TpsLogReport *report,
              GError **error)
{
  g_auto (TpsLogEnd) end = { 0 };
  g_autoptr (GError) no_end = NULL;
  g_autoptr (GError) damage = NULL;
  TpsLogScan scan;

  if (!tps_log_folder_find_end (folder, get_pool (), &end, &no_end))
    end.last_lsn = G_MAXINT64;
  if (begin (&scan, folder, &damage))
    visit_all (&scan, end.last_lsn, visit, user_data, report, &damage);
  tps_log_scan_clear (&scan);
  if (no_end != NULL)
    g_propagate_error (error, g_steal_pointer (&no_end));
  else if (damage != NULL)
    g_propagate_error (error, g_steal_pointer (&damage));
  else
    {
      report->n_torn_bytes = end.n_torn_bytes;
      report->torn_position = g_steal_pointer (&end.torn_position);
      return TRUE;
    }
  return FALSE;
}

gboolean
tps_log_check (TpsDisk *disk, const gchar *path, TpsLogVisit visit, gpointer user_data,
               TpsLogReport *report, GError **error)
{
  g_auto (TpsLogFolder) folder = { 0 };

  *report = (TpsLogReport) { 0 };
  return tps_log_folder_open (&folder, disk, path, FALSE, NULL, error)
         && check_folder (&folder, visit, user_data, report, error);
}

/* ---- truncating ------------------------------------------------------------------------------ */

/* Writes the group again with only its first `n_records`. The new head is written first. It
 * excludes the later records even if a crash loses some of the zeros that replace them. */
static gboolean
write_shorter (TpsDiskFile *file, const TpsGroupHead *old, guint32 n_records, gint64 n_used,
               GError **error)
{
  TpsDisk *disk = file->disk;
  gint64 n_bytes = (n_used + TPS_DISK_BLOCK - 1) & ~(gint64) (TPS_DISK_BLOCK - 1);
  g_autofree guint8 *data = g_malloc0 ((gsize) n_bytes);
  TpsGroupHead head = *old;
  gssize n_read = disk->read (file, data, (gsize) n_used, old->offset, error);

  if (n_read != n_used)
    {
      if (n_read >= 0)
        return tps_fail (error, TPS_ERROR_ABORTED,
                         "the file ends at offset %" G_GINT64_FORMAT ", inside a group",
                         old->offset + (gint64) n_read);
    }
  head.n_bytes = n_bytes;
  head.n_records = n_records;
  head.n_zero_sectors = tps_group_count_zero_sectors (data, (gsize) n_bytes);
  tps_group_encode_head (data, &head);
  return disk->write (file, data, TPS_DISK_SECTOR, old->offset, TRUE, error)
         && disk->write (file, data + n_used, (gsize) (n_bytes - n_used), old->offset + n_used,
                         TRUE, error);
}

static gboolean
shorten_group (TpsLogFolder *folder, const TpsSegmentReader *reader, GError **error)
{
  TpsDisk *disk = folder->disk;
  g_autofree gchar *path = g_build_filename (folder->path, reader->name, NULL);
  TpsDiskFile *file = disk->open (disk, path, 0, error);
  gboolean is_written;

  if (file == NULL)
    return FALSE;
  is_written = write_shorter (file, &reader->group, reader->group.n_records - reader->n_left,
                              reader->offset - reader->group.offset, error);
  disk->close (file);
  return is_written;
}

/* Reads the records up to `last_lsn`. The scan is then at the end of that record. */
static gboolean
find_record (TpsLogFolder *folder, TpsLogScan *scan, gint64 last_lsn, GError **error)
{
  g_autoptr (GError) failure = NULL;

  if (begin (scan, folder, &failure) && scan->lsn <= last_lsn)
    {
      while (scan->lsn <= last_lsn && tps_log_scan_check (scan, &failure))
        ;
      if (failure == NULL)
        return TRUE;
    }
  if (failure != NULL)
    {
      g_propagate_prefixed_error (error, g_steal_pointer (&failure),
                                  "LSN %" G_GINT64_FORMAT " was not reached: ", last_lsn);
      return FALSE;
    }
  return tps_fail (error, TPS_ERROR_NOT_FOUND, "%s: there is no record of LSN %" G_GINT64_FORMAT,
                   folder->path, last_lsn);
}

static gboolean
truncate_folder (TpsLogFolder *folder, gint64 last_lsn, GError **error)
{
  TpsLogScan scan;
  gint64 offset;
  gboolean is_done;

  if (last_lsn == 0)
    return tps_log_folder_cut (folder, 0, 0, error);
  is_done = find_record (folder, &scan, last_lsn, error)
            && (scan.reader.n_left == 0 || shorten_group (folder, &scan.reader, error));
  offset = is_done ? scan.reader.offset : 0;
  /* A group ends at the end of a block. */
  offset = (offset + TPS_DISK_BLOCK - 1) & ~(gint64) (TPS_DISK_BLOCK - 1);
  is_done = is_done && tps_log_folder_cut (folder, scan.number, offset, error);
  tps_log_scan_clear (&scan);
  return is_done;
}

gboolean
tps_log_truncate (TpsDisk *disk, const gchar *path, gint64 last_lsn, GError **error)
{
  g_auto (TpsLogFolder) folder = { 0 };

  return tps_log_folder_open (&folder, disk, path, FALSE, NULL, error)
         && truncate_folder (&folder, last_lsn, error);
}

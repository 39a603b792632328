/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_scan.h"

#include "runtime/base/error.h"

void
tps_log_scan_init (TpsLogScan *scan, const TpsLogFolder *folder, TpsBufferPool *pool)
{
  *scan = (TpsLogScan) { .folder = folder, .pool = pool };
  tps_record_decoder_init (&scan->decoder);
}

static void
close_segment (TpsLogScan *scan)
{
  if (scan->is_open)
    tps_segment_reader_close (&scan->reader);
  scan->is_open = FALSE;
}

void
tps_log_scan_clear (TpsLogScan *scan)
{
  close_segment (scan);
  tps_record_decoder_clear (&scan->decoder);
}

/* ---- segments -------------------------------------------------------------------------------- */

guint64
tps_log_scan_find (const GArray *segments, gint64 lsn)
{
  guint64 number = 0;

  for (guint i = 0; i < segments->len; i++)
    {
      const TpsSegmentInfo *segment = &g_array_index (segments, TpsSegmentInfo, i);

      if (segment->first_lsn != 0 && segment->first_lsn <= lsn)
        number = segment->number;
    }
  return number;
}

static gboolean
refuse_gap (const TpsLogScan *scan, guint64 number, gint64 lsn, GError **error)
{
  g_autofree gchar *name = tps_log_segment_name (number);
  g_autofree gchar *found = lsn != 0 ? g_strdup_printf ("its first LSN is %" G_GINT64_FORMAT, lsn)
                                     : g_strdup ("it has no record");

  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
               "%s at %d: %s, but LSN %" G_GINT64_FORMAT " is missing", name, TPS_LOG_FIRST_GROUP,
               found, scan->lsn);
  return FALSE;
}

/* Opens a segment and finds its first LSN. */
static gboolean
open_segment (TpsLogScan *scan, guint64 number, gint64 *first_lsn, GError **error)
{
  close_segment (scan);
  switch (tps_segment_reader_open (&scan->reader, scan->folder->disk, scan->folder->path, number,
                                   &scan->folder->id, scan->pool, error))
    {
    case TPS_SEGMENT_OPENED:
      break;
    case TPS_SEGMENT_UNUSED:
      return refuse_gap (scan, number, 0, error);
    case TPS_SEGMENT_REFUSED:
      return FALSE;
    }
  scan->is_open = TRUE;
  scan->number = number;
  scan->reader.read_bytes = scan->read_bytes;
  scan->reader.reads_ahead = scan->reads_ahead;
  return tps_segment_reader_peek (&scan->reader, first_lsn, error);
}

gboolean
tps_log_scan_start (TpsLogScan *scan, guint64 number, gint64 lsn, GError **error)
{
  return tps_log_scan_start_near (scan, number, TPS_LOG_FIRST_GROUP, lsn, error);
}

gboolean
tps_log_scan_start_near (TpsLogScan *scan, guint64 number, gint64 offset, gint64 lsn,
                         GError **error)
{
  gint64 first_lsn;

  scan->lsn = lsn;
  if (!open_segment (scan, number, &first_lsn, error))
    return FALSE;
  scan->reader.offset = offset;
  if (!tps_segment_reader_skip_to (&scan->reader, lsn, error)
      || !tps_segment_reader_peek (&scan->reader, &first_lsn, error))
    return FALSE;
  if (first_lsn == 0 || first_lsn > lsn)
    return refuse_gap (scan, number, first_lsn, error);
  for (scan->lsn = first_lsn; scan->lsn < lsn;)
    if (!tps_log_scan_check (scan, error))
      return FALSE;
  return TRUE;
}

gboolean
tps_log_scan_begin (TpsLogScan *scan, guint64 number, gint64 *lsn, GError **error)
{
  if (!open_segment (scan, number, lsn, error))
    return FALSE;
  scan->lsn = *lsn;
  return TRUE;
}

/* Continues with the next segment, whose first record must be the next record of the log. */
static gboolean
go_on (TpsLogScan *scan, GError **error)
{
  guint64 number = scan->number + 1;
  gint64 first_lsn;

  if (!open_segment (scan, number, &first_lsn, error))
    return FALSE;
  return first_lsn == scan->lsn || refuse_gap (scan, number, first_lsn, error);
}

gboolean
tps_log_scan_refresh (TpsLogScan *scan, GError **error)
{
  return !scan->is_open || tps_segment_reader_refresh (&scan->reader, error);
}

/* ---- records --------------------------------------------------------------------------------- */

gboolean
tps_log_scan_check (TpsLogScan *scan, GError **error)
{
  TpsSegmentVerdict verdict = tps_segment_reader_next (&scan->reader, scan->lsn, error);

  if (verdict == TPS_SEGMENT_END || verdict == TPS_SEGMENT_TORN)
    {
      if (!go_on (scan, error))
        return FALSE;
      verdict = tps_segment_reader_next (&scan->reader, scan->lsn, error);
      if (verdict == TPS_SEGMENT_END || verdict == TPS_SEGMENT_TORN)
        return refuse_gap (scan, scan->number, scan->lsn, error);
    }
  if (verdict == TPS_SEGMENT_ERROR)
    return FALSE;
  scan->lsn++;
  return TRUE;
}

gboolean
tps_log_scan_next (TpsLogScan *scan, TpsLogRecord *record, GError **error)
{
  const TpsSegmentReader *reader = &scan->reader;

  if (!tps_log_scan_check (scan, error))
    return FALSE;
  if (!tps_record_decode (&scan->decoder, &reader->record, reader->buffer, reader->body_offset,
                          error))
    {
      g_prefix_error (error, "%s at %" G_GINT64_FORMAT ": LSN %" G_GINT64_FORMAT ": ", reader->name,
                      reader->offset - (gint64) reader->record.body_bytes - TPS_LOG_RECORD_HEADER,
                      reader->record.lsn);
      return FALSE;
    }
  *record = (TpsLogRecord) {
    .lsn = reader->record.lsn,
    .command = scan->decoder.is_hole ? NULL : &scan->decoder.command,
    .n_bytes = TPS_LOG_RECORD_HEADER + reader->record.body_bytes,
  };
  return TRUE;
}

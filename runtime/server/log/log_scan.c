/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_scan.h"

#include <stdarg.h>
#include <string.h>

#include "runtime/base/error.h"

#define WINDOW_BYTES ((gsize) 8 << 20)
/* skip_to() reads only the heads of groups until it finds a group of at most
 * this length. From then on, it reads whole windows, which may contain many small groups. */
#define SMALL_GROUP_BYTES ((gint64) 64 << 10)
#define HEADS_BYTES \
  ((gsize) 2 * TPS_DISK_BLOCK) /* the head of a segment, and the head of its first group */

static gboolean G_GNUC_PRINTF (4, 5)
    refuse (const TpsSegmentReader *reader, gint64 offset, GError **error, const gchar *format, ...)
{
  g_autofree gchar *what = NULL;
  va_list args;

  va_start (args, format);
  what = g_strdup_vprintf (format, args);
  va_end (args);
  return tps_fail (error, TPS_ERROR_ABORTED, "%s at %" G_GINT64_FORMAT ": %s", reader->name, offset,
                   what);
}

static gsize
round_up (gsize n_bytes)
{
  return (n_bytes + TPS_DISK_BLOCK - 1) & ~(gsize) (TPS_DISK_BLOCK - 1);
}

static gint64
round_down (gint64 offset)
{
  return offset & ~(gint64) (TPS_DISK_BLOCK - 1);
}

static gsize
get_read_bytes (const TpsSegmentReader *reader)
{
  if (!reader->is_sequential)
    return HEADS_BYTES;
  return reader->read_bytes > 0 ? round_up (reader->read_bytes) : WINDOW_BYTES;
}

/* Provides a buffer for a window of `n_bytes`. If the present buffer is too small or has other
 * references, it is replaced. `old` is then the previous buffer, which has the window. */
static gboolean
ensure_buffer (TpsSegmentReader *reader, gsize n_bytes, TpsBuffer **old, GError **error)
{
  gsize n_wanted = MAX (n_bytes, get_read_bytes (reader)) + TPS_DISK_BLOCK;
  gsize address;

  if (reader->buffer != NULL && tps_buffer_is_exclusive (reader->buffer)
      && tps_buffer_get_size (reader->buffer) >= n_wanted)
    return TRUE;
  *old = g_steal_pointer (&reader->buffer);
  reader->buffer = tps_buffer_pool_get (reader->pool, n_wanted, error);
  if (reader->buffer == NULL)
    {
      g_prefix_error (error, "%s: ", reader->name);
      return FALSE;
    }
  address = (gsize) tps_buffer_get_data (reader->buffer);
  reader->shift = round_up (address) - address;
  return TRUE;
}

/* Returns the place in the buffer of the byte at `offset` of the file, which must be in the
 * window. */
static gsize
place_of (const TpsSegmentReader *reader, gint64 offset)
{
  return reader->shift + (gsize) (offset - reader->window_offset);
}

static guint8 *
get_window (const TpsSegmentReader *reader)
{
  return tps_buffer_get_data (reader->buffer) + reader->shift;
}

/* Begins to read ahead from `offset`. FALSE: read-ahead is not worthwhile or not possible, and the
 * caller must read from the file. */
static gboolean
begin_ahead (TpsSegmentReader *reader, gint64 offset)
{
  g_clear_pointer (&reader->ahead, tps_read_ahead_free);
  if (reader->reads_ahead && reader->is_sequential && reader->size % TPS_DISK_BLOCK == 0)
    reader->ahead = tps_read_ahead_new (reader->file, offset, reader->size, NULL);
  return reader->ahead != NULL;
}

/* Reads up to `n_bytes` of the file at `offset`. Returns the number of bytes read, or -1 with an
 * error. */
static gssize
read_window (TpsSegmentReader *reader, gint64 offset, guint8 *to, gsize n_bytes, GError **error)
{
  gboolean goes_on = reader->ahead != NULL && tps_read_ahead_get_position (reader->ahead) == offset;

  if (!goes_on && !begin_ahead (reader, offset))
    return reader->file->disk->read (reader->file, to, n_bytes, offset, error);
  n_bytes = (gsize) MIN ((gint64) n_bytes, reader->size - offset);
  if (tps_read_ahead_read (reader->ahead, to, n_bytes, error))
    return (gssize) n_bytes;
  g_clear_pointer (&reader->ahead, tps_read_ahead_free);
  return -1;
}

/* Moves the beginning of the window to `offset`. The window then has at least `n_bytes`, unless the
 * file is shorter. Bytes of the previous window are not read again. */
static gboolean
move_window (TpsSegmentReader *reader, gint64 offset, gsize n_bytes, GError **error)
{
  gint64 end = reader->window_offset + (gint64) reader->window_bytes;
  gsize n_kept = offset >= reader->window_offset && offset < end ? (gsize) round_down (end - offset)
                                                                 : 0;
  gsize old_place = n_kept > 0 ? reader->shift + (gsize) (offset - reader->window_offset) : 0;
  g_autoptr (TpsBuffer) old = NULL;
  gsize n_room;
  gssize n_read;

  reader->window_bytes = 0;
  if (!ensure_buffer (reader, n_bytes, &old, error))
    return FALSE;
  if (n_kept > 0)
    memmove (get_window (reader),
             tps_buffer_get_data (old != NULL ? old : reader->buffer) + old_place, n_kept);
  n_room = tps_buffer_get_size (reader->buffer) / TPS_DISK_BLOCK * TPS_DISK_BLOCK - TPS_DISK_BLOCK;
  n_read = read_window (reader, offset + (gint64) n_kept, get_window (reader) + n_kept,
                        n_room - n_kept, error);
  if (n_read < 0)
    return FALSE;
  reader->window_offset = offset;
  reader->window_bytes = n_kept + (gsize) n_read;
  return TRUE;
}

/* Sets `bytes` to the bytes of the file at `offset`, borrowed until the window moves; NULL: the
 * file ends before `offset` + `n_bytes`. */
static gboolean
fetch (TpsSegmentReader *reader, gint64 offset, gsize n_bytes, const guint8 **bytes, GError **error)
{
  gint64 begin = round_down (offset);

  *bytes = NULL;
  if (offset > reader->size || n_bytes > (gsize) (reader->size - offset))
    return TRUE;
  if ((reader->window_bytes == 0 || offset < reader->window_offset
       || (gsize) (offset - reader->window_offset) + n_bytes > reader->window_bytes)
      && !move_window (reader, begin, round_up (n_bytes) + TPS_DISK_BLOCK, error))
    return FALSE;
  if ((gsize) (offset - reader->window_offset) + n_bytes <= reader->window_bytes)
    *bytes = tps_buffer_get_data (reader->buffer) + place_of (reader, offset);
  return TRUE;
}

static gboolean
check_head (TpsSegmentReader *reader, TpsHeadVerdict verdict, guint32 version, guint64 number,
            const TpsLogId *id, GError **error)
{
  if (verdict != TPS_HEAD_OK)
    return refuse (reader, 0, error, "the head of the segment is damaged");
  if (version != TPS_LOG_VERSION)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "%s: format version %u, and this program knows version %d only", reader->name,
                     version, TPS_LOG_VERSION);
  if (memcmp (&reader->head.id, id, sizeof *id) != 0)
    return refuse (
        reader, 0, error,
        "the segment belongs to another log; restore the segment of this log from a copy");
  if (reader->head.number != number)
    return refuse (reader, 0, error, "the number in the segment differs from that of its file");
  return TRUE;
}

static TpsSegmentOpened
read_head (TpsSegmentReader *reader, guint64 number, const TpsLogId *id, GError **error)
{
  const guint8 *sector;
  TpsHeadVerdict verdict;
  guint32 version = 0;

  if (!fetch (reader, 0, TPS_DISK_BLOCK, &sector, error))
    return TPS_SEGMENT_REFUSED;
  verdict = sector != NULL ? tps_segment_decode_head (sector, &reader->head, &version)
                           : TPS_HEAD_EMPTY;
  if (verdict == TPS_HEAD_EMPTY)
    return TPS_SEGMENT_UNUSED;
  return check_head (reader, verdict, version, number, id, error) ? TPS_SEGMENT_OPENED
                                                                  : TPS_SEGMENT_REFUSED;
}

/* Discards the bytes that were read ahead, because the segment is still being written. */
static gboolean
refresh (TpsSegmentReader *reader, GError **error)
{
  reader->window_bytes = 0;
  g_clear_pointer (&reader->ahead, tps_read_ahead_free);
  reader->size = reader->file->disk->get_size (reader->file, error);
  return reader->size >= 0;
}

TpsSegmentOpened
tps_segment_reader_open (TpsSegmentReader *reader, TpsDisk *disk, const gchar *folder,
                         guint64 number, const TpsLogId *id, TpsBufferPool *pool, GError **error)
{
  TpsSegmentOpened opened = TPS_SEGMENT_REFUSED;
  g_autofree gchar *path = NULL;

  *reader = (TpsSegmentReader) { .pool = pool, .offset = TPS_LOG_FIRST_GROUP };
  reader->name = tps_log_segment_name (number);
  path = g_build_filename (folder, reader->name, NULL);
  reader->file = disk->open (disk, path, TPS_DISK_READ_ONLY | TPS_DISK_DIRECT, error);
  if (reader->file != NULL && refresh (reader, error))
    opened = read_head (reader, number, id, error);
  if (opened != TPS_SEGMENT_OPENED)
    tps_segment_reader_close (reader);
  return opened;
}

void
tps_segment_reader_close (TpsSegmentReader *reader)
{
  g_clear_pointer (&reader->ahead, tps_read_ahead_free);
  if (reader->file != NULL)
    reader->file->disk->close (reader->file);
  reader->file = NULL;
  g_clear_pointer (&reader->buffer, tps_buffer_unref);
  g_clear_pointer (&reader->name, g_free);
}

/* Sets `is_lost` to TRUE if the group has more zero sectors than the writer counted. A part of the
 * group has then never reached the disk. */
static gboolean
has_lost_sectors (TpsSegmentReader *reader, gboolean *is_lost, GError **error)
{
  guint64 n_zero = 0;

  for (gint64 at = 0; at < reader->group.n_bytes; at += TPS_DISK_BLOCK)
    {
      const guint8 *block;

      if (!fetch (reader, reader->group.offset + at, TPS_DISK_BLOCK, &block, error))
        return FALSE;
      if (block == NULL)
        return refuse (reader, reader->group.offset, error, "a group reaches beyond the file");
      n_zero += tps_group_count_zero_sectors (block, TPS_DISK_BLOCK);
    }
  *is_lost = n_zero > reader->group.n_zero_sectors;
  return TRUE;
}

/* Returns the verdict on a group with an altered record: the group is torn, or the record is
 * damaged. */
static TpsSegmentVerdict
judge_group (TpsSegmentReader *reader, gint64 lsn, GError **error)
{
  gboolean is_lost = FALSE;

  if (!has_lost_sectors (reader, &is_lost, error))
    return TPS_SEGMENT_ERROR;
  if (is_lost)
    {
      reader->offset = reader->group.offset;
      reader->n_left = 0;
      return TPS_SEGMENT_TORN;
    }
  refuse (reader, reader->offset, error,
          "the record of LSN %" G_GINT64_FORMAT " is damaged: its checksum is wrong", lsn);
  return TPS_SEGMENT_ERROR;
}

/* Reads the head of a group at the next block. RECORD: a group begins there. */
static TpsSegmentVerdict
begin_group (TpsSegmentReader *reader, GError **error)
{
  gint64 offset = (gint64) round_up ((gsize) reader->offset);
  const guint8 *sector;

  reader->offset = offset;
  if (!fetch (reader, offset, TPS_DISK_SECTOR, &sector, error))
    return TPS_SEGMENT_ERROR;
  if (sector == NULL)
    return TPS_SEGMENT_END;
  switch (tps_group_decode_head (sector, reader->head.stamp, offset, &reader->group))
    {
    case TPS_HEAD_EMPTY:
    case TPS_HEAD_FOREIGN:
      return TPS_SEGMENT_END;
    case TPS_HEAD_OK:
      break;
    case TPS_HEAD_DAMAGED:
      refuse (reader, offset, error, "the head of a group is damaged");
      return TPS_SEGMENT_ERROR;
    }
  if (reader->group.n_bytes > reader->size - offset)
    {
      refuse (reader, offset, error, "a group reaches beyond the file, which has been cut");
      return TPS_SEGMENT_ERROR;
    }
  return TPS_SEGMENT_RECORD;
}

static gboolean
is_in_group (const TpsSegmentReader *reader, gsize n_bytes)
{
  return n_bytes <= (gsize) (reader->group.offset + reader->group.n_bytes - reader->offset);
}

/* Reads the next record of the group. Sets `body` to its body; NULL: the record is damaged. */
static gboolean
read_body (TpsSegmentReader *reader, const guint8 **body, GError **error)
{
  const guint8 *header = NULL;

  *body = NULL;
  if (is_in_group (reader, TPS_LOG_RECORD_HEADER)
      && !fetch (reader, reader->offset, TPS_LOG_RECORD_HEADER, &header, error))
    return FALSE;
  if (header == NULL || !tps_record_decode_head (header, &reader->record)
      || !is_in_group (reader, TPS_LOG_RECORD_HEADER + reader->record.body_bytes))
    return TRUE;
  if (!fetch (reader, reader->offset, TPS_LOG_RECORD_HEADER + reader->record.body_bytes, &header,
              error))
    return FALSE;
  *body = header != NULL ? header + TPS_LOG_RECORD_HEADER : NULL;
  return TRUE;
}

TpsSegmentVerdict
tps_segment_reader_next (TpsSegmentReader *reader, gint64 lsn, GError **error)
{
  const guint8 *body;

  reader->is_sequential = TRUE;
  if (reader->n_left == 0)
    {
      TpsSegmentVerdict verdict = begin_group (reader, error);

      if (verdict != TPS_SEGMENT_RECORD)
        return verdict;
      reader->n_left = reader->group.n_records;
      reader->offset = reader->group.offset + TPS_LOG_GROUP_HEADER;
    }
  if (!read_body (reader, &body, error))
    return TPS_SEGMENT_ERROR;
  if (body == NULL || !tps_record_check_body (&reader->record, body))
    return judge_group (reader, lsn, error);
  if (lsn != 0 && reader->record.lsn != lsn)
    {
      refuse (reader, reader->offset, error,
              "the record has LSN %" G_GINT64_FORMAT ", expected LSN %" G_GINT64_FORMAT,
              reader->record.lsn, lsn);
      return TPS_SEGMENT_ERROR;
    }
  if (!tps_moment_may_follow (&reader->record.moment, &reader->moment))
    {
      refuse (reader, reader->offset, error,
              "the record of LSN %" G_GINT64_FORMAT " has epoch %u and time %" G_GINT64_FORMAT
              ", but the record before has epoch %u and time %" G_GINT64_FORMAT,
              reader->record.lsn, reader->record.moment.epoch, reader->record.moment.time_ms,
              reader->moment.epoch, reader->moment.time_ms);
      return TPS_SEGMENT_ERROR;
    }
  reader->moment = reader->record.moment;
  reader->offset += TPS_LOG_RECORD_HEADER;
  reader->body_offset = place_of (reader, reader->offset);
  reader->offset += (gint64) reader->record.body_bytes;
  reader->n_left--;
  return TPS_SEGMENT_RECORD;
}

gboolean
tps_segment_reader_peek (TpsSegmentReader *reader, gint64 *lsn, GError **error)
{
  TpsSegmentVerdict verdict = begin_group (reader, error);

  if (verdict == TPS_SEGMENT_ERROR)
    return FALSE;
  *lsn = verdict == TPS_SEGMENT_RECORD ? reader->group.first_lsn : 0;
  return TRUE;
}

/* Skips groups whose records are all below `lsn`. Must be called before the first call of
 * tps_segment_reader_next(). */
static gboolean
skip_to (TpsSegmentReader *reader, gint64 lsn, GError **error)
{
  for (;;)
    {
      TpsSegmentVerdict verdict = begin_group (reader, error);
      gint64 offset = reader->offset;

      if (verdict == TPS_SEGMENT_ERROR)
        return FALSE;
      if (verdict == TPS_SEGMENT_END)
        return TRUE;
      if (reader->group.first_lsn + reader->group.n_records > lsn)
        return TRUE;
      reader->offset = offset + reader->group.n_bytes;
      if (reader->group.n_bytes <= SMALL_GROUP_BYTES)
        reader->is_sequential = TRUE;
    }
}

/* Returns the end of the last non-zero sector of a block; 0 = all sectors are zero. */
static gsize
get_used (const guint8 *block, gsize n_bytes)
{
  static const guint8 zeros[TPS_DISK_SECTOR];

  for (gsize end = n_bytes; end > 0; end -= TPS_DISK_SECTOR)
    if (memcmp (block + end - TPS_DISK_SECTOR, zeros, sizeof zeros) != 0)
      return end;
  return 0;
}

/* Returns the offset of the next block that may contain a byte other than zero. */
static gint64
skip_zeros (const TpsSegmentReader *reader, gint64 offset)
{
  const TpsDisk *disk = reader->file->disk;

  /* In the window, it is faster to compare the bytes. */
  if (disk->skip_zeros == NULL || (offset < reader->window_offset + (gint64) reader->window_bytes))
    return offset;
  return MAX (round_down (disk->skip_zeros (reader->file, offset)), offset);
}

gboolean
tps_segment_reader_check_rest (TpsSegmentReader *reader, gint64 *n_bytes, GError **error)
{
  gint64 begin = reader->offset;

  reader->is_sequential = TRUE;
  *n_bytes = 0;
  for (gint64 at = skip_zeros (reader, begin); at < reader->size;
       at = skip_zeros (reader, at + TPS_DISK_BLOCK))
    {
      gsize n_block = (gsize) MIN (reader->size - at, TPS_DISK_BLOCK) / TPS_DISK_SECTOR
                      * TPS_DISK_SECTOR;
      const guint8 *block;
      TpsGroupHead later;
      gsize n_used;

      if (!fetch (reader, at, n_block, &block, error))
        return FALSE;
      n_used = block != NULL ? get_used (block, n_block) : 0;
      if (n_used == 0)
        continue;
      *n_bytes = at + (gint64) n_used - begin;
      if (at > begin
          && tps_group_decode_head (block, reader->head.stamp, at, &later) == TPS_HEAD_OK)
        return refuse (reader, begin, error,
                       "a group is damaged: there is a later one at %" G_GINT64_FORMAT
                       ", which begins with LSN %" G_GINT64_FORMAT,
                       at, later.first_lsn);
    }
  return TRUE;
}

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

  return tps_fail (error, TPS_ERROR_ABORTED,
                   "%s at %d: %s, but LSN %" G_GINT64_FORMAT " is missing", name,
                   TPS_LOG_FIRST_GROUP, found, scan->lsn);
}

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
tps_log_scan_start (TpsLogScan *scan, guint64 number, gint64 offset, gint64 lsn, GError **error)
{
  gint64 first_lsn;

  scan->lsn = lsn;
  if (!open_segment (scan, number, &first_lsn, error))
    return FALSE;
  scan->reader.offset = offset;
  if (!skip_to (&scan->reader, lsn, error)
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
  TpsMoment moment = scan->reader.moment;
  gint64 first_lsn;

  if (!open_segment (scan, number, &first_lsn, error))
    return FALSE;
  scan->reader.moment = moment;
  return first_lsn == scan->lsn || refuse_gap (scan, number, first_lsn, error);
}

gboolean
tps_log_scan_refresh (TpsLogScan *scan, GError **error)
{
  return !scan->is_open || refresh (&scan->reader, error);
}

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
    .moment = reader->moment,
    .command = scan->decoder.is_hole ? NULL : &scan->decoder.command,
    .n_bytes = TPS_LOG_RECORD_HEADER + reader->record.body_bytes,
  };
  return TRUE;
}

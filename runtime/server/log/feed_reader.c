/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/feed_reader.h"

#include <string.h>

#include "runtime/base/error.h"

/* The maximum size of a batch, unless its only record is longer. */
#define BATCH_BYTES ((gsize) 1 << 20)
/* The size of reads. It is small, because followers of the newest records often need only a few
 * bytes. */
#define READ_BYTES ((gsize) 256 << 10)
/* If the buffer of a place is larger than this, because of a long record, the place is closed. */
#define MAX_KEPT_BYTES ((gsize) 2 << 20)

void
tps_feed_reader_init (TpsFeedReader *reader, TpsLog *log, TpsBudget *budget)
{
  *reader = (TpsFeedReader) { .log = log, .pool = tps_buffer_pool_new (budget, NULL, 0) };
}

static void
close_scan (TpsFeedScan *place)
{
  if (place->next_lsn != 0)
    tps_log_scan_clear (&place->scan);
  *place = (TpsFeedScan) { 0 };
}

static void
drop_batches (TpsFeedReader *reader)
{
  for (guint i = 0; i < TPS_FEED_BATCHES; i++)
    {
      g_clear_pointer (&reader->batches[i].buffer, tps_buffer_unref);
      reader->batches[i] = (TpsLogBatch) { 0 };
    }
}

void
tps_feed_reader_clear (TpsFeedReader *reader)
{
  for (guint i = 0; i < TPS_FEED_SCANS; i++)
    close_scan (&reader->scans[i]);
  drop_batches (reader);
  g_clear_pointer (&reader->gathered, g_free);
  g_clear_pointer (&reader->pool, tps_buffer_pool_unref);
}

gboolean
tps_feed_check_kept (TpsLog *log, gint64 lsn, GError **error)
{
  gint64 oldest_lsn = tps_log_get_first_lsn (log);

  if (lsn >= oldest_lsn)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_STALE,
               "log: LSN %" G_GINT64_FORMAT " is not kept any more; the oldest is %" G_GINT64_FORMAT
               ": begin with a snapshot, and read from the LSN after its own",
               lsn, oldest_lsn);
  return FALSE;
}

/* ---- recent batches -------------------------------------------------------------------------- */

static gsize
get_record_bytes (const guint8 *head)
{
  TpsRecordHead record = { 0 };

  /* This cannot fail, because the checksum was correct when the record was read. */
  tps_record_decode_head (head, &record);
  return TPS_LOG_RECORD_HEADER + record.body_bytes;
}

/* Moves the beginning of the batch to `lsn`, which must be in the batch. */
static void
cut_before (TpsLogBatch *batch, gint64 lsn)
{
  const guint8 *data = tps_buffer_get_data (batch->buffer);

  for (; batch->first_lsn < lsn; batch->first_lsn++)
    {
      gsize n_bytes = get_record_bytes (data + batch->offset);

      batch->offset += n_bytes;
      batch->n_bytes -= n_bytes;
    }
}

/* Keeps the first records, as many as fit into `max_bytes`, but at least one. */
static void
cut_behind (TpsLogBatch *batch, gsize max_bytes)
{
  const guint8 *data = tps_buffer_get_data (batch->buffer) + batch->offset;
  gint64 lsn = batch->first_lsn;
  gsize n_bytes = 0;

  if (batch->n_bytes <= max_bytes)
    return;
  while (lsn < batch->next_lsn)
    {
      gsize n_record = get_record_bytes (data + n_bytes);

      if (n_bytes > 0 && n_bytes + n_record > max_bytes)
        break;
      n_bytes += n_record;
      lsn++;
    }
  batch->n_bytes = n_bytes;
  batch->next_lsn = lsn;
}

static gboolean
find_batch (const TpsFeedReader *reader, gint64 lsn, TpsLogBatch *batch)
{
  for (guint i = 0; i < TPS_FEED_BATCHES; i++)
    if (reader->batches[i].first_lsn <= lsn && lsn < reader->batches[i].next_lsn)
      {
        *batch = reader->batches[i];
        return TRUE;
      }
  return FALSE;
}

static void
keep_batch (TpsFeedReader *reader, const TpsLogBatch *batch)
{
  TpsLogBatch *kept = &reader->batches[reader->next_batch++ % TPS_FEED_BATCHES];

  if (batch->n_bytes > BATCH_BYTES)
    return;
  g_clear_pointer (&kept->buffer, tps_buffer_unref);
  *kept = *batch;
  tps_buffer_ref (kept->buffer);
}

/* ---- places in the log ----------------------------------------------------------------------- */

/* Remembers the position of the current group of `scan`, unless it is the newest mark. */
static void
mark_group (TpsFeedReader *reader, const TpsLogScan *scan)
{
  const TpsGroupHead *group = &scan->reader.group;
  const TpsFeedMark *last = &reader->marks[(reader->next_mark - 1) % TPS_FEED_MARKS];

  if (last->number == scan->number && last->offset == group->offset)
    return;
  reader->marks[reader->next_mark++ % TPS_FEED_MARKS] = (TpsFeedMark) {
    .number = scan->number, .offset = group->offset, .first_lsn = group->first_lsn
  };
}

/* Returns the offset of the last marked group in segment `number` that begins at or before `lsn`.
 * If there is none, returns the offset of the first group. */
static gint64
find_offset (const TpsFeedReader *reader, guint64 number, gint64 lsn)
{
  gint64 offset = TPS_LOG_FIRST_GROUP;

  for (guint i = 0; i < TPS_FEED_MARKS; i++)
    {
      const TpsFeedMark *mark = &reader->marks[i];

      if (mark->first_lsn != 0 && mark->number == number && mark->first_lsn <= lsn)
        offset = MAX (offset, mark->offset);
    }
  return offset;
}

static gboolean
open_scan (TpsFeedReader *reader, TpsFeedScan *place, gint64 lsn, GError **error)
{
  g_autoptr (GArray) segments = tps_log_dup_segments (reader->log);
  guint64 number = tps_log_scan_find (segments, lsn);

  close_scan (place);
  if (number == 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_STALE, "log: LSN %" G_GINT64_FORMAT " is not kept",
                   lsn);
      return FALSE;
    }
  tps_log_scan_init (&place->scan, &reader->log->folder, reader->pool);
  place->scan.read_bytes = READ_BYTES;
  place->next_lsn = lsn;
  return tps_log_scan_start_near (&place->scan, number, find_offset (reader, number, lsn), lsn,
                                  error);
}

/* Returns the place at `lsn`, or, if there is none, the least recently used place. */
static TpsFeedScan *
choose_scan (TpsFeedReader *reader, gint64 lsn)
{
  TpsFeedScan *chosen = &reader->scans[0];

  for (guint i = 0; i < TPS_FEED_SCANS; i++)
    {
      TpsFeedScan *place = &reader->scans[i];

      if (place->next_lsn == lsn)
        return place;
      if (place->used < chosen->used)
        chosen = place;
    }
  return chosen;
}

/* Returns a place at `lsn`, and opens it if necessary. NULL: an error is set. */
static TpsFeedScan *
take_scan (TpsFeedReader *reader, gint64 lsn, GError **error)
{
  TpsFeedScan *place = choose_scan (reader, lsn);

  if (place->next_lsn != lsn && !open_scan (reader, place, lsn, error))
    {
      close_scan (place);
      return NULL;
    }
  place->used = ++reader->n_reads;
  return place;
}

/* Reads the record of place->next_lsn, unless it has been read. Records up to `limit_lsn` are
 * durable. Bytes after place->limit_lsn may have been read before the log wrote there, so they must
 * be read again. */
static gboolean
fetch_record (TpsFeedReader *reader, TpsFeedScan *place, gint64 limit_lsn, GError **error)
{
  if (place->has_record)
    return TRUE;
  if (place->next_lsn > place->limit_lsn && !tps_log_scan_refresh (&place->scan, error))
    return FALSE;
  if (place->next_lsn > place->limit_lsn)
    place->limit_lsn = limit_lsn;
  if (!tps_log_scan_check (&place->scan, error))
    return FALSE;
  mark_group (reader, &place->scan);
  place->has_record = TRUE;
  return TRUE;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Makes a batch of one record that is longer than BATCH_BYTES. Does not copy the record: the batch
 * refers to the buffer into which it was read. */
static void
take_long_record (TpsFeedScan *place, TpsLogBatch *batch, gsize n_bytes)
{
  batch->buffer = tps_buffer_ref (place->scan.reader.buffer);
  batch->offset = place->scan.reader.body_offset - TPS_LOG_RECORD_HEADER;
  batch->n_bytes = n_bytes;
  place->has_record = FALSE;
  place->next_lsn++;
}

static gboolean
end_batch (TpsFeedReader *reader, TpsLogBatch *batch, gsize n_gathered, GError **error)
{
  batch->buffer = tps_buffer_pool_get (reader->pool, n_gathered, error);
  if (batch->buffer == NULL)
    return FALSE;
  batch->offset = 0;
  batch->n_bytes = n_gathered;
  memcpy (tps_buffer_get_data (batch->buffer), reader->gathered, n_gathered);
  return TRUE;
}

/* Collects records up to `limit_lsn` in one batch of BATCH_BYTES, regardless of the limit of the
 * follower, because other followers may need more. */
static gboolean
gather (TpsFeedReader *reader, TpsFeedScan *place, gint64 limit_lsn, TpsLogBatch *batch,
        GError **error)
{
  gsize n_gathered = 0;

  if (reader->gathered == NULL)
    reader->gathered = g_malloc (BATCH_BYTES);
  while (place->next_lsn <= limit_lsn)
    {
      const TpsSegmentReader *segment = &place->scan.reader;
      gsize n_bytes;

      if (!fetch_record (reader, place, limit_lsn, error))
        return FALSE;
      n_bytes = TPS_LOG_RECORD_HEADER + segment->record.body_bytes;
      if (n_gathered == 0 && n_bytes > BATCH_BYTES)
        {
          take_long_record (place, batch, n_bytes);
          return TRUE;
        }
      if (n_gathered + n_bytes > BATCH_BYTES)
        break;
      memcpy (reader->gathered + n_gathered,
              tps_buffer_get_data (segment->buffer) + segment->body_offset - TPS_LOG_RECORD_HEADER,
              n_bytes);
      n_gathered += n_bytes;
      place->has_record = FALSE;
      place->next_lsn++;
    }
  return end_batch (reader, batch, n_gathered, error);
}

static gboolean
read_batch (TpsFeedReader *reader, gint64 lsn, gint64 limit_lsn, TpsLogBatch *batch, GError **error)
{
  TpsFeedScan *place = take_scan (reader, lsn, error);

  if (place == NULL)
    return FALSE;
  batch->first_lsn = lsn;
  if (!gather (reader, place, limit_lsn, batch, error))
    {
      close_scan (place);
      return FALSE;
    }
  batch->next_lsn = place->next_lsn;
  if (tps_buffer_get_size (place->scan.reader.buffer) > MAX_KEPT_BYTES)
    close_scan (place);
  return TRUE;
}

gboolean
tps_feed_reader_read (TpsFeedReader *reader, gint64 lsn, gsize max_bytes, TpsLogBatch *batch,
                      GError **error)
{
  gint64 durable_lsn = tps_log_get_durable_lsn (reader->log);
  g_autoptr (GError) failure = NULL;

  *batch = (TpsLogBatch) { 0 };
  if (find_batch (reader, lsn, batch))
    tps_buffer_ref (batch->buffer);
  else if (read_batch (reader, lsn, durable_lsn, batch, &failure))
    keep_batch (reader, batch);
  else
    {
      drop_batches (reader); /* their memory may be the reason for the failure */
      /* The segment of the record may have been deleted meanwhile. */
      if (tps_feed_check_kept (reader->log, lsn, error))
        g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  cut_before (batch, lsn);
  cut_behind (batch, max_bytes);
  batch->durable_lsn = durable_lsn;
  batch->oldest_lsn = tps_log_get_first_lsn (reader->log);
  return TRUE;
}

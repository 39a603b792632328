/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads the records of a log in LSN order, of one segment or across segments, and reports how a
 * segment ends.
 *
 *   tps_segment_reader_open()      checks the segment's head
 *   tps_segment_reader_next()      RECORD, RECORD, ... and then END or TORN, or an error
 *
 * Memory of a segment reader: one buffer of `read_bytes`, or of the length of the longest record,
 * and the blocks that are read ahead. Thread: one at a time.
 */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/server/log/log.h"
#include "runtime/server/log/log_folder.h"
#include "runtime/server/log/log_format.h"
#include "runtime/server/log/read_ahead.h"

/* ---- one segment ----------------------------------------------------------------------------- */

typedef enum
{
  TPS_SEGMENT_RECORD = 1,
  TPS_SEGMENT_END,  /* there is no group at this offset */
  TPS_SEGMENT_TORN, /* a group begins here that was neither written completely nor acknowledged */
  TPS_SEGMENT_ERROR,
} TpsSegmentVerdict;

typedef struct
{
  /* Read-only for callers. */
  gchar *name;
  TpsSegmentHead head;
  gint64 size;
  gint64 offset;        /* of the next record, of the end, or of the torn group */
  TpsRecordHead record; /* of the last record that was read */
  TpsMoment moment;     /* of that record; before the first one, of the record before the segment */
  TpsBuffer *buffer;    /* holds the body of this record at `body_offset` */
  gsize body_offset;    /* the head of the record is before its body */

  /* May be set between calls: the size of reads; 0 = 8 MiB. */
  gsize read_bytes;
  gboolean reads_ahead; /* threads read the next blocks: see read_ahead.h */

  /* Private. */
  TpsDiskFile *file;
  TpsReadAhead *ahead; /* NULL: none has begun */
  TpsBufferPool *pool;
  gboolean is_sequential; /* the following blocks are read ahead */
  gsize shift;            /* the buffer's window begins here, aligned to TPS_DISK_BLOCK */
  gint64 window_offset;   /* in the segment */
  gsize window_bytes;
  TpsGroupHead group;
  guint n_left; /* records of the group */
} TpsSegmentReader;

typedef enum
{
  TPS_SEGMENT_OPENED = 1,
  TPS_SEGMENT_UNUSED, /* no head: the process exited while it made the segment. No file is open. */
  TPS_SEGMENT_REFUSED,
} TpsSegmentOpened;

/* Opens segment `number` of the log `id` in `folder`, and checks its head. `pool` is borrowed.
 * Errors: ABORTED (damaged, of a different log), INVALID_ARGUMENT (a different version), those of
 * the disk. */
TpsSegmentOpened tps_segment_reader_open (TpsSegmentReader *reader, TpsDisk *disk,
                                          const gchar *folder, guint64 number, const TpsLogId *id,
                                          TpsBufferPool *pool, GError **error);
/* Closes the file and frees the contents. May be called for a reader that is all zero. */
void tps_segment_reader_close (TpsSegmentReader *reader);

/* Reads the next record and checks its checksums. Its LSN must be `lsn`; 0 = any. The body is valid
 * until the next call, or as long as references to the buffer are held. Errors: ABORTED, which
 * names the file, the offset and the LSN; RESOURCE_EXHAUSTED (no memory for the record); those of
 * the disk. */
TpsSegmentVerdict tps_segment_reader_next (TpsSegmentReader *reader, gint64 lsn, GError **error);

/* Sets `lsn` to that of the first record; 0 = there is none. Must be called before the first call
 * of next(). Errors: as next(). */
gboolean tps_segment_reader_peek (TpsSegmentReader *reader, gint64 *lsn, GError **error);

/* Examines all bytes after `offset`, where a group is missing or torn. Sets `n_bytes` to the number
 * of bytes from `offset` to the end of the last non-zero sector. Errors: ABORTED if there is a
 * later group. That group was written after the group at `offset` had been synced, so the group at
 * `offset` is damaged. */
gboolean tps_segment_reader_check_rest (TpsSegmentReader *reader, gint64 *n_bytes, GError **error);

/* ---- all segments ---------------------------------------------------------------------------- */

typedef struct
{
  const TpsLogFolder *folder; /* borrowed; its list of segments is not used */
  TpsBufferPool *pool;        /* borrowed */
  gsize read_bytes;           /* at a time; 0 = 8 MiB. May be set after init() */
  gboolean reads_ahead;       /* by threads. May be set after init() */
  gboolean is_open;
  TpsSegmentReader reader;
  guint64 number;
  gint64 lsn; /* of the next record */
  TpsRecordDecoder decoder;
} TpsLogScan;

/* Makes a scan without a position, in the caller's storage. `folder` and `pool` are borrowed until
 * clear(). No file is opened yet. */
void tps_log_scan_init (TpsLogScan *scan, const TpsLogFolder *folder, TpsBufferPool *pool);
void tps_log_scan_clear (TpsLogScan *scan);

/* Moves to the record of `lsn`, which is in segment `number`. Does not read the groups before
 * `offset`, where a group must begin whose first record is at or before `lsn`. Errors: as
 * tps_log_cursor_next(). */
gboolean tps_log_scan_start (TpsLogScan *scan, guint64 number, gint64 offset, gint64 lsn,
                             GError **error);

/* Moves to the first record of segment `number`, and sets `lsn` to its LSN; 0: the segment has no
 * record. Errors: as tps_log_cursor_next(). */
gboolean tps_log_scan_begin (TpsLogScan *scan, guint64 number, gint64 *lsn, GError **error);

/* Reads the next record, which must be on the disk. Errors: as tps_log_cursor_next(). */
gboolean tps_log_scan_next (TpsLogScan *scan, TpsLogRecord *record, GError **error);

/* As tps_log_scan_next(), but only checks the record and does not decode it. */
gboolean tps_log_scan_check (TpsLogScan *scan, GError **error);

/* Discards the bytes that were read ahead, since the log may have written there meanwhile. Errors:
 * those of the disk. */
gboolean tps_log_scan_refresh (TpsLogScan *scan, GError **error);

/* Returns the number of the segment with the record of `lsn`; 0: the record is older than all
 * segments. `segments` must be an array of TpsSegmentInfo. */
guint64 tps_log_scan_find (const GArray *segments, gint64 lsn);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads the records of a log in LSN order, across segments.
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/server/log/log.h"
#include "runtime/server/log/log_folder.h"
#include "runtime/server/log/segment_reader.h"

G_BEGIN_DECLS

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

/* Moves to the record of `lsn`, which is in segment `number`. Errors: as tps_log_cursor_next(). */
gboolean tps_log_scan_start (TpsLogScan *scan, guint64 number, gint64 lsn, GError **error);

/* As tps_log_scan_start(), but does not read the groups before `offset`, where a group must begin
 * whose first record is at or before `lsn`. */
gboolean tps_log_scan_start_near (TpsLogScan *scan, guint64 number, gint64 offset, gint64 lsn,
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

G_END_DECLS

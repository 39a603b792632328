/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads batches of records from the disk for the followers of a log. Followers share the reader's
 * caches of recent batches, of open segments, and of positions in the log. Internal to this folder.
 *
 * Thread: one at a time. */

#pragma once

#include "runtime/server/log/log_feed.h"
#include "runtime/server/log/log_private.h"
#include "runtime/server/log/log_scan.h"

G_BEGIN_DECLS

#define TPS_FEED_SCANS 4
#define TPS_FEED_BATCHES 8
#define TPS_FEED_MARKS 64

/* A read position that is kept open. */
typedef struct
{
  TpsLogScan scan;
  gint64 next_lsn;     /* 0: not in use */
  gint64 limit_lsn;    /* the durable LSN before the read-ahead began */
  gboolean has_record; /* the record of `next_lsn` has been read but did not fit */
  guint64 used;        /* the time of its last use, as a count */
} TpsFeedScan;

/* The position of a group that was read, where other reads may begin. */
typedef struct
{
  guint64 number;
  gint64 offset;
  gint64 first_lsn; /* 0: not in use */
} TpsFeedMark;

typedef struct
{
  TpsLog *log; /* borrowed */
  TpsBufferPool *pool;
  guint8 *gathered; /* records of the batch that is being read */
  guint64 n_reads;
  TpsFeedScan scans[TPS_FEED_SCANS];
  TpsLogBatch batches[TPS_FEED_BATCHES]; /* next_lsn 0: not in use */
  guint next_batch;
  TpsFeedMark marks[TPS_FEED_MARKS];
  guint next_mark;
} TpsFeedReader;

/* Makes a reader with empty caches, in the caller's storage. `log` is borrowed until clear().
 * Buffers are charged to `budget`; NULL = no limit. */
void tps_feed_reader_init (TpsFeedReader *reader, TpsLog *log, TpsBudget *budget);
void tps_feed_reader_clear (TpsFeedReader *reader);

/* Reads the records from `lsn` on, which must be durable, into `batch`. The caller must unref the
 * buffer of the batch. `max_bytes` as in TpsLogFeedRequest. Blocks. Errors: see
 * tps_log_feed_read(). */
gboolean tps_feed_reader_read (TpsFeedReader *reader, gint64 lsn, gsize max_bytes,
                               TpsLogBatch *batch, GError **error);

/* Returns TRUE if the log still has the record of `lsn`. Errors: STALE. Thread: any. */
gboolean tps_feed_check_kept (TpsLog *log, gint64 lsn, GError **error);

G_END_DECLS

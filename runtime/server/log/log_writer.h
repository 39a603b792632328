/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state machine of the log's threads.
 *
 *   queue -> stage (records are encoded) -> write and sync -> done()
 *
 * There are two stages: while one is written, the other is filled. The steps:
 *
 *   STAGE   copies queued records into the stage that is being filled, and ends the commands that
 *           do not wait for the disk; if nothing is queued, add() copies a hole at once
 *   WRITE   writes the filled stage and syncs it, and ends its waiting entries; the next stage may
 *           be written meanwhile
 *   SPARE   makes the next segment; groups may be written to the current one meanwhile
 *   FAIL    after a failure: ends all entries with its error
 *
 * At any time, at most one thread stages, one writes, one makes a segment, and one ends entries.
 * tps_log_writer_run() takes one step after another and sleeps when there is none. Tests call
 * tps_log_writer_step() instead, with a clock of their own.
 */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/server/log/log.h"
#include "runtime/server/log/log_format.h"
#include "runtime/server/log/log_folder.h"

G_BEGIN_DECLS

#define TPS_LOG_RETRY_NS ((gint64) 1000 * 1000 * 1000) /* after a full disk */

/* An append or a flush. */
typedef struct
{
  const TpsCommand *command; /* NULL: a flush */
  TpsDurability durability;
  gint64 lsn; /* of the command; 0 for a flush */
  TpsLogDone done;
  gpointer user_data;
} TpsLogEntry;

/* A staging buffer: the next group of records to be written, and the callbacks that wait for it. */
typedef struct
{
  guint8 *data; /* aligned to TPS_DISK_BLOCK */
  gsize capacity;
  gsize n_used; /* including the head of the group */
  guint n_records;
  gint64 first_lsn, last_lsn;
  gboolean is_full;   /* an entry did not fit; the stage is not empty */
  gboolean is_urgent; /* a caller waits for the disk */
  /* Records of TPS_DURABILITY_INTERVAL: the time to begin to write, and the time by which the first
   * one should be on the disk; G_MAXINT64 = there is none. */
  gint64 write_ns, due_ns;
  gboolean has_held; /* a record of TPS_DURABILITY_INTERVAL waits for the disk */
  /* A record that is longer than the buffer: the only one of its group. It is encoded while it
   * is written. */
  const TpsCommand *large;
  gint64 large_bytes; /* of the group */
  GArray *waiting;    /* of TpsLogEntry: done() must be called when the group is on the disk */
  TpsRecordPlan plan; /* of the record that is being encoded */
} TpsLogStage;

/* A segment's file; all zero: there is none. */
typedef struct
{
  TpsDiskFile *file;
  TpsSegmentHead head;
  gint64 size;
  gint64 offset; /* of the next group */
} TpsOpenSegment;

/* The segment to which groups are written, and the next segment, which is made in advance, so that
 * a full disk is noticed while there is still room. */
typedef struct
{
  const TpsLogFolder *folder; /* borrowed */
  gint64 segment_bytes;
  TpsOpenSegment current; /* its number counts even if there is no file yet */
  TpsOpenSegment spare;
} TpsSegmentWriter;

typedef struct TpsLogWriter
{
  gint64 interval_ns;
  gsize stage_bytes;   /* of each stage */
  gboolean may_refuse; /* see tps_log_is_short(); atomic, changed with the lock held */

  TpsMutex lock; /* guards everything up to the next comment */
  TpsCond changed;
  GArray *queue; /* of TpsLogEntry; the first n_taken have been staged */
  guint n_taken;
  gboolean is_staging; /* a thread uses the stage that is filled */
  gboolean is_writing; /* a thread uses `sealed`, and the segments */
  gboolean is_making;  /* a thread makes the next segment */
  gboolean makes_own;  /* a thread writes a group for which it makes the next segment itself */
  gboolean is_ending;  /* a thread uses `ending`, and calls done() */
  gboolean ends_large; /* `ending` has a command that was too long for a stage */
  gboolean ends_held;  /* `ending` has records of TPS_DURABILITY_INTERVAL */
  guint n_end_waiters; /* threads that wait until `is_ending` is FALSE */
  gboolean is_closing;
  gboolean ends_intervals; /* see tps_log_end_intervals() */
  TpsLogStage *filling;    /* one of the two */
  TpsLogStage *sealed;     /* the next one to be written, or NULL */
  GError *failure;         /* final */
  GError *no_room;         /* until a segment can be made */
  gint64 retry_ns;         /* the time of the next attempt */
  /* The bytes that can be written without a further segment. While a thread writes, the value
   * before that write. */
  gint64 room;
  gboolean wants_spare; /* the current segment is half full, and there is no next one */
  gboolean needs_spare; /* the current segment is nearly full, and there is no next one */
  gint64 durable_lsn;
  gint64 promised_lsn; /* of the newest INTERVAL command that ended before its write; 0 = none */
  void (*advanced) (gpointer user_data, gint64 durable_lsn); /* NULL: not needed */
  gpointer advanced_data;
  gboolean (*reached) (gpointer user_data, gint64 durable_lsn, GError **error); /* TpsLogOptions */
  gpointer reached_data;
  gint64 n_written; /* bytes */
  GArray *infos;    /* of TpsSegmentInfo, for segments with durable records */

  /* Accessed only by the thread that has is_staging, is_writing or is_ending. */
  TpsLogStage stages[2];
  GArray *ending;       /* of TpsLogEntry: those of the last written group */
  gboolean must_report; /* a segment was begun, and reached() has not succeeded since */
  TpsSegmentWriter segments;
} TpsLogWriter;

/* Makes a writer, in the caller's storage, that begins after record `last_lsn` and segment
 * `last_number`. `folder` is borrowed; its list of segments is copied. */
void tps_log_writer_init (TpsLogWriter *writer, const TpsLogFolder *folder, gint64 last_lsn,
                          guint64 last_number, gint64 segment_bytes, gsize stage_bytes,
                          gint64 interval_ns);
/* Makes the first segment. Must be called before the first step. If there is no room, the steps try
 * again. Errors: those of the disk, but not RESOURCE_EXHAUSTED. */
gboolean tps_log_writer_begin (TpsLogWriter *writer, GError **error);
/* Frees the contents of the writer. No step may be in progress. Waiting entries are not ended. */
void tps_log_writer_clear (TpsLogWriter *writer);

/* Queues an append or a flush. May call done() of a command of TPS_DURABILITY_NONE. Thread: any,
 * one append at a time. */
void tps_log_writer_add (TpsLogWriter *writer, const TpsLogEntry *entry);

/* See tps_log_may_append(). */
gboolean tps_log_writer_may_add (TpsLogWriter *writer, gsize n_bytes, GError **error);

/* Takes a step. FALSE: there was no step to take. Sets `wake_ns` to the time at which there may be
 * a step even if no entry is added (G_MAXINT64: never). Thread: any. */
gboolean tps_log_writer_step (TpsLogWriter *writer, gint64 now_ns, gint64 *wake_ns);

/* Takes steps until the writer is closed and all work is complete. */
void tps_log_writer_run (TpsLogWriter *writer);
/* Closes the writer: staged records are written, and no entry may be added. Thread: any. */
void tps_log_writer_close (TpsLogWriter *writer);

/* ---- of a log -------------------------------------------------------------------------------- */

/* For tests: as tps_log_open(), but starts no threads. The caller must do their work with
 * tps_log_writer_step (tps_log_get_writer (log), ...). */
TpsLog *tps_log_open_stepped (TpsDisk *disk, const gchar *path, const TpsLogOptions *options,
                              TpsLogFound *found, GError **error);

/* Return the writer and the folder of a log. Borrowed. */
TpsLogWriter *tps_log_get_writer (TpsLog *log);
const TpsLogFolder *tps_log_get_folder (const TpsLog *log);

/* Returns the segments with durable records, an array of TpsSegmentInfo. The caller frees it with
 * g_array_unref(). Thread: any. */
GArray *tps_log_dup_segments (TpsLog *log);

G_END_DECLS

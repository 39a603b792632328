/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The log of a server: its commands in LSN order, in segments of a folder. FORMAT.md describes the
 * format.
 *
 *   tps_log_open()                 locks the folder, finds the log's end, cuts off a torn tail
 *     -> tps_log_cursor_next()     the commands since the last snapshot are applied again
 *     -> tps_log_may_append()      before a command is admitted: checks the room and the disk
 *     -> tps_log_append()          when it has taken effect, in LSN order
 *     -> done()                    the command may be answered and its memory released
 *   tps_log_close()                writes the rest, and reports answered commands that may not
 *                                  be on the disk
 *
 * append() queues a reference and returns. Two threads of the log share the rest. While one writes
 * a group of commands and syncs it, the other copies the next group into staging memory and
 * computes its checksums. A group consists of all queued records, up to the size of a staging
 * buffer (there are two, `max_staged_bytes` together). Every write is synced before the next one
 * begins, so a power cut can damage only the last group. A torn group was never acknowledged.
 *
 * Failures. A failed write or sync is final: all later appends end with its error, and the server
 * must not change its state any more. A full disk is not final: appended commands wait for room,
 * tps_log_may_append() refuses, and the log tries again every second.
 */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/base/durability.h"
#include "runtime/server/command.h"
#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

typedef struct TpsLog TpsLog;
typedef struct TpsLogCursor TpsLogCursor;

/* Zero = the default. */
typedef struct
{
  gint64 segment_bytes;   /* of a segment's file, 256 MiB; must be a multiple of TPS_DISK_BLOCK */
  gsize max_staged_bytes; /* 32 MiB */
  gint64 interval_ns;     /* 100 ms */
  /* The LSN of the first record that the caller needs: one more than that of the snapshot, or 1
   * without a snapshot. A log that begins after this record, or ends before `first_lsn` - 1, is
   * refused. A new log begins with this LSN. */
  gint64 first_lsn;
  /* The id of the log, TPS_LOG_ID_DIGITS hexadecimal digits: a new log gets it, and a log with a
   * different one is refused. NULL: a new log gets a random id. Borrowed for the call. */
  const gchar *id;
  gboolean must_exist; /* a missing log is refused */
  /* Optional: called when the first group of a segment is on the disk, before its commands end, and
   * when a log with records is closed. A log that ends before `durable_lsn` later is incomplete.
   * Errors: RESOURCE_EXHAUSTED (the call is repeated after the next group), others (final, as those
   * of a write). Thread: those of the log and of tps_log_close(), one at a time. */
  gboolean (*reached) (gpointer user_data, gint64 durable_lsn, GError **error);
  gpointer user_data;
  TpsBufferPool *pool; /* borrowed; for reading; the default pool */
} TpsLogOptions;

/* The state that tps_log_open() found. */
typedef struct
{
  gint64 first_lsn;     /* of the oldest record; first_lsn == last_lsn + 1: there is none */
  gint64 last_lsn;      /* of the newest record: the next append must have last_lsn + 1 */
  gint64 n_bytes;       /* the used bytes of all segments */
  gint64 n_torn_bytes;  /* cut off: bytes of commands that were never acknowledged */
  gchar *torn_position; /* "00000000000000000007.log at 8192"; NULL: nothing was torn */
} TpsLogFound;

void tps_log_found_clear (TpsLogFound *found);

/* Opens the log in the folder `path`, or makes an empty one, and starts its threads. `disk` is
 * borrowed; `options` and `found` may be NULL. Errors name the file, the offset, the LSN and a
 * remedy:
 *   UNAVAILABLE         another process uses the folder
 *   INVALID_ARGUMENT    the folder is not that of a log, or that of a log with a different id or
 *                       version; or the log lacks records that `first_lsn` requires
 *   ABORTED             the log or a segment is missing, or an acknowledged record is damaged
 *   RESOURCE_EXHAUSTED  no room for a new log
 *   others              those of the disk */
TpsLog *tps_log_open (TpsDisk *disk, const gchar *path, const TpsLogOptions *options,
                      TpsLogFound *found, GError **error);
/* Writes and syncs all appended records, ends all waiting entries (with an error, if the disk is
 * full or has failed), unlocks the folder, and frees the log. All cursors must have been freed.
 * FALSE: commands of INTERVAL that had ended without an error are not known to be on the disk.
 * Errors: INTERNAL or RESOURCE_EXHAUSTED (the last write failed; names the LSNs and the reason). */
gboolean tps_log_close (TpsLog *log, GError **error);
/* As tps_log_close(), but without a result. */
void tps_log_free (TpsLog *log);

/* ---- appending ------------------------------------------------------------------------------- */

/* Returns TRUE if commands of `n_bytes` in all may be admitted. Must be called before the
 * admission, since a command that has an LSN must be logged. Errors: RESOURCE_EXHAUSTED with
 * retry_after_ms while the disk is full; after a failure, permanently, its error (usually
 * INTERNAL). Thread: any; takes a lock for a few instructions if tps_log_is_short(). */
gboolean tps_log_may_append (TpsLog *log, gsize n_bytes, GError **error);

/* Returns TRUE if the disk is full or has failed, so that commands may be refused. On a full disk
 * short commands may still fit. Thread: any; takes no lock. */
gboolean tps_log_is_short (TpsLog *log);

/* Called when an append or a flush has ended. `lsn` is that of the command; for a flush, the
 * durable LSN. `error` (borrowed) is NULL, or the reason why the command is not durable. Called
 * without a lock, by a thread of the log; for NONE possibly within append(). Must not block. Calls
 * for appends of one durability are made in LSN order, one at a time. */
typedef void (*TpsLogDone) (gpointer user_data, gint64 lsn, const GError *error);

/* Queues `command`, whose LSN must be one more than that of the previous append. The command is
 * borrowed until done(), which is called once, even after failures:
 *   NONE      at once; only the LSN of the command is recorded: readers see a hole
 *   INTERVAL  normally as soon as the record has been copied. If a command that ended at least
 *             `interval_ns` ago is still not on the disk: when this record and all earlier ones are
 *             on the disk. A crash therefore undoes only commands that ended within the last
 *             interval
 *   COMMIT    when the record is on the disk
 * Thread: one call at a time. */
void tps_log_append (TpsLog *log, const TpsCommand *command, TpsDurability durability,
                     TpsLogDone done, gpointer user_data);

/* Calls `done` when all commands that have already been appended are durable. Thread: any. */
void tps_log_flush (TpsLog *log, TpsLogDone done, gpointer user_data);

/* Makes further appends of INTERVAL end as those of COMMIT, on the disk. Thread: any. */
void tps_log_end_intervals (TpsLog *log);

/* Returns the durable LSN: all commands up to it are on the disk. Thread: any. */
gint64 tps_log_get_durable_lsn (TpsLog *log);

/* Sets a function that a thread of the log calls, without a lock, after each write that may have
 * made more records durable. The calls end when the log is closed. The function must not block. It
 * must be set before the first append. */
void tps_log_set_advanced (TpsLog *log, void (*advanced) (gpointer user_data, gint64 durable_lsn),
                           gpointer user_data);

/* Returns the identity of the log: 32 lower-case hexadecimal digits, generated when its folder was
 * made. The caller frees the text with g_free(). Thread: any. */
gchar *tps_log_dup_id (TpsLog *log);

/* Returns the LSN of the oldest record that is kept; or else of the next. Thread: any. */
gint64 tps_log_get_first_lsn (TpsLog *log);

/* Returns the number of bytes written since tps_log_open(), to decide whether the log has grown
 * enough for a snapshot. Thread: any. */
gint64 tps_log_get_written_bytes (TpsLog *log);

/* Sets the number of segments with durable records, and the number of bytes used in them, not
 * counting reserved room. Thread: any. */
void tps_log_get_size (TpsLog *log, guint *n_segments, gint64 *n_bytes);

/* Removes the segments that hold only records below `lsn`, except the newest segment. Errors: those
 * of the disk. Blocks. Thread: any. */
gboolean tps_log_delete_before (TpsLog *log, gint64 lsn, GError **error);

/* ---- reading --------------------------------------------------------------------------------- */

/* A record that has been read. Borrowed until the next call with the cursor. */
typedef struct
{
  gint64 lsn;
  TpsMoment moment;
  /* NULL: a hole, left by a command of TPS_DURABILITY_NONE. Values are views into the cursor's
   * memory. References to values with an owner (TpsTensor) may be taken and held for longer. */
  const TpsCommand *command;
  gsize n_bytes; /* in the log */
} TpsLogRecord;

/* Makes a cursor that reads durable records from `lsn` on. The caller owns the cursor. Errors:
 * NOT_FOUND if the record of `lsn` was deleted (the message names the first LSN that is kept) or
 * `lsn` is beyond the durable LSN + 1. Thread: any; a cursor must be used by one thread at a
 * time. */
TpsLogCursor *tps_log_cursor_new (TpsLog *log, gint64 lsn, GError **error);
void tps_log_cursor_free (TpsLogCursor *cursor);

/* Reads the next record. If all durable records have been read, `record->lsn` is 0; there may be
 * more records later. Memory: 8 MiB, or the length of the longest record, and 16 MiB for reading
 * ahead. Blocks. Errors: ABORTED (damaged), NOT_FOUND (deleted), RESOURCE_EXHAUSTED (no memory for
 * the record), those of the disk. */
gboolean tps_log_cursor_next (TpsLogCursor *cursor, TpsLogRecord *record, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsLogCursor, tps_log_cursor_free)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLogFound, tps_log_found_clear)

G_END_DECLS

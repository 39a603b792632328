/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of the lasting state of a server: written while requests continue, and read when a
 * server starts.
 *
 *   write     LSN up to which all commands have ended -> tables, model, push ids -> flush of the
 *             log -> manifest -> old ones deleted
 *   restore   newest manifest -> tables, model, push ids; the caller then replays the log after
 *             info.lsn, in the order of the LSNs, by tps_table_store_replay() and
 *             tps_model_server_replay()
 *
 * A snapshot is fuzzy: a row is stored as it was at some moment while the snapshot was written,
 * with the LSN of its last change. Replay skips the changes that a row already contains, so the
 * result has the bits of a server that never stopped. Two obligations follow:
 *
 *   - the log must keep every record after `lsn` of the oldest snapshot that must stay usable;
 *   - the log must hold every record up to `end_lsn` on the disk before the manifest is written,
 *     since the snapshot may contain effects of these commands. tps_snapshot_write() calls `flush`
 *     for this purpose. At recovery the log must reach `end_lsn`; if it ends earlier, the caller
 *     must refuse the snapshot.
 *
 * A snapshot contains the effects of all commands up to `lsn`. It contains push windows and floors,
 * so that push ids survive the deletion of the log's segments. It does not contain open rounds
 * (averaging, updates of a model).
 *
 * Files: FORMAT.md. All files are safetensors, apart from the manifest, which is JSON.
 */

#pragma once

#include "runtime/server/log/log_format.h"
#include "runtime/server/model/model_server.h"
#include "runtime/server/sequencer.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDisk *disk;       /* borrowed */
  const gchar *folder; /* of all snapshots, e.g. "snapshots"; made if it is missing */

  /* The id of the data directory: it is written to each snapshot, and a snapshot with a different
   * one is refused. NULL = none. Borrowed. */
  const gchar *history;
  guint32 epoch; /* of the data directory: a snapshot with a higher one is refused */

  /* Borrowed. The sequencer is that of `tables` and `model`, and must have an observer. `tables` or
   * `model` may be NULL. */
  TpsSequencer *sequencer;
  TpsTableStore *tables; /* with `keeps_row_lsns` */
  TpsModelServer *model;

  guint keep; /* the number of newest snapshots that are kept; 0 = 2 */
  /* The maximum number of increments of a table. If the newest snapshot has files of a table, only
   * an increment is written: the rows that have changed since. The table is written whole if it
   * has this many increments, or if all increments would exceed half of its size. 0 = tables are
   * always written whole. */
  guint max_increments;

  /* Blocks until the log holds every command up to `lsn` on the disk. NULL: there is no log. After
   * an error, the snapshot fails with this error. */
  gboolean (*flush) (gpointer user_data, gint64 lsn, GError **error);
  /* Returns the time of the last command that has been logged. NULL: it is not known. */
  gint64 (*get_time_ms) (gpointer user_data);
  /* Returns TRUE to end the snapshot; called every few milliseconds. NULL: it is never ended. */
  gboolean (*is_cancelled) (gpointer user_data);
  /* Optional: called after every 4 MiB or more, with the number of complete bytes and the total,
   * for logs. */
  void (*progress) (gpointer user_data, guint64 n_done, guint64 n_bytes);
  /* For tests: called after each read under a lock for which lookups or pushes may wait, with the
   * length of the read. */
  void (*held) (gpointer user_data, gsize n_bytes);
  gpointer user_data;
} TpsSnapshotOptions;

#define TPS_SNAPSHOT_MAX_NAME 40

/* The folder of all snapshots in a data directory. */
#define TPS_SNAPSHOT_FOLDER "snapshots"

/* A snapshot on the disk. */
typedef struct
{
  gchar name[TPS_SNAPSHOT_MAX_NAME + 1]; /* of the snapshot's folder; "" = there is no snapshot */
  /* the log is replayed from the record after this one; earlier records may be deleted */
  gint64 lsn;
  gint64 end_lsn; /* the largest LSN of a command whose effects may be contained */
  gchar history[TPS_LOG_ID_DIGITS + 1]; /* of its data directory; "" = none */
  TpsMoment moment;                     /* of the newest of these commands, or a later one */
  /* `lsn` of the oldest snapshot that is kept; the log must keep the records after it */
  gint64 oldest_lsn;
  guint n_tables;
  guint n_increments; /* of all tables; 0 = each table is one file that other programs can read */
  gboolean has_model;
  guint64 n_bytes; /* of its files */
} TpsSnapshotInfo;

/* Writes a snapshot and sets `info`. If there is a snapshot of the same LSN already, sets `info` to
 * the newest snapshot and writes nothing. Deletes old snapshots; one that cannot be deleted stays,
 * which is not an error. On failure the folder is unchanged; if the disk cannot delete the
 * incomplete snapshot, the next call does so. Needs at most 32 MiB of memory, and one bit for each
 * row of a table.
 *
 * Blocks for as long as the disk takes, so it needs a thread of its own. Lookups and pushes
 * continue. They wait at most for the copy of TPS_TABLE_QUIET_BYTES (or of one row, if that is
 * longer), or for one piece of the push window, TPS_PUSH_EXPORT_BYTES and the pushes of one client.
 *
 * If the folder has a snapshot that tps_snapshot_find() refuses, or one that is newer than the
 * state of the server, the function fails and deletes nothing.
 *
 * Errors: those of the disk and of `flush`, ABORTED (cancelled, or such a snapshot),
 * INVALID_ARGUMENT (tables without row LSNs). Thread: any, one call at a time for a folder. */
gboolean tps_snapshot_write (const TpsSnapshotOptions *options, TpsSnapshotInfo *info,
                             GError **error);

/* Deletes all snapshots without a manifest in `folder`, as tps_snapshot_write() does before it
 * begins. Must not be called while a snapshot is written. A snapshot stays, and the function fails,
 * if it cannot be deleted, or if the disk cannot tell whether it has a manifest. */
gboolean tps_snapshot_delete_incomplete (TpsDisk *disk, const gchar *folder, GError **error);

/* Finds the newest snapshot with a manifest and sets `info`, with an empty name if there is none.
 * The manifests of all snapshots are checked, but the files are not read. Errors: those of the
 * disk, ABORTED (a snapshot with a different history or a wrong name, or a manifest that is damaged
 * or has a different version; the message names the file and the offset). */
gboolean tps_snapshot_find (const TpsSnapshotOptions *options, TpsSnapshotInfo *info,
                            GError **error);

/* Reads snapshot `info` (from tps_snapshot_find()) into an empty store and an empty model server,
 * and sets the LSN of the sequencer to info->lsn. No request may be served before the log has been
 * replayed. After a failure the objects are incomplete and must be freed. Errors: those of the
 * disk, ABORTED (damaged, truncated or missing files, a different version: the message names the
 * file and the offset), RESOURCE_EXHAUSTED (the tables do not fit), INVALID_ARGUMENT (the snapshot
 * contains tables and `tables` is NULL, or is of a server with a model server and `model` is
 * NULL). */
gboolean tps_snapshot_restore (const TpsSnapshotOptions *options, const TpsSnapshotInfo *info,
                               GError **error);

/* ---- snapshots of other servers -------------------------------------------------------------- */

/* Finds a snapshot without its log, such as a copy. `path` must be that of the snapshot's folder,
 * of a folder of snapshots, or of a data directory. If there are several snapshots, the newest one
 * is taken. Returns the snapshot's folder, which the caller frees, and sets `info`, whose name is
 * truncated to TPS_SNAPSHOT_MAX_NAME. Errors: NOT_FOUND (there is none), those of
 * tps_snapshot_find(). */
gchar *tps_snapshot_locate (TpsDisk *disk, const gchar *path, TpsSnapshotInfo *info,
                            GError **error);

/* Reads the snapshot in `folder` into an empty store and an empty model server, as
 * tps_snapshot_restore() does, but without a log: the sequencer's LSN becomes end_lsn, and rows
 * stay as they were copied. If commands took effect while the snapshot was written, rows are of
 * different moments between lsn and end_lsn. Errors: those of tps_snapshot_restore(). */
gboolean tps_snapshot_restore_copy (const TpsSnapshotOptions *options, const gchar *folder,
                                    GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Snapshots of the lasting state of a server: written while requests go on, and read back when a
 * server starts.
 *
 *   write     LSN up to which all commands have ended -> tables, model, push ids -> flush of the
 *             log -> manifest -> old ones deleted
 *   restore   newest manifest -> tables, model, push ids; the caller then replays the log after
 *             info.lsn, in the order of the LSNs, by tps_table_store_replay() and
 *             tps_model_server_replay()
 *
 * A snapshot is fuzzy: a row is stored as it was at some moment while the snapshot was written,
 * with the LSN of its last change. Replay skips the changes that a row already has, so the result
 * has the bits of a server that never stopped. Two obligations follow:
 *
 *   - the log must keep every record after `lsn` of the oldest snapshot that is to be usable;
 *   - the log must hold every record up to `end_lsn` on the disk before the manifest is written,
 *     since the snapshot may contain effects of these commands. tps_snapshot_write() calls `flush`
 *     for that. At recovery the log must reach `end_lsn`; if it ends before, the caller must refuse
 *     the snapshot.
 *
 * Every LSN up to `lsn` is contained. Push windows and floors are part of the snapshot, so that the
 * ids of pushes survive the deletion of the log's segments. Rounds that are open (averaging,
 * updates of a model) are not part of it.
 *
 * Files: FORMAT.md. All files are safetensors, apart from the manifest, which is JSON.
 */

#pragma once

#include "runtime/server/log/disk.h"
#include "runtime/server/model/model_server.h"
#include "runtime/server/sequencer.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDisk *disk;       /* borrowed */
  const gchar *folder; /* of all snapshots, e.g. "snapshots"; made if it is missing */

  /* Borrowed. The sequencer is that of `tables` and `model`, and has an observer. Either of these
   * may be NULL. */
  TpsSequencer *sequencer;
  TpsTableStore *tables; /* with `keeps_row_lsns` */
  TpsModelServer *model;

  guint keep; /* the newest snapshots that stay; 0 = 2 */
  /* A table of which the newest snapshot has a file is written as an increment to it: the rows that
   * have changed since. So many at most, then it is written whole, as it is when its increments
   * would take more than half of it. 0 = always whole. */
  guint max_increments;

  /* Blocks until the log holds every command up to `lsn` on the disk. NULL: there is no log.
   * Errors: any; the snapshot fails. */
  gboolean (*flush) (gpointer user_data, gint64 lsn, GError **error);
  /* Whether to give up: asked every few milliseconds. NULL: never. */
  gboolean (*is_cancelled) (gpointer user_data);
  /* Called at least every 4 MiB with the bytes that are done and those that there are, for logs.
   * NULL: nobody is told. */
  void (*progress) (gpointer user_data, guint64 n_done, guint64 n_bytes);
  /* For tests: called after each piece that was read under a lock which lookups or pushes may wait
   * for, with its length. */
  void (*held) (gpointer user_data, gsize n_bytes);
  gpointer user_data;
} TpsSnapshotOptions;

#define TPS_SNAPSHOT_MAX_NAME 40

/* Of all snapshots in a data directory. */
#define TPS_SNAPSHOT_FOLDER "snapshots"

/* A snapshot on the disk. */
typedef struct
{
  gchar name[TPS_SNAPSHOT_MAX_NAME + 1]; /* of its folder in `folder`; "" = there is none */
  /* the log is replayed from the record after this one; its records up to here may be deleted */
  gint64 lsn;
  gint64 end_lsn; /* the greatest LSN of a command that may have left a trace */
  /* `lsn` of the oldest snapshot that is kept; the log must keep the records after it */
  gint64 oldest_lsn;
  guint n_tables;
  guint n_increments; /* files; 0 = each table is one file that others can read */
  gboolean has_model;
  guint64 n_bytes; /* of its files */
} TpsSnapshotInfo;

/* Writes a snapshot. Blocks for as long as the disk takes, so it needs a thread of its own; one
 * call at a time for a folder. Lookups and pushes go on: none waits for more than the copy of
 * TPS_TABLE_QUIET_BYTES (or of one row, if that is longer), or for one piece of the push window,
 * TPS_PUSH_EXPORT_BYTES and the pushes of one client. Takes at most 32 MiB, and a bit for each row
 * of a table. `info` is set on success; an old snapshot that cannot be deleted is no failure, and
 * stays. On failure the folder holds what it held before, apart from a part, where the disk does
 * not delete it, that the next call deletes. Errors: those of the disk and of `flush`, ABORTED
 * (cancelled), INVALID_ARGUMENT (tables without row LSNs). */
gboolean tps_snapshot_write (const TpsSnapshotOptions *options, TpsSnapshotInfo *info,
                             GError **error);

/* The newest snapshot that has a manifest: the whole manifest is checked, the files are not read.
 * Sets `info` with an empty name if there is none. Errors: those of the disk, ABORTED (a manifest
 * that is damaged or of another version; the file and the offset are named). */
gboolean tps_snapshot_find (const TpsSnapshotOptions *options, TpsSnapshotInfo *info,
                            GError **error);

/* Reads snapshot `info` (from tps_snapshot_find()) into a store and a model server that are empty,
 * and sets the LSN of the sequencer to info->lsn. No request may be served before the log has been
 * replayed. A failure leaves the objects half filled: they must be freed. Errors: those of the
 * disk, ABORTED (damaged, truncated or missing files, another version: the message names the file
 * and the offset), RESOURCE_EXHAUSTED (the tables do not fit), INVALID_ARGUMENT (the snapshot holds
 * a model and `model` is NULL). */
gboolean tps_snapshot_restore (const TpsSnapshotOptions *options, const TpsSnapshotInfo *info,
                               GError **error);

/* ---- snapshots of others --------------------------------------------------------------------- */

/* Finds a snapshot without its log, such as a copy: `path` is its folder, a folder of snapshots, or
 * a data directory; of several the newest is taken. Returns its folder, which the caller frees, and
 * sets `info`, whose name is cut if it is longer. Errors: NOT_FOUND (there is none), those of
 * tps_snapshot_find(). */
gchar *tps_snapshot_locate (TpsDisk *disk, const gchar *path, TpsSnapshotInfo *info,
                            GError **error);

/* Reads the snapshot in `folder` into a store and a model server that are empty, as
 * tps_snapshot_restore() does, without a log: the sequencer's LSN becomes end_lsn, and rows stay as
 * they were when they were copied. If commands took effect meanwhile, rows are of different moments
 * between lsn and end_lsn. Errors: those of tps_snapshot_restore(). */
gboolean tps_snapshot_restore_copy (const TpsSnapshotOptions *options, const gchar *folder,
                                    GError **error);

G_END_DECLS

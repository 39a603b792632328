/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The structure of a TpsDurable. Internal to the files durable*.c of this folder. */

#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/base/sync.h"
#include "runtime/server/durable/data_folder.h"
#include "runtime/server/durable/durable.h"
#include "runtime/server/durable/durable_numbers.h"
#include "runtime/server/durable/recovery.h"
#include "runtime/server/durable/snapshot_thread.h"

G_BEGIN_DECLS

struct TpsDurable
{
  TpsDurability durability;
  TpsDisk *disk;
  gboolean owns_disk;
  TpsDataFolder *folder;
  TpsLog *log;
  gchar *log_id;
  TpsLogFeed *feed; /* NULL before the start */
  TpsDurableTargets targets;
  TpsDurableNumbers numbers;
  guint collector; /* of numbers, from start() to stop(); 0 = none */
  /* The snapshot that the recovery begins with, later the newest one. Changed by the thread of
   * snapshots, under the lock. */
  TpsSnapshotInfo snapshot;
  atomic_bool is_writing_snapshot;
  gchar *restore_from;  /* the folder of the snapshot that the server begins with; NULL = none */
  gchar *import_folder; /* NULL = none */
  guint snapshot_increments;
  guint keep_snapshots;
  TpsRecovery recovery;
  TpsSnapshotThread snapshots; /* runs on the thread of the recovery, after it */
  atomic_bool stops;
  gboolean has_thread; /* only the thread that calls start() and stop() reads and changes it */
  pthread_t thread;

  /* Changed under the lock, read without it. FULL and READ_ONLY repeat the last result of
   * tps_log_may_append(). */
  atomic_int phase;
  TpsMutex lock;
  TpsCond changed;
  GError *error; /* of the recovery, guarded by the lock */
};

/* -- durable_phase.c -- */

/* Returns the current phase. Takes no lock. Thread: any. */
static inline TpsDurablePhase
tps_durable_get_phase (TpsDurable *durable)
{
  return (TpsDurablePhase) atomic_load_explicit (&durable->phase, memory_order_acquire);
}

/* Enters `phase` if it may follow the current phase; otherwise does nothing. `error` (borrowed;
 * NULL = none) is the reason; FAILED must have one. Thread: any. */
void tps_durable_enter (TpsDurable *durable, TpsDurablePhase phase, const GError *error);

/* Returns TRUE if the log has room for `n_bytes` more. Enters the phase FULL, READ_ONLY or LIVE
 * according to the result. The recovery must have ended. Errors: RESOURCE_EXHAUSTED (full),
 * UNAVAILABLE (read-only). */
gboolean tps_durable_check_log (TpsDurable *durable, gsize n_bytes, GError **error);

/* Returns the error, UNAVAILABLE, of requests after `error` has made the server read-only. The
 * caller frees it. */
GError *tps_durable_new_read_only_error (const GError *error);

/* -- durable_snapshots.c -- */

/* Sets up automatic snapshots; tps_snapshot_thread_begin() begins them. */
void tps_durable_init_snapshots (TpsDurable *durable, const TpsDurableOptions *options);

/* Returns the options of the next snapshot or restoration, which borrow from `durable`. */
TpsSnapshotOptions tps_durable_get_snapshot_options (TpsDurable *durable);

/* Writes a snapshot. Then deletes old snapshots, and the part of the log that is no longer needed.
 * Blocks. Errors: those of tps_snapshot_write(). Thread: only that of snapshots. */
gboolean tps_durable_write_snapshot (TpsDurable *durable, gboolean is_incremental, GError **error);

/* As tps_durable_write_snapshot(), for a state that the log does not contain. The data directory
 * needs this snapshot from now on, or a later one. */
gboolean tps_durable_write_needed_snapshot (TpsDurable *durable, gboolean is_incremental,
                                            GError **error);

/* Deletes the remains of snapshots that a crash has left. They may occupy the room that the log
 * needs on a full disk. A failure is traced. Thread: only that of snapshots. */
void tps_durable_delete_incomplete (TpsDurable *durable);

/* -- durable_start.c -- */

/* Finds the newest snapshot and opens the log that follows it. Blocks. Errors: those of
 * tps_log_open(), tps_snapshot_find() and tps_snapshot_locate(); ABORTED (the log ends before the
 * snapshot). */
gboolean tps_durable_open_state (TpsDurable *durable, const TpsDurableOptions *options,
                                 GError **error);

G_END_DECLS

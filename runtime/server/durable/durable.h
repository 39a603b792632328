/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The durability of a server's state: a data directory with a log of its commands.
 *
 *   tps_durable_new()      opens the directory and its log; the sequencer is made with the
 *                          functions below as options
 *   tps_durable_start()    a thread applies the log again to tables and model, then the server is
 *                          live
 *   command -> observe()   the record is appended to the log; when the record has the durability of
 *                          the command, the log releases it, and the request is answered
 *   snapshot               all state in files, so that the log before it can be deleted and
 *                          restarts are short
 *   tps_durable_stop()     no more recovery or snapshot; tables and model may be freed when their
 *                          calls have ended
 *   tps_durable_close()    writes the rest of the log
 *
 * Phases:
 *
 *   recovering -> live       the log has been applied
 *   recovering -> failed     a record is damaged, or cannot be applied: all requests are refused
 *   live <-> full            no room on the disk: changes are refused with RESOURCE_EXHAUSTED
 *                            before they have an effect, and lookups continue; the log tries again
 *                            every second
 *   live, full -> read-only  a write or sync failed. The contents of the disk are not known until
 *                            it is read again, so changes are refused with UNAVAILABLE until a
 *                            restart, and lookups continue
 *
 * Thread: any, unless stated otherwise.
 */

#pragma once

#include "runtime/base/counters.h"
#include "runtime/base/durability.h"
#include "runtime/server/log/faulty_disk.h"
#include "runtime/server/log/log_feed.h"
#include "runtime/server/model/model_server.h"
#include "runtime/server/sequencer.h"
#include "runtime/server/snapshot/snapshot.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

typedef struct TpsDurable TpsDurable;

/* The phases. The numbers are part of the wire protocol. */
typedef enum
{
  TPS_DURABLE_RECOVERING = 1,
  TPS_DURABLE_LIVE = 2,
  TPS_DURABLE_FULL = 3,
  TPS_DURABLE_READ_ONLY = 4,
  TPS_DURABLE_FAILED = 5,
} TpsDurablePhase;

/* Returns "recovering", "live", "full", "read-only" or "failed"; static. */
const gchar *tps_durable_phase_name (TpsDurablePhase phase);

/* A value of `snapshot_log_bytes`. */
#define TPS_DURABLE_NEVER G_MAXSIZE

typedef struct
{
  const gchar *folder;      /* the data directory; NULL = none, for servers without a TpsDurable */
  TpsDurability durability; /* of the model, and of tables that set none; 0 = COMMIT */
  gint64 interval_ns;       /* 0 = TPS_DURABILITY_INTERVAL_NS */
  TpsDisk *disk;            /* borrowed; NULL = tps_disk_new_posix() */
  TpsFaultPlan *faults;     /* injected into that disk; borrowed; NULL = none */
  TpsLogOptions log;        /* `interval_ns` and `first_lsn` are not read */
  gint64 (*get_time_ms) (void); /* of records, since 1970 in UTC; NULL = the system's clock */
  /* Automatic snapshots, while the state changes: one is due when this time has passed since the
   * start of the last one, or when the log has grown by this number of bytes since then. */
  gint64 snapshot_interval_ns; /* 0 = not by time */
  gsize snapshot_log_bytes;    /* 0 = 4 GiB; TPS_DURABLE_NEVER = not by size */
  guint snapshot_increments;   /* TpsSnapshotOptions.max_increments of these; 0 = they are whole */
  /* the number of newest snapshots that are kept, with the log that they need; 0 = 2 */
  guint keep_snapshots;
  /* The path of a snapshot (tps_snapshot_locate()) with which the server begins if `folder` has no
   * state yet. NULL = none. */
  const gchar *restore_from;
  /* tps_durable_restore() reads only below this folder; NULL = it refuses all requests. */
  const gchar *import_folder;
} TpsDurableOptions;

/* Opens the directory and the log, and cuts off an incomplete group that a crash left at the end of
 * the log. Copies `options`, whose `folder` must not be NULL. The caller owns the object. Blocks.
 * Errors: those of tps_data_folder_open(), tps_log_open(), tps_snapshot_find() and
 * tps_snapshot_locate(); ABORTED (the log ends before the snapshot). */
TpsDurable *tps_durable_new (const TpsDurableOptions *options, GError **error);

/* Returns the durability of tables that set none; never 0. */
TpsDurability tps_durable_get_durability (const TpsDurable *durable);

/* Fills in `observe`, `may_admit` and `user_data`. */
void tps_durable_init_sequencer (TpsDurable *durable, TpsSequencerOptions *options);

/* The objects that the recovery fills, and others that the TpsDurable uses. All are borrowed until
 * tps_durable_stop(), unless stated otherwise. The sequencer, the tables and the model must be
 * empty; `tables` and `model` may be NULL if the snapshot and the log have no data for them. */
typedef struct
{
  TpsSequencer *sequencer;
  TpsTableStore *tables;
  TpsModelServer *model;
  TpsWorkerPool *workers; /* read the log for followers; may be freed after tps_durable_free() */
  TpsCounters *counters;  /* of the log and of snapshots; a reference is taken; NULL = nothing */
  TpsBudget *replies;     /* is charged for records that followers read; NULL = no limit */
  /* Optional: called once, by the thread of the recovery, when all state is restored and before the
   * first call is served. */
  void (*restored) (gpointer user_data);
  /* Optional: called once, when the recovery has ended, by its thread. `error` is borrowed; NULL:
   * the server is live. */
  void (*recovered) (gpointer user_data, const GError *error);
  gpointer user_data;
} TpsDurableTargets;

/* Begins the recovery on a thread of its own. Copies `targets`. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_durable_start (TpsDurable *durable, const TpsDurableTargets *targets, GError **error);

/* Waits until the recovery has ended. FALSE: it has failed, with its error. */
gboolean tps_durable_wait (TpsDurable *durable, GError **error);

/* Returns TRUE if requests may be served at all; the check then takes no lock. Errors: UNAVAILABLE,
 * with retry_after_ms while the server recovers. */
gboolean tps_durable_check (TpsDurable *durable, GError **error);

typedef struct
{
  TpsDurablePhase phase;
  /* A comment with a slash gives two meanings: the first applies during the recovery and after a
   * failed recovery, and the second after a recovery that has succeeded. */
  gint64 lsn;          /* of the last command that was applied again / that is on the disk */
  gint64 end_lsn;      /* of the last command to be applied again / that was admitted */
  gint64 n_bytes_done; /* of snapshot and log, restored / of the log, written since the start */
  gint64 n_bytes;      /* of snapshot and log, to be restored in all / 0 */
  gint64 remaining_ms; /* an estimate, of the recovery; -1 = there is none */
  gchar reason[512];   /* of FULL and READ_ONLY, with the remedy; otherwise empty */
} TpsDurableStatus;

void tps_durable_get_status (TpsDurable *durable, TpsDurableStatus *status);

/* Sets `info` to the newest snapshot, whose name is empty if there is none, and `is_writing` to
 * TRUE if a snapshot is being written. */
void tps_durable_get_snapshot (TpsDurable *durable, TpsSnapshotInfo *info, gboolean *is_writing);

/* Calls `done`, from any thread, when all commands that were answered before this call are on the
 * disk. Must not be called while the server recovers. */
void tps_durable_flush (TpsDurable *durable, TpsLogDone done, gpointer user_data);

/* Prepares the end of the process, so that a delay of the rest of the stop loses nothing: further
 * commands of durability INTERVAL are answered when they are on the disk, and `done` is called when
 * all commands that were answered before are. May be called while the server recovers, too: no
 * command has then been answered. Thread: any. */
void tps_durable_prepare_stop (TpsDurable *durable, TpsLogDone done, gpointer user_data);

/* ---- followers of the log -------------------------------------------------------------------- */

/* Reads the log: see log_feed.h. Copies `request`. Errors of done(): those of tps_log_feed_read()
 * and tps_durable_check(). */
void tps_durable_read_log (TpsDurable *durable, const TpsLogFeedRequest *request);

/* Cancels the requests of `owner`. Must be called after tps_durable_start(). */
void tps_durable_drop_follower (TpsDurable *durable, gconstpointer owner);

/* Cancels all requests, and refuses later ones. Does not block. */
void tps_durable_drop_followers (TpsDurable *durable);

/* Returns the identity of the log: 32 hexadecimal digits. Borrowed. */
const gchar *tps_durable_get_log_id (const TpsDurable *durable);

/* Called when a snapshot has ended. `info` and `error` are borrowed; one of them is NULL. */
typedef void (*TpsDurableSnapshotDone) (gpointer user_data, const TpsSnapshotInfo *info,
                                        const GError *error);

/* Writes a snapshot on the thread of snapshots, while requests continue. Then deletes old
 * snapshots, and the part of the log that is no longer needed. If nothing has changed since the
 * newest snapshot, the result is the newest snapshot. If `is_incremental` is TRUE, tables may be
 * written as increments, as in automatic snapshots; otherwise all tables are written whole. Calls
 * `done` once, from any thread. Errors: those of tps_snapshot_write(), RESOURCE_EXHAUSTED with
 * retry_after_ms (the thread of snapshots is busy), those of tps_durable_check(). */
void tps_durable_snapshot (TpsDurable *durable, gboolean is_incremental,
                           TpsDurableSnapshotDone done, gpointer user_data);

/* The source of the rows of tables. */
typedef struct
{
  /* Below TpsDurableOptions.import_folder, without "." and "..". */
  const gchar *const *paths;
  guint n_paths;
  /* TRUE: the paths are snapshots (tps_snapshot_locate()), such as those of all shards. The tables
   * are those of `specs`; if `n_specs` is 0, all tables of the snapshots, each with the
   * specification in the first snapshot that has it. FALSE: the paths are files, and there must be
   * one spec (see tps_table_import()). */
  gboolean are_snapshots;
  const TpsTableSpec *specs;
  guint n_specs;
  /* the name of the tensor in files of other programs: see TpsTableImport; may be NULL */
  const gchar *tensor;
  /* The tenant for which the tables count, whatever the specifications say; NULL = none. */
  const gchar *tenant;
} TpsTableSource;

/* Makes the tables of `source`, all or none, in the host's memory. The server must not have them
 * yet. They may be of any shard and dtype, and keep the state of their optimizers if it fits. They
 * are known and durable when `done` is called with the snapshot that contains them. The work runs
 * on the thread of snapshots; `source` is borrowed until `done`. Push ids and models are not read.
 *
 * Files may be hostile: the memory that they need is charged to the budget of tables. Errors:
 * PERMISSION_DENIED (no import folder), INVALID_ARGUMENT (paths; a mismatch of contents),
 * ALREADY_EXISTS (a table), NOT_FOUND, RESOURCE_EXHAUSTED, ABORTED (damaged files), and those of
 * tps_durable_snapshot(). */
void tps_durable_restore (TpsDurable *durable, const TpsTableSource *source,
                          TpsDurableSnapshotDone done, gpointer user_data);

/* Ends the current recovery or snapshot, and waits for its thread. May be called again. */
void tps_durable_stop (TpsDurable *durable);
/* Calls tps_durable_stop(), writes and syncs all appended records, unlocks the directory, and frees
 * the object. The sequencer must not admit commands any more. `durable` may be NULL. FALSE: changes
 * of durability INTERVAL that were answered are not known to be on the disk; the event
 * last_write_failed also reports this loss. Errors: those of tps_log_close(). */
gboolean tps_durable_close (TpsDurable *durable, GError **error);
/* As tps_durable_close(), but without a result. */
void tps_durable_free (TpsDurable *durable);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDurable, tps_durable_free)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The start goes from the state in a data directory to a live server:
 *
 *   open_state()   finds the newest snapshot and opens the log after it. If the directory is empty
 *                  and the server begins with a copy of a snapshot, the log begins after the copy.
 *   start()        a thread restores the snapshot and applies the log again. Then the server is
 *                  live, and the thread writes snapshots.
 */

#include "runtime/server/durable/durable.h"

#include <pthread.h>
#include <stdatomic.h>

#include "runtime/base/counters.h"
#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/sync.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace.h"
#include "runtime/server/durable/data_folder.h"
#include "runtime/server/durable/snapshot_thread.h"
#include "runtime/server/snapshot/import.h"
#include "runtime/server/snapshot/snapshot_tables.h"
#include "runtime/server/tables/table_snapshot.h"

/* A struct that is all zero counts nothing. */
typedef struct
{
  TpsCounters *counters; /* a reference */
  TpsCounter *written_snapshots;
  TpsCounter *failed_snapshots;
  TpsGauge *snapshot_lsn;
  TpsGauge *snapshot_bytes;
  TpsGauge *snapshot_time;
  TpsGauge *snapshot_duration;
} TpsDurableNumbers;

/* What the recovery applies, and its progress. */
typedef struct
{
  gint64 first_lsn;        /* of the first record to apply; earlier ones have taken effect */
  gint64 last_lsn;         /* of the last one */
  gint64 n_bytes;          /* of the log, approximately */
  gint64 n_snapshot_bytes; /* of the snapshot, which is read before the log; 0 = there is none */
  gint64 started_ns;
  gint64 traced_ns; /* for the thread of the recovery */

  /* Read by other threads. */
  atomic_llong lsn, n_bytes_done; /* of the log */
  atomic_llong n_restored;        /* bytes of the snapshot */
} Recovery;

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
  Recovery recovery;
  TpsSnapshotThread snapshots; /* runs on the thread of the recovery, after it */
  gint64 (*get_time_ms) (void);
  atomic_llong time_ms; /* of the last command; changed by the recovery, and then by observe() */
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

static const TpsFamily phase_family = TPS_FAMILY (
    GAUGE, "durability_phase", "1 for the phase that the data directory is in, 0 for the others.",
    .labels = { "phase" });
static const TpsFamily admitted_lsn_family = TPS_FAMILY (
    GAUGE, "log_admitted_lsn",
    "LSN of the last admitted command; during recovery, of the last command that recovery "
    "will apply.");
static const TpsFamily durable_lsn_family = TPS_FAMILY (
    GAUGE, "log_durable_lsn",
    "LSN of the last command that is on the disk; during recovery, of the last command that has "
    "been applied.");
static const TpsFamily written_bytes_family = TPS_FAMILY (
    COUNTER, "log_written_bytes_total", "Bytes of the log that were written since the start.");
static const TpsFamily log_segments_family = TPS_FAMILY (GAUGE, "log_segments",
                                                         "Segments of the log that hold records.");
static const TpsFamily log_segment_bytes_family = TPS_FAMILY (
    GAUGE, "log_segment_bytes",
    "Bytes of the segments that hold records, not counting reserved room.");
static const TpsFamily recovery_bytes_family = TPS_FAMILY (
    GAUGE, "recovery_remaining_bytes",
    "Bytes of the snapshot and the log that recovery has yet to read.");
static const TpsFamily written_snapshots_family = TPS_FAMILY (COUNTER, "snapshots_written_total",
                                                              "Snapshots that were completed.");
static const TpsFamily failed_snapshots_family = TPS_FAMILY (
    COUNTER, "snapshots_failed_total", "Snapshots that could not be completed.");
static const TpsFamily snapshot_lsn_family = TPS_FAMILY (
    GAUGE, "snapshot_lsn",
    "LSN after which the log is applied to the newest snapshot; 0 if there is none.");
static const TpsFamily snapshot_bytes_family = TPS_FAMILY (
    GAUGE, "snapshot_bytes", "Bytes of the files of the newest snapshot.");
static const TpsFamily snapshot_time_family = TPS_FAMILY (
    GAUGE, "snapshot_timestamp_seconds",
    "Time at which this process last completed a snapshot, in seconds since 1970; 0 if none.",
    .n_decimals = 6);
static const TpsFamily snapshot_duration_family = TPS_FAMILY (
    GAUGE, "snapshot_duration_seconds",
    "Duration of the newest snapshot that this process completed.", .n_decimals = 9);

static TpsTraceEvent phase_changed = TPS_TRACE_EVENT ("durability_changed", TPS_TRACE_WARNING);
static TpsTraceEvent snapshot_written = TPS_TRACE_EVENT ("snapshot_written", TPS_TRACE_INFO);
static TpsTraceEvent snapshot_failed = TPS_TRACE_EVENT ("snapshot_failed", TPS_TRACE_WARNING);
static TpsTraceEvent log_torn = TPS_TRACE_EVENT ("log_torn", TPS_TRACE_WARNING);
static TpsTraceEvent snapshot_restored = TPS_TRACE_EVENT ("snapshot_restored", TPS_TRACE_INFO);
static TpsTraceEvent recovery_started = TPS_TRACE_EVENT ("recovery_started", TPS_TRACE_INFO);
static TpsTraceEvent recovery_progress = TPS_TRACE_EVENT ("recovery_progress", TPS_TRACE_INFO);
static TpsTraceEvent recovery_done = TPS_TRACE_EVENT ("recovery_done", TPS_TRACE_INFO);
static TpsTraceEvent recovery_failed = TPS_TRACE_EVENT ("recovery_failed", TPS_TRACE_ERROR);
static TpsTraceEvent last_write_failed = TPS_TRACE_EVENT ("last_write_failed", TPS_TRACE_ERROR);

/* The bounds of the retry delay that refused clients get during a recovery. */
#define MIN_RETRY_MS 50
#define MAX_RETRY_MS 2000

#define PROGRESS_NS ((gint64) 2 * 1000000000) /* between traces of the progress of a recovery */
#define DEFAULT_SNAPSHOT_LOG_BYTES ((gsize) 4 << 30)

static const struct
{
  const gchar *name;
  guint next; /* bits of the phases that may follow */
} phases[] = {
#define BIT(phase) (1u << (phase))
  [TPS_DURABLE_RECOVERING] = { "recovering", BIT (TPS_DURABLE_LIVE) | BIT (TPS_DURABLE_FAILED) },
  [TPS_DURABLE_LIVE] = { "live", BIT (TPS_DURABLE_FULL) | BIT (TPS_DURABLE_READ_ONLY) },
  [TPS_DURABLE_FULL] = { "full", BIT (TPS_DURABLE_LIVE) | BIT (TPS_DURABLE_READ_ONLY) },
  [TPS_DURABLE_READ_ONLY] = { "read-only", 0 },
  [TPS_DURABLE_FAILED] = { "failed", 0 },
#undef BIT
};

/* A request for a snapshot, or for restored tables, which a snapshot makes durable. */
typedef struct
{
  TpsDurable *durable;
  gboolean is_incremental;
  const TpsTableSource *source; /* NULL = no tables are restored */
  TpsDurableSnapshotDone done;
  gpointer user_data;
  GError *error;
} Request;

/* Returns the current phase. Takes no lock. Thread: any. */
static TpsDurablePhase
get_phase (TpsDurable *durable)
{
  return (TpsDurablePhase) atomic_load_explicit (&durable->phase, memory_order_acquire);
}

/* Fills in `numbers`, which must be all zero, and takes a reference to `counters`; NULL = nothing
 * is counted. `snapshot` must be the newest snapshot; its name is empty if there is none. */
static void
numbers_init (TpsDurableNumbers *numbers, TpsCounters *counters, const TpsSnapshotInfo *snapshot)
{
  if (counters == NULL)
    return;
  *numbers = (TpsDurableNumbers) {
    .counters = tps_counters_ref (counters),
    .written_snapshots = tps_counters_use_counter (counters, &written_snapshots_family, NULL, NULL),
    .failed_snapshots = tps_counters_use_counter (counters, &failed_snapshots_family, NULL, NULL),
    .snapshot_lsn = tps_counters_use_gauge (counters, &snapshot_lsn_family, NULL, NULL),
    .snapshot_bytes = tps_counters_use_gauge (counters, &snapshot_bytes_family, NULL, NULL),
    .snapshot_time = tps_counters_use_gauge (counters, &snapshot_time_family, NULL, NULL),
    .snapshot_duration = tps_counters_use_gauge (counters, &snapshot_duration_family, NULL, NULL),
  };
  if (snapshot->name[0] != '\0')
    {
      tps_gauge_set (numbers->snapshot_lsn, snapshot->lsn);
      tps_gauge_set (numbers->snapshot_bytes, (gint64) snapshot->n_bytes);
    }
}

const gchar *
tps_durable_phase_name (TpsDurablePhase phase)
{
  return phases[phase].name;
}

/* Enters `phase` if it may follow the current phase; otherwise does nothing. `error` (borrowed;
 * NULL = none) is the reason; FAILED must have one. Threads may report outdated states. A
 * transition that is not in the table is therefore ignored. Thread: any. */
static void
enter (TpsDurable *durable, TpsDurablePhase phase, const GError *error)
{
  TpsDurablePhase before;
  gboolean is_step;

  tps_mutex_lock (&durable->lock);
  before = get_phase (durable);
  is_step = (phases[before].next & (1u << phase)) != 0;
  if (is_step)
    atomic_store_explicit (&durable->phase, phase, memory_order_release);
  if (is_step && phase == TPS_DURABLE_FAILED)
    durable->error = g_error_copy (error);
  tps_cond_broadcast (&durable->changed);
  tps_mutex_unlock (&durable->lock);
  if (is_step && before != TPS_DURABLE_RECOVERING)
    tps_trace (&phase_changed, tps_field_text ("phase", phases[phase].name),
               tps_field_text ("message", error != NULL ? error->message : NULL));
}

/* Returns the error of requests after `error`, of the disk, has made the server read-only. Requests
 * are not at fault, so their error is UNAVAILABLE. */
static GError *
new_read_only_error (const GError *error)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                      "this server is read-only until it is restarted: %s", error->message);
}

static gboolean
is_full (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED);
}

/* Returns TRUE if the log has room for `n_bytes` more. Enters the phase FULL, READ_ONLY or LIVE
 * according to the result. The recovery must have ended. Errors: RESOURCE_EXHAUSTED (full),
 * UNAVAILABLE (read-only). */
static gboolean
check_log (TpsDurable *durable, gsize n_bytes, GError **error)
{
  GError *refusal = NULL;

  if (tps_log_may_append (durable->log, n_bytes, &refusal))
    {
      /* A small command may fit on a full disk. The phase then stays FULL. */
      if (get_phase (durable) == TPS_DURABLE_FULL && !tps_log_is_short (durable->log))
        enter (durable, TPS_DURABLE_LIVE, NULL);
      return TRUE;
    }
  enter (durable, is_full (refusal) ? TPS_DURABLE_FULL : TPS_DURABLE_READ_ONLY, refusal);
  if (is_full (refusal))
    g_propagate_error (error, refusal);
  else
    {
      g_propagate_error (error, new_read_only_error (refusal));
      g_error_free (refusal);
    }
  return FALSE;
}

/* Return the bytes of the snapshot and of the log: all, and those that the recovery has read.
 * Thread: any. */
static gint64
get_all_bytes (const TpsDurable *durable)
{
  return durable->recovery.n_snapshot_bytes + durable->recovery.n_bytes;
}

static gint64
get_bytes_done (const TpsDurable *durable)
{
  return atomic_load (&durable->recovery.n_restored)
         + atomic_load (&durable->recovery.n_bytes_done);
}

/* Estimates the rest of the recovery at its present rate; -1 = not known yet. Thread: any. */
static gint64
estimate_remaining_ms (const TpsDurable *durable, gint64 now_ns)
{
  gint64 n_done = get_bytes_done (durable);
  gdouble left = (gdouble) MAX (get_all_bytes (durable) - n_done, 0);
  gdouble elapsed_ns = (gdouble) (now_ns - durable->recovery.started_ns);

  return n_done > 0 ? (gint64) (left / (gdouble) n_done * elapsed_ns / 1e6) : -1;
}

void
tps_durable_get_status (TpsDurable *durable, TpsDurableStatus *status)
{
  g_autoptr (GError) reason = NULL;

  if (get_phase (durable) != TPS_DURABLE_RECOVERING && get_phase (durable) != TPS_DURABLE_FAILED)
    {
      check_log (durable, 0, NULL); /* a full disk may have room again */
      *status = (TpsDurableStatus) { .phase = get_phase (durable),
                                     .lsn = tps_log_get_durable_lsn (durable->log),
                                     .end_lsn = tps_sequencer_get_lsn (durable->targets.sequencer),
                                     .n_bytes_done = tps_log_get_written_bytes (durable->log),
                                     .remaining_ms = -1 };
      if (status->phase != TPS_DURABLE_LIVE
          && !tps_log_may_append (durable->log, G_MAXSIZE, &reason))
        g_strlcpy (status->reason, reason->message, sizeof status->reason);
      return;
    }
  *status = (TpsDurableStatus) {
    .phase = get_phase (durable),
    .lsn = atomic_load (&durable->recovery.lsn),
    .end_lsn = durable->recovery.last_lsn,
    .n_bytes_done = get_bytes_done (durable),
    .n_bytes = get_all_bytes (durable),
    .remaining_ms = estimate_remaining_ms (durable, tps_clock_now_ns ()),
  };
}

static gboolean
refuse_while_recovering (TpsDurable *durable, GError **error)
{
  TpsDurableStatus status;
  GError *refusal;
  gint64 wait_ms;

  tps_durable_get_status (durable, &status);
  wait_ms = status.remaining_ms < 0 ? MIN_RETRY_MS : status.remaining_ms;
  refusal = g_error_new (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                         "the server is recovering: command %" G_GINT64_FORMAT
                         " of %" G_GINT64_FORMAT " has been applied",
                         status.lsn, status.end_lsn);
  tps_error_set_retry_after_ms (refusal, (gint) CLAMP (wait_ms, MIN_RETRY_MS, MAX_RETRY_MS));
  g_propagate_error (error, refusal);
  return FALSE;
}

gboolean
tps_durable_check (TpsDurable *durable, GError **error)
{
  switch (get_phase (durable))
    {
    case TPS_DURABLE_RECOVERING:
      return refuse_while_recovering (durable, error);
    case TPS_DURABLE_FAILED:
      tps_mutex_lock (&durable->lock);
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "the recovery of %s failed: %s",
                   durable->folder->path, durable->error->message);
      tps_mutex_unlock (&durable->lock);
      return FALSE;
    case TPS_DURABLE_LIVE:
    case TPS_DURABLE_FULL:
    case TPS_DURABLE_READ_ONLY:
      break;
    }
  return TRUE;
}

/* While the server recovers, services admit no requests. All commands then come from the log, and
 * must not be refused. */
static gboolean
may_admit (gpointer user_data, gsize n_bytes, GError **error)
{
  TpsDurable *durable = user_data;

  switch (get_phase (durable))
    {
    case TPS_DURABLE_RECOVERING:
      return TRUE;
    case TPS_DURABLE_FAILED:
      return tps_durable_check (durable, error);
    case TPS_DURABLE_LIVE:
    case TPS_DURABLE_FULL:
    case TPS_DURABLE_READ_ONLY:
      break;
    }
  return check_log (durable, n_bytes, error);
}

static void
release (gpointer user_data, gint64 lsn, const GError *error)
{
  g_autoptr (GError) lost = error != NULL ? new_read_only_error (error) : NULL;

  TPS_PLANT ("log-error-ignored", g_clear_error (&lost));
  tps_ordered_release (user_data, lost);
}

/* While the server recovers, commands come from the log, and must not be appended to it again. The
 * time of a later command is never lower, even if the clock is set back. */
static void
observe (gpointer user_data, TpsOrdered *ordered)
{
  TpsDurable *durable = user_data;
  TpsCommand *command = ordered->command;
  TpsDurability durability = command->durability != 0 ? command->durability : durable->durability;

  /* INTERVAL permits a crash to undo updates, but not the beginning or the end of a model. */
  if (durability == TPS_DURABILITY_INTERVAL
      && (command->kind == TPS_COMMAND_INIT_MODEL || command->kind == TPS_COMMAND_RESET_MODEL))
    durability = TPS_DURABILITY_COMMIT;
  TPS_PLANT ("commit-as-interval", durability = TPS_DURABILITY_INTERVAL);
  if (get_phase (durable) == TPS_DURABLE_RECOVERING)
    tps_ordered_release (ordered, NULL);
  else
    {
      gint64 time_ms = MAX (durable->get_time_ms (), atomic_load (&durable->time_ms));

      atomic_store (&durable->time_ms, time_ms);
      command->moment = (TpsMoment) { durable->folder->epoch, time_ms };
      tps_log_append (durable->log, command, durability, release, ordered);
    }
}

void
tps_durable_init_sequencer (TpsDurable *durable, TpsSequencerOptions *options)
{
  options->observe = observe;
  options->may_admit = may_admit;
  options->user_data = durable;
}

static gboolean
is_cancelled (gpointer user_data)
{
  return atomic_load (&((TpsDurable *) user_data)->stops);
}

static void
set_flushed (gpointer outcome, gint64 lsn, const GError *error)
{
  tps_outcome_set (outcome, error);
}

static gboolean
flush_and_wait (gpointer user_data, gint64 lsn, GError **error)
{
  TpsOutcome outcome;

  tps_outcome_init (&outcome);
  tps_log_flush (((TpsDurable *) user_data)->log, set_flushed, &outcome);
  return tps_outcome_wait (&outcome, error);
}

static gint64
get_last_time_ms (gpointer user_data)
{
  return atomic_load (&((TpsDurable *) user_data)->time_ms);
}

/* Returns the options of the next snapshot or restoration, which borrow from `durable`. */
static TpsSnapshotOptions
get_snapshot_options (TpsDurable *durable)
{
  return (TpsSnapshotOptions) {
    .disk = durable->disk,
    .folder = durable->folder->snapshots_path,
    .history = durable->folder->history,
    .epoch = durable->folder->epoch,
    .get_time_ms = get_last_time_ms,
    .sequencer = durable->targets.sequencer,
    .tables = durable->targets.tables,
    .model = durable->targets.model,
    .keep = durable->keep_snapshots,
    .flush = flush_and_wait,
    .is_cancelled = is_cancelled,
    .user_data = durable,
  };
}

/* Returns the length of the log: the bytes that the recovery has applied again, and the bytes
 * written since the start. */
static gint64
get_log_bytes (gpointer user_data)
{
  TpsDurable *durable = user_data;

  return atomic_load (&durable->recovery.n_bytes_done) + tps_log_get_written_bytes (durable->log);
}

/* Deletes the part of the log that no remaining snapshot needs. A failure leaves more log than
 * necessary, and does not fail the snapshot. */
static void
delete_log (TpsDurable *durable)
{
  g_autoptr (GError) error = NULL;

  if (!tps_log_delete_before (durable->log, durable->snapshot.oldest_lsn + 1, &error))
    tps_trace (&snapshot_failed, tps_field_text ("message", error->message));
}

/* Writes a snapshot. Then deletes old snapshots, and the part of the log that is no longer needed.
 * Blocks. Errors: those of tps_snapshot_write(). Thread: only that of snapshots.
 * tps_snapshot_write() deletes old snapshots after the manifest of the new one has become durable.
 * The log is deleted last, so every snapshot on the disk has the log that it needs. */
static gboolean
write_snapshot (TpsDurable *durable, gboolean is_incremental, GError **error)
{
  TpsSnapshotOptions options = get_snapshot_options (durable);
  TpsSnapshotInfo info;
  gint64 begun_ns = tps_clock_now_ns ();
  gint64 begun_bytes = get_log_bytes (durable);
  gboolean is_written;

  options.max_increments = is_incremental ? durable->snapshot_increments : 0;
  atomic_store (&durable->is_writing_snapshot, TRUE);
  is_written = tps_snapshot_write (&options, &info, error);
  atomic_store (&durable->is_writing_snapshot, FALSE);
  if (!is_written)
    {
      tps_counter_add (durable->numbers.failed_snapshots, 1);
      return FALSE;
    }
  tps_mutex_lock (&durable->lock);
  durable->snapshot = info;
  tps_mutex_unlock (&durable->lock);
  tps_counter_add (durable->numbers.written_snapshots, 1);
  tps_gauge_set (durable->numbers.snapshot_lsn, info.lsn);
  tps_gauge_set (durable->numbers.snapshot_bytes, (gint64) info.n_bytes);
  tps_gauge_set (durable->numbers.snapshot_time, g_get_real_time ());
  tps_gauge_set (durable->numbers.snapshot_duration, tps_clock_now_ns () - begun_ns);
  tps_snapshot_thread_note (&durable->snapshots, begun_ns, begun_bytes);
  tps_trace (&snapshot_written, tps_field_text ("name", info.name), tps_field_int ("lsn", info.lsn),
             tps_field_uint ("bytes", info.n_bytes),
             tps_field_uint ("increments", info.n_increments));
  delete_log (durable);
  return TRUE;
}

/* As write_snapshot(), for a state that the log does not contain. The data directory
 * needs this snapshot from now on, or a later one. */
static gboolean
write_needed_snapshot (TpsDurable *durable, gboolean is_incremental, GError **error)
{
  return write_snapshot (durable, is_incremental, error)
         && tps_data_folder_raise (durable->folder, durable->snapshot.end_lsn,
                                   durable->snapshot.lsn, error);
}

/* Writes an automatic snapshot. No caller receives its error, so the error is traced here. */
static gboolean
write_due_snapshot (gpointer user_data)
{
  TpsDurable *durable = user_data;
  g_autoptr (GError) error = NULL;

  if (durable->snapshot.name[0] != '\0'
      && tps_sequencer_get_lsn (durable->targets.sequencer) == durable->snapshot.lsn)
    return TRUE; /* nothing has changed */
  if (get_phase (durable) == TPS_DURABLE_READ_ONLY)
    return FALSE;
  if (!write_snapshot (durable, TRUE, &error))
    tps_trace (&snapshot_failed, tps_field_text ("message", error->message));
  return error == NULL;
}

static void
run_snapshot (gpointer data)
{
  Request *request = data;

  if (!write_snapshot (request->durable, request->is_incremental, &request->error))
    tps_trace (&snapshot_failed, tps_field_text ("message", request->error->message));
}

/* ---- restoring tables ------------------------------------------------------------------------ */

/* Restores tables from files while requests continue, all of them or none:
 *
 *   - The paths are resolved, and the files of each table are found.
 *   - The names of the tables are reserved, and the rows are read.
 *   - The tables get their LSNs.
 *   - A snapshot is written, which makes the tables durable.
 *   - The tables become known to requests.
 */

#define ASK_NS ((gint64) 10 * 1000000) /* between checks of is_cancelled() */

/* -- paths -- */

/* Returns TRUE if `path` is relative and has only names of files and folders. */
static gboolean
is_below (const gchar *path)
{
  g_auto (GStrv) parts = g_strsplit (path, "/", -1);

  for (guint i = 0; parts[i] != NULL; i++)
    if (parts[i][0] == '\0' || g_str_equal (parts[i], ".") || g_str_equal (parts[i], ".."))
      return FALSE;
  return parts[0] != NULL;
}

/* Returns the path of `path` below `root`; the caller frees it. Symbolic links are followed, since
 * only the operator can make them. Errors: PERMISSION_DENIED (no root), INVALID_ARGUMENT (the path
 * is empty, absolute, or has an empty part, "." or ".."). */
static gchar *
resolve (const gchar *root, const gchar *path, GError **error)
{
  if (root == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_PERMISSION_DENIED,
                         "this server reads no files for its clients: it has no --import-dir");
  else if (!is_below (path))
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "\"%s\" is not a path below --import-dir, such as \"monday/snapshots\"", path);
  else
    return g_build_filename (root, path, NULL);
  return NULL;
}

/* Returns the paths below `root`. The caller frees them with g_strfreev(). */
static GStrv
resolve_all (const gchar *root, const gchar *const *paths, guint n_paths, GError **error)
{
  g_autoptr (GPtrArray) resolved = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < n_paths; i++)
    {
      gchar *path = resolve (root, paths[i], error);

      if (path == NULL)
        return NULL;
      g_ptr_array_add (resolved, path);
    }
  g_ptr_array_add (resolved, NULL);
  return (GStrv) g_ptr_array_free (g_steal_pointer (&resolved), FALSE);
}

/* -- tables and their files -- */

/* A table that is being restored. */
typedef struct
{
  TpsTableSpec spec;
  GStrv files;
  gboolean is_begun; /* the name is reserved */
  TpsTable *table;
} Making;

static void
clear_making (gpointer data)
{
  Making *making = data;

  tps_table_spec_clear (&making->spec);
  g_strfreev (making->files);
  g_clear_pointer (&making->table, tps_table_unref);
}

/* A snapshot may be hostile, so the tenant in its specifications does not count. */
static Making *
add_making (GArray *all, const TpsTableSpec *spec, const gchar *tenant)
{
  Making *making;

  g_array_set_size (all, all->len + 1);
  making = &g_array_index (all, Making, all->len - 1);
  tps_table_spec_copy (&making->spec, spec);
  g_free (making->spec.tenant);
  making->spec.tenant = g_strdup (tenant);
  return making;
}

static gboolean
plan_snapshots (TpsDurable *durable, const TpsTableSource *source, GStrv snapshots, GArray *all,
                GError **error)
{
  g_autoptr (TpsSnapshotTables)
      found = tps_snapshot_tables_new (durable->disk, (const gchar *const *) snapshots,
                                       source->n_paths, durable->targets.tables->budget, error);
  guint n;

  if (found == NULL)
    return FALSE;
  n = source->n_specs > 0 ? source->n_specs : tps_snapshot_tables_get_n_specs (found);
  for (guint i = 0; i < n; i++)
    {
      Making *making = add_making (
          all, source->n_specs > 0 ? &source->specs[i] : tps_snapshot_tables_get_spec (found, i),
          source->tenant);

      making->files = tps_snapshot_tables_list_files (found, making->spec.name, error);
      if (making->files == NULL)
        return FALSE;
    }
  return TRUE;
}

static gboolean
plan (TpsDurable *durable, const TpsTableSource *source, GArray *all, GError **error)
{
  g_auto (GStrv)
      paths = resolve_all (durable->import_folder, source->paths, source->n_paths, error);

  if (paths == NULL)
    return FALSE;
  if (source->are_snapshots)
    return plan_snapshots (durable, source, paths, all, error);
  add_making (all, source->specs, source->tenant)->files = g_steal_pointer (&paths);
  return TRUE;
}

/* -- making tables -- */

static gboolean
begin_all (TpsDurable *durable, GArray *all, GError **error)
{
  for (guint i = 0; i < all->len; i++)
    {
      Making *making = &g_array_index (all, Making, i);

      making->is_begun = tps_table_store_begin_import (durable->targets.tables, making->spec.name,
                                                       error);
      if (!making->is_begun)
        return FALSE;
    }
  return TRUE;
}

static gboolean
read_all (TpsDurable *durable, const TpsTableSource *source, GArray *all, GError **error)
{
  for (guint i = 0; i < all->len; i++)
    {
      Making *making = &g_array_index (all, Making, i);
      TpsTableImport import = { .disk = durable->disk,
                                .into = durable->targets.tables,
                                .paths = (const gchar *const *) making->files,
                                .n_paths = g_strv_length (making->files),
                                .tensor = source->tensor,
                                .is_cancelled = is_cancelled,
                                .user_data = durable };

      making->table = tps_table_import_read (&import, &making->spec, error);
      if (making->table == NULL)
        return FALSE;
    }
  return TRUE;
}

static gboolean
admit_all (TpsDurable *durable, GArray *all, GError **error)
{
  for (guint i = 0; i < all->len; i++)
    {
      TpsTable *table = g_array_index (all, Making, i).table;

      if (!tps_table_store_admit_import (durable->targets.tables, table, error))
        return FALSE;
      /* Only a snapshot that begins after this wait is certain to contain the table. */
      while (!tps_sequencer_wait_ended (durable->targets.sequencer, table->incarnation,
                                        tps_clock_now_ns () + ASK_NS))
        if (is_cancelled (durable))
          return tps_fail (error, TPS_ERROR_ABORTED, "the import was cancelled");
    }
  return TRUE;
}

static gboolean
check_source (TpsDurable *durable, const TpsTableSource *source, GError **error)
{
  if (durable->targets.tables == NULL)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "this server has no service EmbeddingTable");
  if (source->n_paths == 0)
    return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                     "the list of paths is empty, expected at least one");
  return TRUE;
}

/* Makes the tables of `source`, and writes a snapshot that contains them. Blocks. Errors: those of
 * tps_durable_restore(). Thread: only that of snapshots. */
static gboolean
restore_tables (TpsDurable *durable, const TpsTableSource *source, GError **error)
{
  g_autoptr (GArray) all = g_array_new (FALSE, TRUE, sizeof (Making));
  gboolean is_done;

  g_array_set_clear_func (all, clear_making);
  is_done = check_source (durable, source, error) && plan (durable, source, all, error)
            && begin_all (durable, all, error) && read_all (durable, source, all, error)
            && admit_all (durable, all, error) && write_needed_snapshot (durable, TRUE, error);
  for (guint i = 0; i < all->len; i++)
    {
      const Making *making = &g_array_index (all, Making, i);

      /* Releases the reserved name, and adds the table to the store. */
      if (making->is_begun)
        tps_table_store_end_import (durable->targets.tables, making->spec.name,
                                    is_done ? making->table : NULL);
    }
  return is_done;
}

static void
run_restore (gpointer data)
{
  Request *request = data;

  restore_tables (request->durable, request->source, &request->error);
}

/* Calls done(), and frees the request. If the request has succeeded, this is the thread of
 * snapshots. Only that thread changes `snapshot`, so it needs no lock to read it. */
static void
end_request (gpointer data)
{
  Request *request = data;

  request->done (request->user_data, request->error == NULL ? &request->durable->snapshot : NULL,
                 request->error);
  g_clear_error (&request->error);
  g_free (request);
}

static void
submit (void (*run) (gpointer request), const Request *request)
{
  Request *copy = g_memdup2 (request, sizeof *request);
  TpsSnapshotJob job = { run, end_request, copy };

  if (!tps_durable_check (copy->durable, &copy->error)
      || !tps_snapshot_thread_submit (&copy->durable->snapshots, &job, &copy->error))
    end_request (copy);
}

void
tps_durable_snapshot (TpsDurable *durable, gboolean is_incremental, TpsDurableSnapshotDone done,
                      gpointer user_data)
{
  Request request = { durable, is_incremental, NULL, done, user_data, NULL };

  submit (run_snapshot, &request);
}

void
tps_durable_restore (TpsDurable *durable, const TpsTableSource *source, TpsDurableSnapshotDone done,
                     gpointer user_data)
{
  Request request = { durable, TRUE, source, done, user_data, NULL };

  submit (run_restore, &request);
}

void
tps_durable_get_snapshot (TpsDurable *durable, TpsSnapshotInfo *info, gboolean *is_writing)
{
  tps_mutex_lock (&durable->lock);
  *info = durable->snapshot;
  tps_mutex_unlock (&durable->lock);
  *is_writing = atomic_load (&durable->is_writing_snapshot);
}

/* Sets up automatic snapshots; tps_snapshot_thread_begin() begins them. */
static void
init_snapshots (TpsDurable *durable, const TpsDurableOptions *options)
{
  gsize log_bytes = options->snapshot_log_bytes > 0 ? options->snapshot_log_bytes
                                                    : DEFAULT_SNAPSHOT_LOG_BYTES;
  TpsSnapshotThreadOptions thread = {
    .interval_ns = options->snapshot_interval_ns,
    .log_bytes = log_bytes == TPS_DURABLE_NEVER ? 0 : (gint64) log_bytes,
    .write = write_due_snapshot,
    .get_log_bytes = get_log_bytes,
    .user_data = durable,
  };

  durable->import_folder = g_strdup (options->import_folder);
  durable->snapshot_increments = options->snapshot_increments;
  durable->keep_snapshots = options->keep_snapshots;
  tps_snapshot_thread_init (&durable->snapshots, &thread);
}

static gboolean
note_reached (gpointer user_data, gint64 durable_lsn, GError **error)
{
  return tps_data_folder_raise (user_data, durable_lsn, 0, error);
}

/* Opens the log for a state that contains all commands up to `lsn`. */
static gboolean
open_log_after (TpsDurable *durable, const TpsDurableOptions *options, gint64 lsn,
                TpsLogFound *found, GError **error)
{
  TpsLogOptions log = options->log;

  log.interval_ns = options->interval_ns > 0 ? options->interval_ns : TPS_DURABILITY_INTERVAL_NS;
  log.first_lsn = lsn + 1;
  log.id = durable->folder->history;
  log.must_exist = durable->folder->lsn > 0 || durable->snapshot.name[0] != '\0';
  log.reached = note_reached;
  log.user_data = durable->folder;
  durable->recovery.first_lsn = log.first_lsn;
  durable->log = tps_log_open (durable->disk, durable->folder->log_path, &log, found, error);
  return durable->log != NULL;
}

/* Finds the copy with which an empty directory begins, and opens the log again, because the log
 * must begin after the state of the copy. */
static gboolean
begin_with_copy (TpsDurable *durable, const TpsDurableOptions *options, TpsLogFound *found,
                 GError **error)
{
  TpsSnapshotInfo info;

  durable->restore_from = tps_snapshot_locate (durable->disk, options->restore_from, &info, error);
  if (durable->restore_from == NULL)
    return FALSE;
  tps_trace (&snapshot_restored, tps_field_text ("name", durable->restore_from),
             tps_field_int ("lsn", info.end_lsn), tps_field_uint ("bytes", info.n_bytes));
  atomic_store (&durable->time_ms, info.moment.time_ms);
  g_clear_pointer (&durable->log, tps_log_free);
  tps_log_found_clear (found);
  return open_log_after (durable, options, info.end_lsn, found, error);
}

static gboolean
check_log_end (TpsDurable *durable, const TpsLogFound *found, GError **error)
{
  const gchar *path = durable->folder->path;
  gint64 reached_lsn = durable->folder->lsn;

  if (found->last_lsn < reached_lsn)
    return tps_fail (
        error, TPS_ERROR_ABORTED,
        "data directory %s: its log ends with LSN %" G_GINT64_FORMAT
        ", but had reached LSN %" G_GINT64_FORMAT
        ": segments are missing, or are older than the directory; restore the directory "
        "from a copy, or accept the loss with thriftps_log truncate %s "
        "--last-lsn=%" G_GINT64_FORMAT " --force",
        path, found->last_lsn, reached_lsn, path, found->last_lsn);
  if (found->last_lsn >= durable->snapshot.end_lsn)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "snapshot %s has changes up to LSN %" G_GINT64_FORMAT
                   ", but the log ends with LSN %" G_GINT64_FORMAT
                   "; restore the data directory from a copy",
                   durable->snapshot.name, durable->snapshot.end_lsn, found->last_lsn);
}

static gboolean
open_log (TpsDurable *durable, const TpsDurableOptions *options, GError **error)
{
  g_auto (TpsLogFound) found = { 0 };
  gboolean is_new;

  if (!open_log_after (durable, options, durable->snapshot.lsn, &found, error))
    return FALSE;
  is_new = durable->snapshot.name[0] == '\0' && found.last_lsn == 0;
  if (found.torn_position != NULL)
    tps_trace (&log_torn, tps_field_text ("position", found.torn_position),
               tps_field_int ("bytes", found.n_torn_bytes),
               tps_field_int ("last_lsn", found.last_lsn));
  if (!check_log_end (durable, &found, error)
      || (is_new && options->restore_from != NULL
          && !begin_with_copy (durable, options, &found, error)))
    return FALSE;
  durable->log_id = tps_log_dup_id (durable->log);
  durable->recovery.last_lsn = found.last_lsn;
  durable->recovery.n_bytes = found.n_bytes;
  durable->recovery.n_snapshot_bytes = (gint64) durable->snapshot.n_bytes;
  return TRUE;
}

static gboolean
check_snapshot (TpsDurable *durable, GError **error)
{
  gint64 needed_lsn = durable->folder->snapshot_lsn;

  if (durable->snapshot.lsn >= needed_lsn)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "data directory %s: a snapshot is missing: that of LSN %" G_GINT64_FORMAT
                   ", or a later one; it has imported or restored rows, which are not in the log; "
                   "restore the snapshot or the directory from a copy",
                   durable->folder->path, needed_lsn);
}

/* Finds the newest snapshot and opens the log that follows it. Blocks. Errors: those of
 * tps_log_open(), tps_snapshot_find() and tps_snapshot_locate(); ABORTED (the log ends before the
 * snapshot). */
static gboolean
open_state (TpsDurable *durable, const TpsDurableOptions *options, GError **error)
{
  TpsSnapshotOptions snapshots = get_snapshot_options (durable);

  if (tps_snapshot_find (&snapshots, &durable->snapshot, error) && check_snapshot (durable, error))
    {
      atomic_init (&durable->time_ms, durable->snapshot.moment.time_ms);
      if (open_log (durable, options, error))
        return TRUE;
    }
  if (durable->restore_from == NULL && options->restore_from == NULL)
    tps_data_folder_explain (error);
  return FALSE;
}

/* ---- the recovery ---------------------------------------------------------------------------- */

static void
trace_progress (TpsDurable *durable, TpsTraceEvent *event)
{
  Recovery *recovery = &durable->recovery;

  recovery->traced_ns = tps_clock_now_ns ();
  tps_trace (event, tps_field_int ("lsn", atomic_load (&recovery->lsn)),
             tps_field_int ("last_lsn", recovery->last_lsn),
             tps_field_int ("bytes", get_bytes_done (durable)),
             tps_field_int ("all_bytes", get_all_bytes (durable)),
             tps_field_int ("remaining_ms", estimate_remaining_ms (durable, recovery->traced_ns)));
}

static void
trace_progress_if_due (TpsDurable *durable)
{
  if (tps_clock_now_ns () - durable->recovery.traced_ns >= PROGRESS_NS)
    trace_progress (durable, &recovery_progress);
}

static gboolean
refuse_record (const gchar *what, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "this server cannot apply it, because it needs %s", what);
}

static gboolean
replay (const TpsDurableTargets *targets, const TpsCommand *command, GError **error)
{
  switch (command->kind)
    {
    case TPS_COMMAND_INIT_MODEL:
    case TPS_COMMAND_UPDATE_MODEL:
    case TPS_COMMAND_RESET_MODEL:
      return targets->model != NULL ? tps_model_server_replay (targets->model, command, error)
                                    : refuse_record ("--services=ParameterServer", error);
    case TPS_COMMAND_CREATE_TABLE:
    case TPS_COMMAND_DROP_TABLE:
    case TPS_COMMAND_APPLY_ROWS:
    case TPS_COMMAND_ASSIGN_ROWS:
    case TPS_COMMAND_APPLY_BAGS:
      return targets->tables != NULL ? tps_table_store_replay (targets->tables, command, error)
                                     : refuse_record ("--services=EmbeddingTable", error);
    }
  return refuse_record ("a later version of the server", error);
}

/* Applies one record again. A hole in the log (TpsLogRecord in log.h) has no command, because a
 * command of TPS_DURABILITY_NONE leaves only its LSN in the log. */
static gboolean
apply_record (TpsDurable *durable, const TpsLogRecord *record, GError **error)
{
  TpsSequencer *sequencer = durable->targets.sequencer;

  atomic_store (&durable->time_ms, record->moment.time_ms);
  if (record->moment.epoch > durable->folder->epoch)
    return tps_fail (error, TPS_ERROR_ABORTED,
                     "command %" G_GINT64_FORMAT
                     " of the log: it has epoch %u, but the data directory "
                     "only %u, so FORMAT is older than the log; restore the directory from a copy",
                     record->lsn, record->moment.epoch, durable->folder->epoch);
  if (record->command == NULL)
    tps_sequencer_set_lsn (sequencer, record->lsn);
  else if (!replay (&durable->targets, record->command, error))
    {
      g_prefix_error (error, "command %" G_GINT64_FORMAT " of the log: ", record->lsn);
      return FALSE;
    }
  if (tps_sequencer_get_lsn (sequencer) == record->lsn)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "command %" G_GINT64_FORMAT
                   " of the log: it was applied again with LSN %" G_GINT64_FORMAT,
                   record->lsn, tps_sequencer_get_lsn (sequencer));
}

static gboolean
apply_log (TpsDurable *durable, GError **error)
{
  Recovery *recovery = &durable->recovery;
  TpsSequencer *sequencer = durable->targets.sequencer;
  g_autoptr (TpsLogCursor) cursor = NULL;
  TpsLogRecord record;

  tps_sequencer_set_lsn (sequencer, recovery->first_lsn - 1);
  TPS_PLANT ("replay-without-last-record", recovery->last_lsn--);
  if (recovery->last_lsn < recovery->first_lsn)
    return TRUE;
  cursor = tps_log_cursor_new (durable->log, recovery->first_lsn, error);
  if (cursor == NULL)
    return FALSE;
  while (atomic_load (&recovery->lsn) < recovery->last_lsn)
    {
      if (is_cancelled (durable))
        return tps_fail (error, TPS_ERROR_ABORTED, "the server is shutting down");
      if (!tps_log_cursor_next (cursor, &record, error) || !apply_record (durable, &record, error))
        return FALSE;
      atomic_store (&recovery->lsn, record.lsn);
      atomic_fetch_add (&recovery->n_bytes_done, (gint64) record.n_bytes);
      trace_progress_if_due (durable);
    }
  TPS_PLANT ("lsn-reused", tps_sequencer_set_lsn (sequencer, recovery->last_lsn - 1));
  return TRUE;
}

static void
note_restored (gpointer user_data, guint64 n_done, guint64 unused)
{
  TpsDurable *durable = user_data;
  Recovery *recovery = &durable->recovery;

  atomic_store (&recovery->n_restored, MIN ((gint64) n_done, recovery->n_snapshot_bytes));
  trace_progress_if_due (durable);
}

static gboolean
restore_snapshot (TpsDurable *durable, GError **error)
{
  TpsSnapshotOptions options = get_snapshot_options (durable);

  /* The log does not contain the state of the copy, so a snapshot must make it durable. */
  if (durable->restore_from != NULL)
    return tps_snapshot_restore_copy (&options, durable->restore_from, error)
           && write_needed_snapshot (durable, FALSE, error);
  if (durable->snapshot.name[0] == '\0')
    return TRUE;
  options.progress = note_restored;
  tps_trace (&snapshot_restored, tps_field_text ("name", durable->snapshot.name),
             tps_field_int ("lsn", durable->snapshot.lsn),
             tps_field_uint ("bytes", durable->snapshot.n_bytes));
  if (!tps_snapshot_restore (&options, &durable->snapshot, error))
    return FALSE;
  note_restored (durable, durable->snapshot.n_bytes, 0);
  return TRUE;
}

static void
end_recovery (TpsDurable *durable, const GError *error)
{
  const Recovery *recovery = &durable->recovery;

  if (error == NULL)
    tps_trace (
        &recovery_done, tps_field_int ("lsn", recovery->last_lsn),
        tps_field_int ("bytes", get_all_bytes (durable)),
        tps_field_real ("seconds", (gdouble) (tps_clock_now_ns () - recovery->started_ns) / 1e9));
  else
    tps_trace (&recovery_failed, tps_field_text ("folder", durable->folder->path),
               tps_field_text ("message", error->message));
  /* restored() must return before the phase LIVE lets requests pass. */
  if (error == NULL && durable->targets.restored != NULL)
    durable->targets.restored (durable->targets.user_data);
  enter (durable, error == NULL ? TPS_DURABLE_LIVE : TPS_DURABLE_FAILED, error);
  if (error == NULL)
    check_log (durable, 0, NULL); /* the disk may be full already */
  if (durable->targets.recovered != NULL)
    durable->targets.recovered (durable->targets.user_data, error);
}

/* The thread that recovers the state, and then writes snapshots. The part of the log that was
 * applied again counts as growth of the log. Otherwise, the log of a server that restarts often
 * would never cause a snapshot. */
static void *
recover (void *user_data)
{
  TpsDurable *durable = user_data;
  const Recovery *recovery = &durable->recovery;
  g_autoptr (GError) error = NULL;

  if (recovery->n_snapshot_bytes > 0 || recovery->last_lsn >= recovery->first_lsn)
    trace_progress (durable, &recovery_started);
  if (restore_snapshot (durable, &error) && apply_log (durable, &error))
    tps_snapshot_thread_begin (&durable->snapshots, tps_clock_now_ns (), 0);
  end_recovery (durable, error);
  if (error == NULL)
    {
      /* Remains of snapshots that a crash has left may occupy the room that the log needs. */
      if (!tps_snapshot_delete_incomplete (durable->disk, durable->folder->snapshots_path, &error))
        tps_trace (&snapshot_failed, tps_field_text ("message", error->message));
      tps_snapshot_thread_run (&durable->snapshots);
    }
  return NULL;
}

static void
collect (TpsReading *reading, gpointer user_data)
{
  TpsDurable *durable = user_data;
  TpsDurableStatus status;
  gboolean recovers;
  guint n_segments;
  gint64 n_bytes;

  tps_durable_get_status (durable, &status);
  recovers = status.phase == TPS_DURABLE_RECOVERING || status.phase == TPS_DURABLE_FAILED;
  tps_log_get_size (durable->log, &n_segments, &n_bytes);
  tps_reading_add (reading, &log_segments_family, NULL, NULL, n_segments);
  tps_reading_add (reading, &log_segment_bytes_family, NULL, NULL, n_bytes);
  for (gint i = TPS_DURABLE_RECOVERING; i <= TPS_DURABLE_FAILED; i++)
    tps_reading_add (reading, &phase_family, phases[i].name, NULL, (gint) status.phase == i);
  tps_reading_add (reading, &admitted_lsn_family, NULL, NULL, status.end_lsn);
  tps_reading_add (reading, &durable_lsn_family, NULL, NULL, status.lsn);
  tps_reading_add (reading, &written_bytes_family, NULL, NULL, recovers ? 0 : status.n_bytes_done);
  tps_reading_add (reading, &recovery_bytes_family, NULL, NULL,
                   recovers ? status.n_bytes - status.n_bytes_done : 0);
}

gboolean
tps_durable_start (TpsDurable *durable, const TpsDurableTargets *targets, GError **error)
{
  durable->targets = *targets;
  durable->feed = tps_log_feed_new (durable->log, targets->workers, targets->replies);
  durable->recovery.started_ns = tps_clock_now_ns ();
  numbers_init (&durable->numbers, targets->counters, &durable->snapshot);
  durable->collector = tps_counters_add_collector (targets->counters, collect, durable);
  durable->has_thread = tps_thread_start (&durable->thread, "tps-recovery", recover, durable,
                                          error);
  return durable->has_thread;
}

gboolean
tps_durable_wait (TpsDurable *durable, GError **error)
{
  tps_mutex_lock (&durable->lock);
  while (get_phase (durable) == TPS_DURABLE_RECOVERING)
    tps_cond_wait (&durable->changed, &durable->lock);
  if (durable->error != NULL)
    g_propagate_error (error, g_error_copy (durable->error));
  tps_mutex_unlock (&durable->lock);
  return get_phase (durable) != TPS_DURABLE_FAILED;
}

static gint64
get_system_time_ms (void)
{
  return g_get_real_time () / 1000;
}

TpsDurable *
tps_durable_new (const TpsDurableOptions *options, GError **error)
{
  g_autoptr (TpsDurable) durable = g_new0 (TpsDurable, 1);

  tps_mutex_init (&durable->lock);
  tps_cond_init (&durable->changed);
  atomic_init (&durable->phase, TPS_DURABLE_RECOVERING);
  durable->get_time_ms = options->get_time_ms != NULL ? options->get_time_ms : get_system_time_ms;
  durable->durability = options->durability != 0 ? options->durability : TPS_DURABILITY_COMMIT;
  init_snapshots (durable, options);
  durable->owns_disk = options->disk == NULL;
  durable->disk = durable->owns_disk ? tps_disk_new_posix () : options->disk;
  if (durable->owns_disk && options->faults != NULL)
    durable->disk = tps_faulty_disk_new (durable->disk, options->faults);
  durable->folder = tps_data_folder_open (durable->disk, options->folder, error);
  if (durable->folder == NULL || !open_state (durable, options, error))
    return NULL;
  return g_steal_pointer (&durable);
}

void
tps_durable_stop (TpsDurable *durable)
{
  atomic_store (&durable->stops, TRUE);
  tps_snapshot_thread_stop (&durable->snapshots);
  if (durable->has_thread)
    pthread_join (durable->thread, NULL);
  durable->has_thread = FALSE;
  if (durable->collector != 0)
    tps_counters_remove_collector (durable->numbers.counters, durable->collector);
  durable->collector = 0;
}

/* Closes the log, if there is one. FALSE: commands that were answered may be lost. */
static gboolean
close_log (TpsDurable *durable, GError **error)
{
  GError *loss = NULL;

  if (durable->log == NULL || tps_log_close (g_steal_pointer (&durable->log), &loss))
    return TRUE;
  tps_trace (&last_write_failed, tps_field_text ("folder", durable->folder->path),
             tps_field_text ("message", loss->message));
  g_propagate_error (error, loss);
  return FALSE;
}

gboolean
tps_durable_close (TpsDurable *durable, GError **error)
{
  gboolean is_kept;

  if (durable == NULL)
    return TRUE;
  tps_durable_stop (durable);
  if (durable->feed != NULL)
    tps_log_feed_stop (durable->feed);
  is_kept = close_log (durable, error);
  /* The log may report progress to the feed until the log is closed. */
  g_clear_pointer (&durable->feed, tps_log_feed_free);
  g_free (durable->log_id);
  tps_data_folder_close (durable->folder);
  g_free (durable->restore_from);
  g_free (durable->import_folder);
  if (durable->owns_disk)
    tps_disk_free (durable->disk);
  g_clear_error (&durable->error);
  g_clear_pointer (&durable->numbers.counters, tps_counters_unref);
  tps_snapshot_thread_clear (&durable->snapshots);
  tps_cond_clear (&durable->changed);
  tps_mutex_clear (&durable->lock);
  g_free (durable);
  return is_kept;
}

void
tps_durable_free (TpsDurable *durable)
{
  tps_durable_close (durable, NULL);
}

void
tps_durable_read_log (TpsDurable *durable, const TpsLogFeedRequest *request)
{
  g_autoptr (GError) error = NULL;

  if (tps_durable_check (durable, &error))
    tps_log_feed_read (durable->feed, request);
  else
    request->done (request->user_data, NULL, error);
}

void
tps_durable_drop_follower (TpsDurable *durable, gconstpointer owner)
{
  tps_log_feed_drop_owner (durable->feed, owner);
}

void
tps_durable_drop_followers (TpsDurable *durable)
{
  if (durable->feed != NULL)
    tps_log_feed_shut_down (durable->feed);
}

const gchar *
tps_durable_get_log_id (const TpsDurable *durable)
{
  return durable->log_id;
}

void
tps_durable_flush (TpsDurable *durable, TpsLogDone done, gpointer user_data)
{
  tps_log_flush (durable->log, done, user_data);
}

void
tps_durable_prepare_stop (TpsDurable *durable, TpsLogDone done, gpointer user_data)
{
  tps_log_end_intervals (durable->log);
  tps_log_flush (durable->log, done, user_data);
}

TpsDurability
tps_durable_get_durability (const TpsDurable *durable)
{
  return durable->durability;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/durable/durable.h"

#include <pthread.h>

#include "runtime/base/error.h"
#include "runtime/base/outcome.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"
#include "runtime/server/durable/data_folder.h"
#include "runtime/server/durable/durable_numbers.h"
#include "runtime/server/durable/recovery.h"
#include "runtime/server/durable/snapshot_thread.h"
#include "runtime/server/durable/table_restore.h"

/* What a client is told to wait for a recovery, if there is no estimate or a longer one. */
#define MIN_RETRY_MS 50
#define MAX_RETRY_MS 2000

#define DEFAULT_SNAPSHOT_LOG_BYTES ((gsize) 4 << 30)

static TpsTraceEvent log_torn = TPS_TRACE_EVENT ("log_torn", TPS_TRACE_WARNING);
static TpsTraceEvent snapshot_restored = TPS_TRACE_EVENT ("snapshot_restored", TPS_TRACE_INFO);
static TpsTraceEvent snapshot_written = TPS_TRACE_EVENT ("snapshot_written", TPS_TRACE_INFO);
static TpsTraceEvent snapshot_failed = TPS_TRACE_EVENT ("snapshot_failed", TPS_TRACE_WARNING);
static TpsTraceEvent recovery_done = TPS_TRACE_EVENT ("recovery_done", TPS_TRACE_INFO);
static TpsTraceEvent recovery_failed = TPS_TRACE_EVENT ("recovery_failed", TPS_TRACE_ERROR);

static const struct
{
  const gchar *name;
  guint next;
} phases[] = {
#define BIT(phase) (1u << (phase))
  [TPS_DURABLE_RECOVERING] = { "recovering", BIT (TPS_DURABLE_LIVE) | BIT (TPS_DURABLE_FAILED) },
  [TPS_DURABLE_LIVE] = { "live", BIT (TPS_DURABLE_FULL) | BIT (TPS_DURABLE_READ_ONLY) },
  [TPS_DURABLE_FULL] = { "full", BIT (TPS_DURABLE_LIVE) | BIT (TPS_DURABLE_READ_ONLY) },
  [TPS_DURABLE_READ_ONLY] = { "read-only", 0 },
  [TPS_DURABLE_FAILED] = { "failed", 0 },
#undef BIT
};

static TpsTraceEvent phase_changed = TPS_TRACE_EVENT ("durability_changed", TPS_TRACE_WARNING);

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
  guint collector; /* from start() to stop(); 0 = none */
  /* That the recovery begins with; then the newest one. Its thread changes it with the lock. */
  TpsSnapshotInfo snapshot;
  atomic_bool is_writing_snapshot;
  gchar *restore_from;  /* the folder of a copy that the server begins with; NULL = none */
  gchar *import_folder; /* NULL = none */
  guint snapshot_increments;
  guint keep_snapshots;
  TpsRecovery recovery;
  TpsSnapshotThread snapshots; /* goes on after the recovery, on the same thread */
  atomic_bool stops;
  gboolean has_thread; /* one thread starts and stops */
  pthread_t thread;

  /* Changed under the lock; read without it. Whether there is room, and whether the disk works, is
   * the log's to say: these two phases are what it said last. */
  atomic_int phase;
  TpsMutex lock;
  TpsCond changed;
  GError *error; /* of the recovery, guarded by the lock */
};

const gchar *
tps_durable_phase_name (TpsDurablePhase phase)
{
  return phases[phase].name;
}

static TpsDurablePhase
get_phase (TpsDurable *durable)
{
  return (TpsDurablePhase) atomic_load_explicit (&durable->phase, memory_order_acquire);
}

/* Threads may come with old news: a step that the table does not know is none. */
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

/* ---- commands -------------------------------------------------------------------------------- */

/* Replaces what the log says of a disk that failed: the caller's request is not at fault. */
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

static gboolean
ask_log (TpsDurable *durable, gsize n_bytes, GError **error)
{
  GError *refusal = NULL;

  if (tps_log_may_append (durable->log, n_bytes, &refusal))
    {
      if (get_phase (durable) == TPS_DURABLE_FULL)
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

/* Commands of the recovery are in the log already; services let no others through. */
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
  return ask_log (durable, n_bytes, error);
}

static void
release (gpointer user_data, gint64 lsn, const GError *error)
{
  g_autoptr (GError) lost = error != NULL ? new_read_only_error (error) : NULL;

  TPS_PLANT ("log-error-ignored", g_clear_error (&lost));
  tps_ordered_release (user_data, lost);
}

static void
observe (gpointer user_data, TpsOrdered *ordered)
{
  TpsDurable *durable = user_data;
  const TpsCommand *command = ordered->command;
  TpsDurability durability = command->durability != 0 ? command->durability : durable->durability;

  TPS_PLANT ("commit-as-interval", durability = TPS_DURABILITY_INTERVAL);
  if (get_phase (durable) == TPS_DURABLE_RECOVERING)
    tps_ordered_release (ordered, NULL);
  else
    tps_log_append (durable->log, command, durability, release, ordered);
}

void
tps_durable_init_sequencer (TpsDurable *durable, TpsSequencerOptions *options)
{
  options->observe = observe;
  options->may_admit = may_admit;
  options->user_data = durable;
}

/* ---- recovery -------------------------------------------------------------------------------- */

static void
end_recovery (TpsDurable *durable, const GError *error)
{
  const TpsRecovery *recovery = &durable->recovery;

  if (error == NULL)
    tps_trace (
        &recovery_done, tps_field_int ("lsn", recovery->last_lsn),
        tps_field_int ("bytes", recovery->n_bytes),
        tps_field_real ("seconds", (gdouble) (tps_clock_now_ns () - recovery->started_ns) / 1e9));
  else
    tps_trace (&recovery_failed,
               tps_field_text ("folder", tps_data_folder_get_path (durable->folder)),
               tps_field_text ("message", error->message));
  if (error == NULL && durable->targets.restored != NULL)
    durable->targets.restored (durable->targets.user_data);
  enter (durable, error == NULL ? TPS_DURABLE_LIVE : TPS_DURABLE_FAILED, error);
  if (durable->targets.recovered != NULL)
    durable->targets.recovered (durable->targets.user_data, error);
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

static TpsSnapshotOptions
get_snapshot_options (TpsDurable *durable)
{
  return (TpsSnapshotOptions) {
    .disk = durable->disk,
    .folder = tps_data_folder_get_snapshots_path (durable->folder),
    .sequencer = durable->targets.sequencer,
    .tables = durable->targets.tables,
    .model = durable->targets.model,
    .keep = durable->keep_snapshots,
    .flush = flush_and_wait,
    .is_cancelled = is_cancelled,
    .user_data = durable,
  };
}

static gboolean write_snapshot (TpsDurable *durable, gboolean is_incremental, GError **error);

/* The log does not hold what comes from the copy, so it is lasting only with a snapshot of this
 * directory. */
static gboolean
restore_copy (TpsDurable *durable, GError **error)
{
  TpsSnapshotOptions options = get_snapshot_options (durable);

  return tps_snapshot_restore_copy (&options, durable->restore_from, error)
         && write_snapshot (durable, FALSE, error);
}

static gboolean
restore_snapshot (TpsDurable *durable, GError **error)
{
  TpsSnapshotOptions options = get_snapshot_options (durable);

  if (durable->restore_from != NULL)
    return restore_copy (durable, error);
  if (durable->snapshot.name[0] == '\0')
    return TRUE;
  tps_trace (&snapshot_restored, tps_field_text ("name", durable->snapshot.name),
             tps_field_int ("lsn", durable->snapshot.lsn),
             tps_field_uint ("bytes", durable->snapshot.n_bytes));
  return tps_snapshot_restore (&options, &durable->snapshot, error);
}

/* The thread of the recovery, and later of snapshots. The log that was applied again counts as
 * grown, so that a server which is restarted often does not let it grow for ever. */
static void *
recover (void *user_data)
{
  TpsDurable *durable = user_data;
  g_autoptr (GError) error = NULL;

  if (restore_snapshot (durable, &error) && tps_recovery_run (&durable->recovery, &error))
    tps_snapshot_thread_begin (&durable->snapshots, tps_clock_now_ns (), 0);
  end_recovery (durable, error);
  if (error == NULL)
    tps_snapshot_thread_run (&durable->snapshots);
  return NULL;
}

static void
collect (TpsReading *reading, gpointer durable)
{
  TpsDurableStatus status;

  tps_durable_get_status (durable, &status);
  tps_durable_numbers_collect (reading, &status);
}

gboolean
tps_durable_start (TpsDurable *durable, const TpsDurableTargets *targets, GError **error)
{
  durable->targets = *targets;
  durable->feed = tps_log_feed_new (durable->log, targets->workers, targets->replies);
  durable->recovery.started_ns = tps_clock_now_ns ();
  tps_durable_numbers_init (&durable->numbers, targets->counters, &durable->snapshot);
  durable->collector = tps_counters_add_collector (targets->counters, collect, durable);
  durable->has_thread = pthread_create (&durable->thread, NULL, recover, durable) == 0;
  if (!durable->has_thread)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
                         "no thread for the recovery");
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

static gboolean
refuse_while_recovering (TpsDurable *durable, GError **error)
{
  TpsDurableStatus status;
  GError *refusal;
  gint64 wait_ms;

  tps_durable_get_status (durable, &status);
  wait_ms = status.remaining_ms < 0 ? MIN_RETRY_MS : status.remaining_ms;
  refusal = g_error_new (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                         "the server recovers: command %" G_GINT64_FORMAT " of %" G_GINT64_FORMAT
                         " has been applied",
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
                   tps_data_folder_get_path (durable->folder), durable->error->message);
      tps_mutex_unlock (&durable->lock);
      return FALSE;
    case TPS_DURABLE_LIVE:
    case TPS_DURABLE_FULL:
    case TPS_DURABLE_READ_ONLY:
      break;
    }
  return TRUE;
}

/* ---- snapshots ------------------------------------------------------------------------------- */

/* The bytes that were applied again, and those that were written since. */
static gint64
get_log_bytes (gpointer user_data)
{
  TpsDurable *durable = user_data;

  return atomic_load (&durable->recovery.n_bytes_done) + tps_log_get_written_bytes (durable->log);
}

/* The log that only deleted snapshots needed. If that fails, more is left than is needed: the
 * snapshot is there. */
static void
delete_log (TpsDurable *durable)
{
  g_autoptr (GError) error = NULL;

  if (!tps_log_delete_before (durable->log, durable->snapshot.oldest_lsn + 1, &error))
    tps_trace (&snapshot_failed, tps_field_text ("message", error->message));
}

/* The manifest is on the disk before anything is deleted: first snapshots, then the log. */
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
      tps_durable_numbers_add_failure (&durable->numbers);
      return FALSE;
    }
  tps_mutex_lock (&durable->lock);
  durable->snapshot = info;
  tps_mutex_unlock (&durable->lock);
  tps_durable_numbers_add_snapshot (&durable->numbers, &info, tps_clock_now_ns () - begun_ns);
  tps_snapshot_thread_note (&durable->snapshots, begun_ns, begun_bytes);
  tps_trace (&snapshot_written, tps_field_text ("name", info.name), tps_field_int ("lsn", info.lsn),
             tps_field_uint ("bytes", info.n_bytes),
             tps_field_uint ("increments", info.n_increments));
  delete_log (durable);
  return TRUE;
}

/* An error is traced here, where it does not reach a caller. */
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

/* A requested snapshot, or tables that are made with one. */
typedef struct
{
  TpsDurable *durable;
  gboolean is_incremental;
  const TpsTableSource *source; /* NULL = no tables are made */
  TpsDurableSnapshotDone done;
  gpointer user_data;
  GError *error;
} Request;

static void
run_snapshot (gpointer data)
{
  Request *request = data;

  if (!write_snapshot (request->durable, request->is_incremental, &request->error))
    tps_trace (&snapshot_failed, tps_field_text ("message", request->error->message));
}

static gboolean
write_next_snapshot (gpointer user_data, GError **error)
{
  return write_snapshot (user_data, TRUE, error);
}

static void
run_restore (gpointer data)
{
  Request *request = data;
  TpsDurable *durable = request->durable;
  TpsTableRestoreOptions options = { .disk = durable->disk,
                                     .sequencer = durable->targets.sequencer,
                                     .tables = durable->targets.tables,
                                     .root = durable->import_folder,
                                     .write_snapshot = write_next_snapshot,
                                     .is_cancelled = is_cancelled,
                                     .user_data = durable };

  tps_table_restore_run (&options, request->source, &request->error);
}

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

/* ---- followers ------------------------------------------------------------------------------- */

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

/* ---- what is asked --------------------------------------------------------------------------- */

void
tps_durable_get_status (TpsDurable *durable, TpsDurableStatus *status)
{
  TpsRecovery *recovery = &durable->recovery;

  if (get_phase (durable) != TPS_DURABLE_RECOVERING && get_phase (durable) != TPS_DURABLE_FAILED)
    {
      ask_log (durable, 0, NULL); /* a disk that had no room may have some now */
      *status = (TpsDurableStatus) { .phase = get_phase (durable),
                                     .lsn = tps_log_get_durable_lsn (durable->log),
                                     .end_lsn = tps_sequencer_get_lsn (durable->targets.sequencer),
                                     .n_bytes_done = tps_log_get_written_bytes (durable->log),
                                     .remaining_ms = -1 };
      return;
    }
  *status = (TpsDurableStatus) {
    .phase = get_phase (durable),
    .lsn = atomic_load (&recovery->lsn),
    .end_lsn = recovery->last_lsn,
    .n_bytes_done = atomic_load (&recovery->n_bytes_done),
    .n_bytes = recovery->n_bytes,
    .remaining_ms = tps_recovery_estimate_ms (recovery, tps_clock_now_ns ()),
  };
}

void
tps_durable_get_snapshot (TpsDurable *durable, TpsSnapshotInfo *info, gboolean *is_writing)
{
  tps_mutex_lock (&durable->lock);
  *info = durable->snapshot;
  tps_mutex_unlock (&durable->lock);
  *is_writing = atomic_load (&durable->is_writing_snapshot);
}

void
tps_durable_flush (TpsDurable *durable, TpsLogDone done, gpointer user_data)
{
  tps_log_flush (durable->log, done, user_data);
}

TpsDurability
tps_durable_get_durability (const TpsDurable *durable)
{
  return durable->durability;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* Of the log that begins after `lsn`. */
static gboolean
open_log_after (TpsDurable *durable, const TpsDurableOptions *options, gint64 lsn,
                TpsLogFound *found, GError **error)
{
  TpsLogOptions log = options->log;

  log.interval_ns = options->interval_ns > 0 ? options->interval_ns : TPS_DURABILITY_INTERVAL_NS;
  log.first_lsn = lsn + 1;
  durable->recovery.first_lsn = log.first_lsn;
  durable->log = tps_log_open (durable->disk, tps_data_folder_get_log_path (durable->folder), &log,
                               found, error);
  return durable->log != NULL;
}

/* The directory has no state: the log begins after that of the copy. */
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
  tps_durable_numbers_clear (&durable->numbers);
  g_clear_pointer (&durable->log, tps_log_close);
  tps_log_found_clear (found);
  return open_log_after (durable, options, info.end_lsn, found, error);
}

static gboolean
check_log_end (TpsDurable *durable, const TpsLogFound *found, GError **error)
{
  if (found->last_lsn >= durable->snapshot.end_lsn)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
               "snapshot %s has changes up to command %" G_GINT64_FORMAT
               ", and the log ends with command %" G_GINT64_FORMAT,
               durable->snapshot.name, durable->snapshot.end_lsn, found->last_lsn);
  return FALSE;
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
  durable->recovery.log = durable->log;
  durable->recovery.targets = &durable->targets;
  durable->recovery.stops = &durable->stops;
  durable->recovery.last_lsn = found.last_lsn;
  durable->recovery.n_bytes = found.n_bytes;
  return TRUE;
}

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
find_snapshot (TpsDurable *durable, GError **error)
{
  TpsSnapshotOptions options = get_snapshot_options (durable);

  return tps_snapshot_find (&options, &durable->snapshot, error);
}

static TpsDisk *
new_disk (TpsFaultPlan *faults)
{
  TpsDisk *disk = tps_disk_new ();

  return faults != NULL ? tps_faulty_disk_new (disk, faults) : disk;
}

TpsDurable *
tps_durable_new (const TpsDurableOptions *options, GError **error)
{
  g_autoptr (TpsDurable) durable = g_new0 (TpsDurable, 1);

  tps_mutex_init (&durable->lock);
  tps_cond_init (&durable->changed);
  atomic_init (&durable->phase, TPS_DURABLE_RECOVERING);
  durable->durability = options->durability != 0 ? options->durability : TPS_DURABILITY_COMMIT;
  init_snapshots (durable, options);
  durable->owns_disk = options->disk == NULL;
  durable->disk = durable->owns_disk ? new_disk (options->faults) : options->disk;
  durable->folder = tps_data_folder_open (durable->disk, options->folder, error);
  if (durable->folder == NULL || !find_snapshot (durable, error)
      || !open_log (durable, options, error))
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

void
tps_durable_free (TpsDurable *durable)
{
  if (durable == NULL)
    return;
  tps_durable_stop (durable);
  if (durable->feed != NULL)
    tps_log_feed_stop (durable->feed);
  g_clear_pointer (&durable->log, tps_log_close);
  g_clear_pointer (&durable->feed, tps_log_feed_free);
  g_free (durable->log_id);
  tps_data_folder_close (durable->folder);
  g_free (durable->restore_from);
  g_free (durable->import_folder);
  if (durable->owns_disk)
    tps_disk_free (durable->disk);
  g_clear_error (&durable->error);
  tps_snapshot_thread_clear (&durable->snapshots);
  tps_cond_clear (&durable->changed);
  tps_mutex_clear (&durable->lock);
  g_free (durable);
}

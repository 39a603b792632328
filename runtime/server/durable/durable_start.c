/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The start: from the state in a data directory to a live server.
 *
 *   open_state()   finds the newest snapshot and opens the log after it. If the directory is empty
 *                  and the server begins with a copy of a snapshot, the log begins after the copy.
 *   start()        a thread restores the snapshot and applies the log again. Then the server is
 *                  live, and the thread writes snapshots.
 */

#include "runtime/server/durable/durable_private.h"

#include "runtime/base/error.h"
#include "runtime/base/thread.h"
#include "runtime/base/trace.h"

static TpsTraceEvent log_torn = TPS_TRACE_EVENT ("log_torn", TPS_TRACE_WARNING);
static TpsTraceEvent snapshot_restored = TPS_TRACE_EVENT ("snapshot_restored", TPS_TRACE_INFO);
static TpsTraceEvent recovery_done = TPS_TRACE_EVENT ("recovery_done", TPS_TRACE_INFO);
static TpsTraceEvent recovery_failed = TPS_TRACE_EVENT ("recovery_failed", TPS_TRACE_ERROR);

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
  log.id = tps_data_folder_get_history (durable->folder);
  log.must_exist = tps_data_folder_get_lsn (durable->folder) > 0
                   || durable->snapshot.name[0] != '\0';
  log.reached = note_reached;
  log.user_data = durable->folder;
  durable->recovery.first_lsn = log.first_lsn;
  durable->log = tps_log_open (durable->disk, tps_data_folder_get_log_path (durable->folder), &log,
                               found, error);
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
  g_clear_pointer (&durable->log, tps_log_free);
  tps_log_found_clear (found);
  return open_log_after (durable, options, info.end_lsn, found, error);
}

static gboolean
check_log_end (TpsDurable *durable, const TpsLogFound *found, GError **error)
{
  const gchar *path = tps_data_folder_get_path (durable->folder);
  gint64 reached_lsn = tps_data_folder_get_lsn (durable->folder);

  if (found->last_lsn < reached_lsn)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
                   "data directory %s: its log ends with LSN %" G_GINT64_FORMAT
                   ", but had reached LSN %" G_GINT64_FORMAT
                   ": segments are missing, or are older than the directory; restore the directory "
                   "from a copy, or accept the loss with thriftps_log truncate %s "
                   "--last-lsn=%" G_GINT64_FORMAT " --force",
                   path, found->last_lsn, reached_lsn, path, found->last_lsn);
      return FALSE;
    }
  if (found->last_lsn >= durable->snapshot.end_lsn)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
               "snapshot %s has changes up to LSN %" G_GINT64_FORMAT
               ", but the log ends with LSN %" G_GINT64_FORMAT
               "; restore the data directory from a copy",
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
  durable->recovery.n_snapshot_bytes = (gint64) durable->snapshot.n_bytes;
  return TRUE;
}

static gboolean
check_snapshot (TpsDurable *durable, GError **error)
{
  gint64 needed_lsn = tps_data_folder_get_snapshot_lsn (durable->folder);

  if (durable->snapshot.lsn >= needed_lsn)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_ABORTED,
               "data directory %s: a snapshot is missing: that of LSN %" G_GINT64_FORMAT
               ", or a later one; it has imported or restored rows, which are not in the log; "
               "restore the snapshot or the directory from a copy",
               tps_data_folder_get_path (durable->folder), needed_lsn);
  return FALSE;
}

gboolean
tps_durable_open_state (TpsDurable *durable, const TpsDurableOptions *options, GError **error)
{
  TpsSnapshotOptions snapshots = tps_durable_get_snapshot_options (durable);

  if (tps_snapshot_find (&snapshots, &durable->snapshot, error) && check_snapshot (durable, error)
      && open_log (durable, options, error))
    return TRUE;
  if (durable->restore_from == NULL && options->restore_from == NULL)
    tps_data_folder_explain (error);
  return FALSE;
}

/* Restores the copy. The log does not contain its state, so a snapshot in this directory must make
 * the state durable. */
static gboolean
restore_copy (TpsDurable *durable, GError **error)
{
  TpsSnapshotOptions options = tps_durable_get_snapshot_options (durable);

  return tps_snapshot_restore_copy (&options, durable->restore_from, error)
         && tps_durable_write_needed_snapshot (durable, FALSE, error);
}

static void
note_restored (gpointer user_data, guint64 n_done, guint64 n_bytes)
{
  TpsDurable *durable = user_data;

  tps_recovery_note_restored (&durable->recovery, n_done);
}

static gboolean
restore_snapshot (TpsDurable *durable, GError **error)
{
  TpsSnapshotOptions options = tps_durable_get_snapshot_options (durable);

  if (durable->restore_from != NULL)
    return restore_copy (durable, error);
  if (durable->snapshot.name[0] == '\0')
    return TRUE;
  options.progress = note_restored;
  tps_trace (&snapshot_restored, tps_field_text ("name", durable->snapshot.name),
             tps_field_int ("lsn", durable->snapshot.lsn),
             tps_field_uint ("bytes", durable->snapshot.n_bytes));
  if (!tps_snapshot_restore (&options, &durable->snapshot, error))
    return FALSE;
  tps_recovery_note_restored (&durable->recovery, durable->snapshot.n_bytes);
  return TRUE;
}

static void
end_recovery (TpsDurable *durable, const GError *error)
{
  const TpsRecovery *recovery = &durable->recovery;

  if (error == NULL)
    tps_trace (
        &recovery_done, tps_field_int ("lsn", recovery->last_lsn),
        tps_field_int ("bytes", tps_recovery_get_all_bytes (recovery)),
        tps_field_real ("seconds", (gdouble) (tps_clock_now_ns () - recovery->started_ns) / 1e9));
  else
    tps_trace (&recovery_failed,
               tps_field_text ("folder", tps_data_folder_get_path (durable->folder)),
               tps_field_text ("message", error->message));
  /* restored() must return before the phase LIVE lets requests pass. */
  if (error == NULL && durable->targets.restored != NULL)
    durable->targets.restored (durable->targets.user_data);
  tps_durable_enter (durable, error == NULL ? TPS_DURABLE_LIVE : TPS_DURABLE_FAILED, error);
  if (error == NULL)
    tps_durable_check_log (durable, 0, NULL); /* the disk may be full already */
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
  g_autoptr (GError) error = NULL;

  tps_recovery_begin (&durable->recovery);
  if (restore_snapshot (durable, &error) && tps_recovery_run (&durable->recovery, &error))
    tps_snapshot_thread_begin (&durable->snapshots, tps_clock_now_ns (), 0);
  end_recovery (durable, error);
  if (error == NULL)
    {
      tps_durable_delete_incomplete (durable);
      tps_snapshot_thread_run (&durable->snapshots);
    }
  return NULL;
}

static void
collect (TpsReading *reading, gpointer user_data)
{
  TpsDurable *durable = user_data;
  TpsDurableStatus status;

  tps_durable_get_status (durable, &status);
  tps_durable_numbers_collect (reading, &status, durable->log);
}

gboolean
tps_durable_start (TpsDurable *durable, const TpsDurableTargets *targets, GError **error)
{
  durable->targets = *targets;
  durable->feed = tps_log_feed_new (durable->log, targets->workers, targets->replies);
  durable->recovery.started_ns = tps_clock_now_ns ();
  tps_durable_numbers_init (&durable->numbers, targets->counters, &durable->snapshot);
  durable->collector = tps_counters_add_collector (targets->counters, collect, durable);
  durable->has_thread = tps_thread_start (&durable->thread, "tps-recovery", recover, durable,
                                          error);
  return durable->has_thread;
}

gboolean
tps_durable_wait (TpsDurable *durable, GError **error)
{
  tps_mutex_lock (&durable->lock);
  while (tps_durable_get_phase (durable) == TPS_DURABLE_RECOVERING)
    tps_cond_wait (&durable->changed, &durable->lock);
  if (durable->error != NULL)
    g_propagate_error (error, g_error_copy (durable->error));
  tps_mutex_unlock (&durable->lock);
  return tps_durable_get_phase (durable) != TPS_DURABLE_FAILED;
}

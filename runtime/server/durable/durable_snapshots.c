/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes snapshots: automatic ones, requested ones, and ones that make restored tables durable. */

#include "runtime/server/durable/durable_private.h"

#include "runtime/base/outcome.h"
#include "runtime/base/trace.h"
#include "runtime/server/durable/table_restore.h"

#define DEFAULT_SNAPSHOT_LOG_BYTES ((gsize) 4 << 30)

static TpsTraceEvent snapshot_written = TPS_TRACE_EVENT ("snapshot_written", TPS_TRACE_INFO);
static TpsTraceEvent snapshot_failed = TPS_TRACE_EVENT ("snapshot_failed", TPS_TRACE_WARNING);

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

TpsSnapshotOptions
tps_durable_get_snapshot_options (TpsDurable *durable)
{
  return (TpsSnapshotOptions) {
    .disk = durable->disk,
    .folder = tps_data_folder_get_snapshots_path (durable->folder),
    .history = tps_data_folder_get_history (durable->folder),
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

/* tps_snapshot_write() deletes old snapshots after the manifest of the new one has become durable.
 * The log is deleted last, so every snapshot on the disk has the log that it needs. */
gboolean
tps_durable_write_snapshot (TpsDurable *durable, gboolean is_incremental, GError **error)
{
  TpsSnapshotOptions options = tps_durable_get_snapshot_options (durable);
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

gboolean
tps_durable_write_needed_snapshot (TpsDurable *durable, gboolean is_incremental, GError **error)
{
  return tps_durable_write_snapshot (durable, is_incremental, error)
         && tps_data_folder_raise (durable->folder, durable->snapshot.end_lsn,
                                   durable->snapshot.lsn, error);
}

void
tps_durable_delete_incomplete (TpsDurable *durable)
{
  TpsSnapshotOptions options = tps_durable_get_snapshot_options (durable);
  g_autoptr (GError) error = NULL;

  if (!tps_snapshot_delete_incomplete (&options, &error))
    tps_trace (&snapshot_failed, tps_field_text ("message", error->message));
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
  if (tps_durable_get_phase (durable) == TPS_DURABLE_READ_ONLY)
    return FALSE;
  if (!tps_durable_write_snapshot (durable, TRUE, &error))
    tps_trace (&snapshot_failed, tps_field_text ("message", error->message));
  return error == NULL;
}

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

static void
run_snapshot (gpointer data)
{
  Request *request = data;

  if (!tps_durable_write_snapshot (request->durable, request->is_incremental, &request->error))
    tps_trace (&snapshot_failed, tps_field_text ("message", request->error->message));
}

static gboolean
write_next_snapshot (gpointer user_data, GError **error)
{
  return tps_durable_write_needed_snapshot (user_data, TRUE, error);
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

void
tps_durable_init_snapshots (TpsDurable *durable, const TpsDurableOptions *options)
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

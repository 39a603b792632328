/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/durable/recovery.h"

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"

#define PROGRESS_NS ((gint64) 2 * 1000000000) /* between traces of the progress */

static TpsTraceEvent recovery_started = TPS_TRACE_EVENT ("recovery_started", TPS_TRACE_INFO);
static TpsTraceEvent recovery_progress = TPS_TRACE_EVENT ("recovery_progress", TPS_TRACE_INFO);

static gboolean
refuse (const gchar *what, GError **error)
{
  return tps_fail (error, TPS_ERROR_INVALID_ARGUMENT,
                   "this server cannot apply it, because it needs %s", what);
}

static gboolean
apply (const TpsDurableTargets *targets, const TpsCommand *command, GError **error)
{
  switch (command->kind)
    {
    case TPS_COMMAND_INIT_MODEL:
    case TPS_COMMAND_UPDATE_MODEL:
    case TPS_COMMAND_RESET_MODEL:
      return targets->model != NULL ? tps_model_server_replay (targets->model, command, error)
                                    : refuse ("--services=ParameterServer", error);
    case TPS_COMMAND_CREATE_TABLE:
    case TPS_COMMAND_DROP_TABLE:
    case TPS_COMMAND_APPLY_ROWS:
    case TPS_COMMAND_ASSIGN_ROWS:
    case TPS_COMMAND_APPLY_BAGS:
      return targets->tables != NULL ? tps_table_store_replay (targets->tables, command, error)
                                     : refuse ("--services=EmbeddingTable", error);
    }
  return refuse ("a later version of the server", error);
}

/* Returns TRUE if the directory has had the epoch of the record. */
static gboolean
check_epoch (TpsRecovery *recovery, const TpsLogRecord *record, GError **error)
{
  recovery->time_ms = record->moment.time_ms;
  if (record->moment.epoch <= recovery->epoch)
    return TRUE;
  return tps_fail (error, TPS_ERROR_ABORTED,
                   "command %" G_GINT64_FORMAT
                   " of the log: it has epoch %u, but the data directory "
                   "only %u, so FORMAT is older than the log; restore the directory from a copy",
                   record->lsn, record->moment.epoch, recovery->epoch);
}

/* Applies one record again. A hole in the log (TpsLogRecord in log.h) has no command, because a
 * command of TPS_DURABILITY_NONE leaves only its LSN in the log. */
static gboolean
apply_record (TpsSequencer *sequencer, const TpsDurableTargets *targets, const TpsLogRecord *record,
              GError **error)
{
  if (record->command == NULL)
    {
      tps_sequencer_set_lsn (sequencer, record->lsn);
      return TRUE;
    }
  if (!apply (targets, record->command, error))
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

/* ---- progress -------------------------------------------------------------------------------- */

gint64
tps_recovery_get_all_bytes (const TpsRecovery *recovery)
{
  return recovery->n_snapshot_bytes + recovery->n_bytes;
}

gint64
tps_recovery_get_bytes_done (const TpsRecovery *recovery)
{
  return atomic_load (&recovery->n_restored) + atomic_load (&recovery->n_bytes_done);
}

static void
trace_progress (TpsRecovery *recovery, TpsTraceEvent *event)
{
  recovery->traced_ns = tps_clock_now_ns ();
  tps_trace (
      event, tps_field_int ("lsn", atomic_load (&recovery->lsn)),
      tps_field_int ("last_lsn", recovery->last_lsn),
      tps_field_int ("bytes", tps_recovery_get_bytes_done (recovery)),
      tps_field_int ("all_bytes", tps_recovery_get_all_bytes (recovery)),
      tps_field_int ("remaining_ms", tps_recovery_estimate_ms (recovery, recovery->traced_ns)));
}

static void
trace_progress_if_due (TpsRecovery *recovery)
{
  if (tps_clock_now_ns () - recovery->traced_ns >= PROGRESS_NS)
    trace_progress (recovery, &recovery_progress);
}

void
tps_recovery_begin (TpsRecovery *recovery)
{
  if (recovery->n_snapshot_bytes > 0 || recovery->last_lsn >= recovery->first_lsn)
    trace_progress (recovery, &recovery_started);
}

void
tps_recovery_note_restored (TpsRecovery *recovery, guint64 n_done)
{
  atomic_store (&recovery->n_restored, MIN ((gint64) n_done, recovery->n_snapshot_bytes));
  trace_progress_if_due (recovery);
}

/* ---- the log --------------------------------------------------------------------------------- */

static gboolean
apply_all (TpsRecovery *recovery, TpsLogCursor *cursor, GError **error)
{
  TpsLogRecord record;

  while (atomic_load (&recovery->lsn) < recovery->last_lsn)
    {
      if (atomic_load (recovery->stops))
        return tps_fail (error, TPS_ERROR_ABORTED, "the server is shutting down");
      if (!tps_log_cursor_next (cursor, &record, error) || !check_epoch (recovery, &record, error)
          || !apply_record (recovery->targets->sequencer, recovery->targets, &record, error))
        return FALSE;
      atomic_store (&recovery->lsn, record.lsn);
      atomic_fetch_add (&recovery->n_bytes_done, (gint64) record.n_bytes);
      trace_progress_if_due (recovery);
    }
  TPS_PLANT ("lsn-reused",
             tps_sequencer_set_lsn (recovery->targets->sequencer, recovery->last_lsn - 1));
  return TRUE;
}

gboolean
tps_recovery_run (TpsRecovery *recovery, GError **error)
{
  g_autoptr (TpsLogCursor) cursor = NULL;

  tps_sequencer_set_lsn (recovery->targets->sequencer, recovery->first_lsn - 1);
  TPS_PLANT ("replay-without-last-record", recovery->last_lsn--);
  if (recovery->last_lsn < recovery->first_lsn)
    return TRUE;
  cursor = tps_log_cursor_new (recovery->log, recovery->first_lsn, error);
  return cursor != NULL && apply_all (recovery, cursor, error);
}

gint64
tps_recovery_estimate_ms (TpsRecovery *recovery, gint64 now_ns)
{
  gint64 n_done = tps_recovery_get_bytes_done (recovery);
  gdouble left = (gdouble) MAX (tps_recovery_get_all_bytes (recovery) - n_done, 0);

  if (n_done == 0)
    return -1;
  return (gint64) (left / (gdouble) n_done * (gdouble) (now_ns - recovery->started_ns) / 1e6);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The phases of a server: transitions, checks of requests, and the status. */

#include "runtime/server/durable/durable_private.h"

#include "runtime/base/error.h"
#include "runtime/base/trace.h"

/* The bounds of the retry delay that refused clients get during a recovery. */
#define MIN_RETRY_MS 50
#define MAX_RETRY_MS 2000

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

static TpsTraceEvent phase_changed = TPS_TRACE_EVENT ("durability_changed", TPS_TRACE_WARNING);

const gchar *
tps_durable_phase_name (TpsDurablePhase phase)
{
  return phases[phase].name;
}

/* Threads may report outdated states. A transition that is not in the table is therefore
 * ignored. */
void
tps_durable_enter (TpsDurable *durable, TpsDurablePhase phase, const GError *error)
{
  TpsDurablePhase before;
  gboolean is_step;

  tps_mutex_lock (&durable->lock);
  before = tps_durable_get_phase (durable);
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

/* The log reports an error of the disk. The caller's request is not at fault, so the error becomes
 * UNAVAILABLE. */
GError *
tps_durable_new_read_only_error (const GError *error)
{
  return g_error_new (TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                      "this server is read-only until it is restarted: %s", error->message);
}

static gboolean
is_full (const GError *error)
{
  return g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED);
}

gboolean
tps_durable_check_log (TpsDurable *durable, gsize n_bytes, GError **error)
{
  GError *refusal = NULL;

  if (tps_log_may_append (durable->log, n_bytes, &refusal))
    {
      /* A small command may fit on a full disk. The phase then stays FULL. */
      if (tps_durable_get_phase (durable) == TPS_DURABLE_FULL && !tps_log_is_short (durable->log))
        tps_durable_enter (durable, TPS_DURABLE_LIVE, NULL);
      return TRUE;
    }
  tps_durable_enter (durable, is_full (refusal) ? TPS_DURABLE_FULL : TPS_DURABLE_READ_ONLY,
                     refusal);
  if (is_full (refusal))
    g_propagate_error (error, refusal);
  else
    {
      g_propagate_error (error, tps_durable_new_read_only_error (refusal));
      g_error_free (refusal);
    }
  return FALSE;
}

void
tps_durable_get_status (TpsDurable *durable, TpsDurableStatus *status)
{
  TpsRecovery *recovery = &durable->recovery;
  g_autoptr (GError) reason = NULL;

  if (tps_durable_get_phase (durable) != TPS_DURABLE_RECOVERING
      && tps_durable_get_phase (durable) != TPS_DURABLE_FAILED)
    {
      tps_durable_check_log (durable, 0, NULL); /* a full disk may have room again */
      *status = (TpsDurableStatus) { .phase = tps_durable_get_phase (durable),
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
    .phase = tps_durable_get_phase (durable),
    .lsn = atomic_load (&recovery->lsn),
    .end_lsn = recovery->last_lsn,
    .n_bytes_done = tps_recovery_get_bytes_done (recovery),
    .n_bytes = tps_recovery_get_all_bytes (recovery),
    .remaining_ms = tps_recovery_estimate_ms (recovery, tps_clock_now_ns ()),
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
  switch (tps_durable_get_phase (durable))
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

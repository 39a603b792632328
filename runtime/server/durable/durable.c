/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Creation and destruction of a TpsDurable, and the followers of its log. */

#include "runtime/server/durable/durable.h"

#include "runtime/base/trace.h"
#include "runtime/server/durable/durable_private.h"

static TpsTraceEvent last_write_failed = TPS_TRACE_EVENT ("last_write_failed", TPS_TRACE_ERROR);

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
  tps_durable_init_snapshots (durable, options);
  durable->owns_disk = options->disk == NULL;
  durable->disk = durable->owns_disk ? new_disk (options->faults) : options->disk;
  durable->folder = tps_data_folder_open (durable->disk, options->folder, error);
  if (durable->folder == NULL || !tps_durable_open_state (durable, options, error))
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
  tps_trace (&last_write_failed,
             tps_field_text ("folder", tps_data_folder_get_path (durable->folder)),
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
  tps_durable_numbers_clear (&durable->numbers);
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

/* ---- the log --------------------------------------------------------------------------------- */

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

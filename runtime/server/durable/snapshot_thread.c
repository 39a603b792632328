/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/durable/snapshot_thread.h"

#include "runtime/base/error.h"

/* The interval between checks of the length of the log. */
#define LOOK_NS ((gint64) 1000000000)
#define RETRY_AFTER_MS 2000

void
tps_snapshot_thread_init (TpsSnapshotThread *thread, const TpsSnapshotThreadOptions *options)
{
  *thread = (TpsSnapshotThread) { .options = *options };
  tps_mutex_init (&thread->lock);
  tps_cond_init (&thread->changed);
}

void
tps_snapshot_thread_clear (TpsSnapshotThread *thread)
{
  tps_cond_clear (&thread->changed);
  tps_mutex_clear (&thread->lock);
}

void
tps_snapshot_thread_begin (TpsSnapshotThread *thread, gint64 now_ns, gint64 log_bytes)
{
  TPS_LOCK_SCOPE (&thread->lock);
  thread->has_begun = TRUE;
  thread->last_ns = now_ns;
  thread->last_bytes = log_bytes;
}

void
tps_snapshot_thread_note (TpsSnapshotThread *thread, gint64 now_ns, gint64 log_bytes)
{
  TPS_LOCK_SCOPE (&thread->lock);
  thread->last_ns = now_ns;
  thread->last_bytes = log_bytes;
}

gboolean
tps_snapshot_thread_submit (TpsSnapshotThread *thread, const TpsSnapshotJob *job, GError **error)
{
  TPS_LOCK_SCOPE (&thread->lock);
  if (thread->is_busy || thread->stops)
    {
      tps_fail (error, TPS_ERROR_RESOURCE_EXHAUSTED, "a snapshot is being written or read");
      if (error != NULL)
        tps_error_set_retry_after_ms (*error, RETRY_AFTER_MS);
      return FALSE;
    }
  thread->is_busy = TRUE;
  thread->job = *job;
  tps_cond_broadcast (&thread->changed);
  return TRUE;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* Returns the time at which an automatic snapshot is due, or at which the length of the log must be
 * checked again. The lock is held. */
static gint64
get_due_ns (const TpsSnapshotThread *thread, gint64 now_ns, gint64 log_bytes)
{
  const TpsSnapshotThreadOptions *options = &thread->options;
  gint64 due_ns = G_MAXINT64;

  if (!thread->has_begun || thread->stops)
    return G_MAXINT64;
  if (options->interval_ns > 0)
    due_ns = thread->last_ns + options->interval_ns;
  if (options->log_bytes > 0 && log_bytes - thread->last_bytes >= options->log_bytes)
    due_ns = now_ns;
  else if (options->log_bytes > 0)
    due_ns = MIN (due_ns, now_ns + LOOK_NS);
  return MAX (due_ns, thread->retry_ns);
}

static void
write_due (TpsSnapshotThread *thread, gint64 now_ns, gint64 log_bytes)
{
  gboolean is_written = thread->options.write (thread->options.user_data);

  if (is_written)
    tps_snapshot_thread_note (thread, now_ns, log_bytes);
  TPS_LOCK_SCOPE (&thread->lock);
  thread->is_busy = FALSE;
  thread->retry_ns = is_written ? 0 : now_ns + TPS_SNAPSHOT_RETRY_NS;
}

gboolean
tps_snapshot_thread_step (TpsSnapshotThread *thread, gint64 now_ns, gint64 *wake_ns)
{
  const TpsSnapshotThreadOptions *options = &thread->options;
  gint64 log_bytes = options->log_bytes > 0 ? options->get_log_bytes (options->user_data) : 0;
  TpsSnapshotJob job;
  gboolean is_due;

  tps_mutex_lock (&thread->lock);
  job = thread->job;
  thread->job = (TpsSnapshotJob) { 0 };
  *wake_ns = get_due_ns (thread, now_ns, log_bytes);
  is_due = job.run == NULL && *wake_ns <= now_ns;
  if (is_due)
    thread->is_busy = TRUE;
  tps_mutex_unlock (&thread->lock);
  if (job.run != NULL)
    {
      job.run (job.data);
      tps_mutex_lock (&thread->lock);
      thread->is_busy = FALSE;
      tps_mutex_unlock (&thread->lock);
      job.ended (job.data);
    }
  else if (is_due)
    write_due (thread, now_ns, log_bytes);
  return job.run != NULL || is_due;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Waits for a job, for stop(), or until `wake_ns`. FALSE: the thread must stop. */
static gboolean
wait_for_job (TpsSnapshotThread *thread, gint64 wake_ns)
{
  TPS_LOCK_SCOPE (&thread->lock);
  if (thread->job.run == NULL && !thread->stops)
    {
      if (wake_ns == G_MAXINT64)
        tps_cond_wait (&thread->changed, &thread->lock);
      else
        tps_cond_wait_until (&thread->changed, &thread->lock, wake_ns);
    }
  return !thread->stops || thread->job.run != NULL;
}

void
tps_snapshot_thread_run (TpsSnapshotThread *thread)
{
  gint64 wake_ns = 0;

  do
    while (tps_snapshot_thread_step (thread, tps_clock_now_ns (), &wake_ns))
      ;
  while (wait_for_job (thread, wake_ns));
}

void
tps_snapshot_thread_stop (TpsSnapshotThread *thread)
{
  TPS_LOCK_SCOPE (&thread->lock);
  thread->stops = TRUE;
  tps_cond_broadcast (&thread->changed);
}

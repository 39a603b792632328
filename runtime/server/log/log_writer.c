/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_writer.h"

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"

/* The number of bytes that one step stages, approximately. The disk may be idle meanwhile, so the
 * step must be short. */
#define STAGE_PASS_BYTES ((gsize) 2 << 20)
/* The number of staged entries that may stay in the queue. They are removed together, because a
 * removal moves the rest of the queue. */
#define MAX_KEPT_QUEUE 1024

typedef enum
{
  STEP_NONE = 0,
  STEP_STAGE,
  STEP_WRITE,
  STEP_SPARE,
  STEP_FAIL,
} Step;

void
tps_log_writer_init (TpsLogWriter *writer, const TpsLogFolder *folder, gint64 last_lsn,
                     guint64 last_number, gint64 segment_bytes, gsize stage_bytes,
                     gint64 interval_ns)
{
  *writer = (TpsLogWriter) { .interval_ns = interval_ns,
                             .stage_bytes = stage_bytes,
                             .durable_lsn = last_lsn };
  tps_mutex_init (&writer->lock);
  tps_cond_init (&writer->changed);
  writer->queue = g_array_new (FALSE, FALSE, sizeof (TpsLogEntry));
  writer->infos = g_array_copy (folder->segments);
  tps_log_stage_init (&writer->stages[0], stage_bytes);
  tps_log_stage_init (&writer->stages[1], stage_bytes);
  writer->filling = &writer->stages[0];
  writer->ending = g_array_new (FALSE, FALSE, sizeof (TpsLogEntry));
  tps_segment_writer_init (&writer->segments, folder, last_number, segment_bytes);
}

void
tps_log_writer_clear (TpsLogWriter *writer)
{
  tps_segment_writer_clear (&writer->segments, writer->failure == NULL);
  tps_log_stage_clear (&writer->stages[0]);
  tps_log_stage_clear (&writer->stages[1]);
  g_array_unref (writer->ending);
  g_array_unref (writer->queue);
  g_array_unref (writer->infos);
  g_clear_error (&writer->failure);
  g_clear_error (&writer->no_room);
  tps_cond_clear (&writer->changed);
  tps_mutex_clear (&writer->lock);
}

/* ---- stage being filled (lock held) ---------------------------------------------------------- */

static gboolean
has_queued (const TpsLogWriter *writer)
{
  return writer->n_taken < writer->queue->len;
}

/* Returns TRUE if records may be added to the stage that is being filled. A command that is too
 * long for a stage is copied only while it is written. Later commands must not end before it, so no
 * record may be added until it has ended. */
static gboolean
is_stage_free (const TpsLogWriter *writer)
{
  return !writer->is_staging && !writer->filling->is_full && !writer->ends_large
         && (writer->sealed == NULL || writer->sealed->large == NULL);
}

/* ---- adding entries -------------------------------------------------------------------------- */

/* Stages a hole in the thread of the caller. A hole has only a few bytes, and no caller waits until
 * it is on the disk. It would cost more to wake a thread of the log for each hole. FALSE: the entry
 * must be queued. The lock is held. */
static gboolean
stage_hole (TpsLogWriter *writer, const TpsLogEntry *entry)
{
  const TpsLogInterval interval = { 0 };
  gboolean has_copied;

  return entry->command != NULL && entry->durability == TPS_DURABILITY_NONE
         && writer->failure == NULL && !has_queued (writer) && is_stage_free (writer)
         && tps_log_stage_add (writer->filling, entry, &interval, &has_copied);
}

void
tps_log_writer_add (TpsLogWriter *writer, const TpsLogEntry *entry)
{
  TpsLogEntry queued = *entry;
  gboolean is_staged;

  tps_mutex_lock (&writer->lock);
  if (writer->ends_intervals && queued.durability == TPS_DURABILITY_INTERVAL)
    queued.durability = TPS_DURABILITY_COMMIT;
  is_staged = stage_hole (writer, entry);
  if (!is_staged)
    {
      g_array_append_val (writer->queue, queued);
      tps_cond_signal (&writer->changed);
    }
  tps_mutex_unlock (&writer->lock);
  if (is_staged)
    entry->done (entry->user_data, entry->lsn, NULL);
}

void
tps_log_writer_end_intervals (TpsLogWriter *writer)
{
  tps_mutex_lock (&writer->lock);
  writer->ends_intervals = TRUE;
  tps_mutex_unlock (&writer->lock);
}

/* Returns TRUE if the disk is full and may have no room for `n_bytes`. Bytes that have been added
 * but not written are not counted exactly, because they fit into the margin. The lock is held. */
static gboolean
is_short_of_room (const TpsLogWriter *writer, gsize n_bytes)
{
  gint64 margin = writer->segments.segment_bytes / 8;

  return writer->no_room != NULL
         && (writer->sealed != NULL || n_bytes > G_MAXINT64 / 2
             || writer->room < margin + (gint64) n_bytes);
}

gboolean
tps_log_writer_may_refuse (const TpsLogWriter *writer)
{
  return __atomic_load_n (&writer->may_refuse, __ATOMIC_ACQUIRE);
}

gboolean
tps_log_writer_may_add (TpsLogWriter *writer, gsize n_bytes, GError **error)
{
  const GError *reason = NULL;

  if (!tps_log_writer_may_refuse (writer))
    return TRUE;
  tps_mutex_lock (&writer->lock);
  if (writer->failure != NULL)
    reason = writer->failure;
  else if (is_short_of_room (writer, n_bytes))
    reason = writer->no_room;
  if (reason != NULL && error != NULL)
    {
      *error = g_error_copy (reason);
      if (reason == writer->no_room)
        tps_error_set_retry_after_ms (*error, (gint) (TPS_LOG_RETRY_NS / 1000000));
    }
  tps_mutex_unlock (&writer->lock);
  return reason == NULL;
}

void
tps_log_writer_close (TpsLogWriter *writer)
{
  tps_mutex_lock (&writer->lock);
  writer->is_closing = TRUE;
  tps_cond_broadcast (&writer->changed);
  tps_mutex_unlock (&writer->lock);
}

/* ---- next step (lock held) ------------------------------------------------------------------- */

/* Returns TRUE if the stage has entries that must be written now. */
static gboolean
is_due (const TpsLogWriter *writer, const TpsLogStage *stage, gint64 now_ns)
{
  return !tps_log_stage_is_empty (stage)
         && (stage->is_full || stage->is_urgent || writer->is_closing || now_ns >= stage->write_ns);
}

/* Returns FALSE while the disk is full and the delay before the next attempt has not passed. */
static gboolean
may_try (const TpsLogWriter *writer, gint64 now_ns)
{
  return writer->no_room == NULL || now_ns >= writer->retry_ns || writer->is_closing;
}

/* Returns FALSE if the group needs the next segment while a different thread is making it. Only one
 * thread makes segments at a time, so the group must wait. */
static gboolean
has_segment (const TpsLogWriter *writer, const TpsLogStage *stage)
{
  return !writer->is_making || tps_log_stage_get_bytes (stage) <= writer->room;
}

static gboolean
can_write (const TpsLogWriter *writer, gint64 now_ns)
{
  if (writer->is_writing)
    return FALSE;
  if (writer->sealed != NULL)
    return may_try (writer, now_ns) && has_segment (writer, writer->sealed);
  return !writer->is_staging && is_due (writer, writer->filling, now_ns)
         && has_segment (writer, writer->filling);
}

static gboolean
can_stage (const TpsLogWriter *writer)
{
  return has_queued (writer) && is_stage_free (writer);
}

static gboolean
can_make_spare (const TpsLogWriter *writer, gint64 now_ns)
{
  return writer->wants_spare && !writer->is_making && !writer->makes_own && !writer->is_closing
         && may_try (writer, now_ns);
}

static gboolean
has_anything (const TpsLogWriter *writer)
{
  return has_queued (writer) || writer->sealed != NULL || !tps_log_stage_is_empty (writer->filling);
}

static gboolean
is_at_work (const TpsLogWriter *writer)
{
  return writer->is_staging || writer->is_writing || writer->is_ending || writer->is_making;
}

/* Chooses a step. The next segment has the highest priority if the current one is nearly full, and
 * otherwise the lowest. */
static Step
choose (const TpsLogWriter *writer, gint64 now_ns)
{
  if (writer->failure != NULL)
    return !is_at_work (writer) && has_anything (writer) ? STEP_FAIL : STEP_NONE;
  if (writer->needs_spare && can_make_spare (writer, now_ns))
    return STEP_SPARE;
  if (can_write (writer, now_ns))
    return STEP_WRITE;
  if (can_stage (writer))
    return STEP_STAGE;
  return can_make_spare (writer, now_ns) ? STEP_SPARE : STEP_NONE;
}

/* Returns the time at which there may be a step even if no entry is added: the time to write the
 * stage that is being filled, or the next attempt after a full disk. */
static gint64
get_wake_ns (const TpsLogWriter *writer)
{
  gint64 wake_ns = G_MAXINT64;

  if (writer->failure != NULL || writer->is_writing)
    return wake_ns; /* the writing thread itself chooses the next step after its write */
  if (writer->sealed == NULL && !writer->is_staging && has_segment (writer, writer->filling))
    wake_ns = writer->filling->write_ns;
  if (writer->no_room != NULL && !writer->is_making
      && (writer->sealed != NULL || writer->wants_spare))
    wake_ns = MIN (wake_ns, writer->retry_ns);
  return wake_ns;
}

/* ---- steps (lock held, but released during the work) ----------------------------------------- */

static void
drop_taken (TpsLogWriter *writer)
{
  if (has_queued (writer) && writer->n_taken < MAX_KEPT_QUEUE)
    return;
  g_array_remove_range (writer->queue, 0, writer->n_taken);
  writer->n_taken = 0;
}

static gboolean
is_overdue (const TpsLogStage *stage, gint64 now_ns)
{
  return stage->has_held || now_ns >= stage->due_ns;
}

/* Returns the times for a record of TPS_DURABILITY_INTERVAL that is staged now. A crash must undo
 * only commands that were answered within the last interval. Therefore, the write begins after half
 * an interval. If the disk takes longer than the other half, later records wait for the disk. They
 * also wait while earlier records are held, because commands must end in order. */
static TpsLogInterval
get_interval (const TpsLogWriter *writer, gint64 now_ns)
{
  gboolean must_wait = is_overdue (writer->filling, now_ns) || writer->ends_held
                       || (writer->sealed != NULL && is_overdue (writer->sealed, now_ns));

  return (TpsLogInterval) { .write_ns = must_wait ? now_ns : now_ns + writer->interval_ns / 2,
                            .due_ns = now_ns + writer->interval_ns,
                            .must_wait = must_wait };
}

/* Stages the next entry of the queue. FALSE: the stage is full, or the queue is empty. */
static gboolean
stage_one (TpsLogWriter *writer, TpsLogStage *stage, gint64 now_ns)
{
  TpsLogInterval interval = get_interval (writer, now_ns);
  TpsLogEntry entry;
  gboolean is_taken, has_copied;

  if (!has_queued (writer))
    return FALSE;
  entry = g_array_index (writer->queue, TpsLogEntry, writer->n_taken);
  tps_mutex_unlock (&writer->lock);
  is_taken = tps_log_stage_add (stage, &entry, &interval, &has_copied);
  if (has_copied)
    entry.done (entry.user_data, entry.lsn, NULL);
  tps_mutex_lock (&writer->lock);
  writer->n_taken += is_taken ? 1 : 0;
  if (has_copied && entry.durability == TPS_DURABILITY_INTERVAL)
    writer->promised_lsn = entry.lsn;
  return is_taken;
}

static void
run_stage (TpsLogWriter *writer, gint64 now_ns)
{
  TpsLogStage *stage = writer->filling;
  gsize n_before = stage->n_used;

  writer->is_staging = TRUE;
  while (stage->n_used - n_before < STAGE_PASS_BYTES && stage_one (writer, stage, now_ns))
    ;
  drop_taken (writer);
  writer->is_staging = FALSE;
  /* The next step of this thread may be a write, and no other event would wake the other thread. */
  if (has_queued (writer))
    tps_cond_signal (&writer->changed);
}

/* Updates the room. Must be called by the writing thread, or while no thread writes. */
static void
note_room (TpsLogWriter *writer)
{
  const TpsSegmentWriter *segments = &writer->segments;
  gint64 used = segments->current.offset;

  writer->room = tps_segment_writer_get_room (segments);
  writer->wants_spare = segments->spare.file == NULL && used >= segments->current.size / 2;
  writer->needs_spare = writer->wants_spare && used >= segments->current.size / 4 * 3;
}

/* Notes the result of an operation on the segments. Takes ownership of `error`, which may be NULL.
 * A success does not clear `no_room` while a next segment is still missing. */
static void
note_result (TpsLogWriter *writer, GError *error, gint64 now_ns)
{
  if (error != NULL || !writer->wants_spare)
    g_clear_error (&writer->no_room);
  __atomic_store_n (&writer->may_refuse,
                    error != NULL || writer->no_room != NULL || writer->failure != NULL,
                    __ATOMIC_RELEASE);
  if (error == NULL)
    return;
  g_prefix_error (&error, "log: ");
  if (g_error_matches (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED) && !writer->is_closing)
    {
      writer->no_room = error;
      writer->retry_ns = now_ns + TPS_LOG_RETRY_NS;
    }
  else if (writer->failure == NULL)
    writer->failure = error;
  else
    g_error_free (error);
}

gboolean
tps_log_writer_begin (TpsLogWriter *writer, GError **error)
{
  GError *failure = NULL;

  tps_segment_writer_make_spare (&writer->segments, &failure);
  if (failure != NULL && !g_error_matches (failure, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    {
      g_propagate_error (error, failure);
      return FALSE;
    }
  note_room (writer);
  note_result (writer, failure, tps_clock_now_ns ());
  return TRUE;
}

/* Makes the next segment. Reserving room and syncing take long, so the other thread may write to
 * the current segment meanwhile. */
static void
run_spare (TpsLogWriter *writer, gint64 now_ns)
{
  guint64 number = writer->segments.current.head.number + 1;
  TpsOpenSegment spare;
  GError *error = NULL;

  writer->is_making = TRUE;
  tps_mutex_unlock (&writer->lock);
  tps_segment_writer_make_segment (&writer->segments, number, &spare, &error);
  tps_mutex_lock (&writer->lock);
  writer->is_making = FALSE;
  writer->segments.spare = spare;
  if (writer->is_writing)
    writer->wants_spare = spare.file == NULL; /* the writing thread calls note_room() */
  else
    note_room (writer);
  note_result (writer, error, now_ns);
  if (has_anything (writer) || writer->is_closing)
    tps_cond_broadcast (&writer->changed);
}

/* Writes the sealed group. A failed write is final, even if the disk is full, because room for the
 * group was reserved. RESOURCE_EXHAUSTED, which is not final, is therefore replaced by INTERNAL. */
static gboolean
write_sealed (TpsLogWriter *writer, GError **error)
{
  TpsSegmentWriter *segments = &writer->segments;
  TpsLogStage *stage = writer->sealed;
  gint64 n_bytes = tps_log_stage_get_bytes (stage);

  if (n_bytes == 0)
    return TRUE;
  if (!tps_segment_writer_reserve (segments, n_bytes, error))
    return FALSE;
  if (tps_segment_writer_write (segments, stage, error))
    return TRUE;
  if (error != NULL && g_error_matches (*error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    (*error)->code = TPS_ERROR_INTERNAL;
  return FALSE;
}

/* Returns TRUE if the group was the first one of its segment. */
static gboolean
note_written (TpsLogWriter *writer, const TpsLogStage *stage)
{
  gint64 n_bytes = tps_log_stage_get_bytes (stage);
  TpsSegmentInfo info = { .number = writer->segments.current.head.number,
                          .first_lsn = stage->first_lsn };
  GArray *infos = writer->infos;
  gboolean is_first = infos->len == 0
                      || g_array_index (infos, TpsSegmentInfo, infos->len - 1).number
                             != info.number;

  if (n_bytes == 0)
    return FALSE;
  if (is_first)
    g_array_append_val (infos, info);
  g_array_index (infos, TpsSegmentInfo, infos->len - 1).n_bytes = writer->segments.current.offset;
  writer->durable_lsn = stage->last_lsn;
  writer->n_written += n_bytes;
  return is_first;
}

static TpsLogStage *
other_stage (TpsLogWriter *writer)
{
  return writer->filling == &writer->stages[0] ? &writer->stages[1] : &writer->stages[0];
}

/* Ends the entries of the group that has been written. Releases the stage and the disk before it
 * calls done(), so the other thread can continue. Waits for an earlier group that is still being
 * ended, because entries must end in order. */
static void
end_written (TpsLogWriter *writer)
{
  TpsLogStage *stage = writer->sealed;
  GArray *waiting = stage->waiting;
  void (*advanced) (gpointer, gint64) = writer->advanced;
  gpointer advanced_data = writer->advanced_data;
  gboolean is_first = note_written (writer, stage);
  gint64 lsn = writer->durable_lsn;
  g_autoptr (GError) failure = NULL;

  writer->n_end_waiters++;
  while (writer->is_ending)
    tps_cond_wait (&writer->changed, &writer->lock);
  writer->n_end_waiters--;
  stage->waiting = writer->ending; /* empty: its entries have ended */
  writer->ending = waiting;
  writer->is_ending = TRUE;
  writer->must_report = writer->reached != NULL && (is_first || writer->must_report);
  writer->ends_large = stage->large != NULL;
  writer->ends_held = stage->has_held;
  tps_log_stage_empty (stage);
  writer->sealed = NULL;
  writer->is_writing = FALSE;
  if (has_anything (writer))
    tps_cond_broadcast (&writer->changed);
  tps_mutex_unlock (&writer->lock);

  if (writer->must_report)
    writer->must_report = !writer->reached (writer->reached_data, lsn, &failure);
  if (g_error_matches (failure, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    g_clear_error (&failure);
  if (failure != NULL)
    {
      tps_mutex_lock (&writer->lock);
      note_result (writer, g_error_copy (failure), 0);
      tps_mutex_unlock (&writer->lock);
    }
  tps_log_entries_end (writer->ending, lsn, failure);
  if (advanced != NULL)
    advanced (advanced_data, lsn);

  tps_mutex_lock (&writer->lock);
  g_array_set_size (writer->ending, 0);
  if (writer->n_end_waiters > 0 || writer->ends_large || writer->failure != NULL
      || writer->is_closing)
    tps_cond_broadcast (&writer->changed);
  writer->is_ending = writer->ends_large = writer->ends_held = FALSE;
}

static void
run_write (TpsLogWriter *writer, gint64 now_ns)
{
  GError *error = NULL;
  gboolean is_written;

  writer->is_writing = TRUE;
  if (writer->sealed == NULL)
    {
      writer->sealed = writer->filling;
      writer->filling = other_stage (writer);
    }
  writer->makes_own = tps_log_stage_get_bytes (writer->sealed) > writer->room;
  tps_mutex_unlock (&writer->lock);
  is_written = write_sealed (writer, &error);
  TPS_PLANT ("sync-error-ignored", is_written = TRUE; g_clear_error (&error));
  tps_mutex_lock (&writer->lock);
  writer->makes_own = FALSE;
  note_room (writer);
  note_result (writer, error, now_ns);
  if (is_written)
    end_written (writer);
  else
    writer->is_writing = FALSE;
}

static void
end_with (const GError *failure, const TpsLogEntry *entry)
{
  entry->done (entry->user_data, entry->lsn, failure);
}

/* Ends all entries with the failure. No thread stages or writes any more, because a failure is
 * final. */
static void
run_fail (TpsLogWriter *writer)
{
  g_autoptr (GArray) queue = writer->queue;
  TpsLogStage *sealed = writer->sealed;
  guint n_taken = writer->n_taken;

  writer->is_staging = writer->is_writing = writer->is_ending = TRUE;
  writer->queue = g_array_new (FALSE, FALSE, sizeof (TpsLogEntry));
  writer->n_taken = 0;
  tps_mutex_unlock (&writer->lock);
  if (sealed != NULL)
    tps_log_entries_end (sealed->waiting, 0, writer->failure);
  tps_log_entries_end (writer->filling->waiting, 0, writer->failure);
  for (guint i = n_taken; i < queue->len; i++)
    end_with (writer->failure, &g_array_index (queue, TpsLogEntry, i));
  tps_mutex_lock (&writer->lock);
  if (sealed != NULL)
    tps_log_stage_empty (sealed);
  tps_log_stage_empty (writer->filling);
  writer->sealed = NULL;
  writer->is_staging = writer->is_writing = writer->is_ending = FALSE;
}

static gboolean
take_step (TpsLogWriter *writer, gint64 now_ns)
{
  switch (choose (writer, now_ns))
    {
    case STEP_NONE:
      return FALSE;
    case STEP_STAGE:
      run_stage (writer, now_ns);
      break;
    case STEP_WRITE:
      run_write (writer, now_ns);
      break;
    case STEP_SPARE:
      run_spare (writer, now_ns);
      break;
    case STEP_FAIL:
      run_fail (writer);
      break;
    }
  return TRUE;
}

gboolean
tps_log_writer_step (TpsLogWriter *writer, gint64 now_ns, gint64 *wake_ns)
{
  gboolean has_worked;

  tps_mutex_lock (&writer->lock);
  has_worked = take_step (writer, now_ns);
  *wake_ns = get_wake_ns (writer);
  tps_mutex_unlock (&writer->lock);
  return has_worked;
}

void
tps_log_writer_run (TpsLogWriter *writer)
{
  tps_mutex_lock (&writer->lock);
  for (;;)
    {
      if (take_step (writer, tps_clock_now_ns ()))
        continue;
      if (writer->is_closing && !is_at_work (writer) && !has_anything (writer))
        break;
      if (get_wake_ns (writer) == G_MAXINT64)
        tps_cond_wait (&writer->changed, &writer->lock);
      else
        tps_cond_wait_until (&writer->changed, &writer->lock, get_wake_ns (writer));
    }
  tps_cond_broadcast (&writer->changed);
  tps_mutex_unlock (&writer->lock);
}

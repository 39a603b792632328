/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/log_writer.h"

#include <string.h>

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

/* The times that apply to a record of TPS_DURABILITY_INTERVAL that is added now. */
typedef struct
{
  gint64 write_ns, due_ns; /* see TpsLogStage */
  gboolean must_wait;      /* earlier records are overdue, so the record waits for the disk */
} TpsLogInterval;

static gsize
pad (gsize n_bytes)
{
  return (n_bytes + TPS_DISK_BLOCK - 1) & ~(gsize) (TPS_DISK_BLOCK - 1);
}

static void
stage_empty (TpsLogStage *stage)
{
  g_array_set_size (stage->waiting, 0);
  stage->n_used = TPS_LOG_GROUP_HEADER;
  stage->n_records = 0;
  stage->is_full = FALSE;
  stage->is_urgent = FALSE;
  stage->write_ns = G_MAXINT64;
  stage->due_ns = G_MAXINT64;
  stage->has_held = FALSE;
  stage->large = NULL;
}

/* Makes an empty stage, in the caller's storage, with a buffer of `capacity` bytes, which must be a
 * multiple of TPS_DISK_BLOCK. */
static void
stage_init (TpsLogStage *stage, gsize capacity)
{
  *stage = (TpsLogStage) { .data = g_aligned_alloc (1, capacity, TPS_DISK_BLOCK),
                           .capacity = capacity,
                           .waiting = g_array_new (FALSE, FALSE, sizeof (TpsLogEntry)) };
  stage_empty (stage);
}

static void
stage_clear (TpsLogStage *stage)
{
  g_array_unref (stage->waiting);
  g_aligned_free (stage->data);
}

static gboolean
stage_is_empty (const TpsLogStage *stage)
{
  return stage->n_records == 0 && stage->waiting->len == 0;
}

/* Returns the size of the group, padding included; 0: there is no record. */
static gint64
stage_get_bytes (const TpsLogStage *stage)
{
  if (stage->n_records == 0)
    return 0;
  return stage->large != NULL ? stage->large_bytes : (gint64) pad (stage->n_used);
}

/* Adds the record of an entry. FALSE: the stage is not empty, and has no room for this record. */
static gboolean
add_record (TpsLogStage *stage, const TpsLogEntry *entry)
{
  gsize n_bytes;

  tps_record_plan_set (&stage->plan, entry->command, entry->durability != TPS_DURABILITY_NONE);
  n_bytes = stage->plan.n_bytes;
  if (stage->large != NULL || (n_bytes > stage->capacity - stage->n_used && stage->n_records > 0))
    return FALSE;
  if (n_bytes > stage->capacity - stage->n_used)
    {
      stage->large = entry->command; /* encoded while it is written */
      stage->large_bytes = (gint64) pad (stage->n_used + n_bytes);
    }
  else
    {
      tps_record_encode (&stage->plan, stage->data + stage->n_used);
      stage->n_used += n_bytes;
    }
  if (stage->n_records++ == 0)
    stage->first_lsn = entry->lsn;
  stage->last_lsn = entry->lsn;
  return TRUE;
}

/* Encodes the entry's record after the other records of the stage. FALSE: the record does not fit,
 * and the stage is full. Sets `has_copied` to TRUE if the command is not needed any more and the
 * entry does not wait for the disk; the caller must then call done(). */
static gboolean
stage_add (TpsLogStage *stage, const TpsLogEntry *entry, const TpsLogInterval *interval,
           gboolean *has_copied)
{
  *has_copied = FALSE;
  if (entry->command != NULL && !add_record (stage, entry))
    {
      stage->is_full = TRUE;
      return FALSE;
    }
  TPS_PLANT ("ack-when-staged", stage->is_urgent = *has_copied = TRUE; return TRUE);
  if (entry->command == NULL || entry->durability == TPS_DURABILITY_COMMIT || stage->large != NULL)
    {
      stage->is_urgent = TRUE;
      g_array_append_val (stage->waiting, *entry);
      return TRUE;
    }
  if (entry->durability == TPS_DURABILITY_INTERVAL)
    {
      stage->write_ns = MIN (stage->write_ns, interval->write_ns);
      stage->due_ns = MIN (stage->due_ns, interval->due_ns);
      if (interval->must_wait)
        {
          stage->has_held = TRUE;
          g_array_append_val (stage->waiting, *entry);
          return TRUE;
        }
    }
  *has_copied = TRUE;
  return TRUE;
}

/* Calls done() of `entries`, an array of TpsLogEntry, with `error` (NULL: none). Flushes get
 * `lsn`. */
static void
entries_end (const GArray *entries, gint64 lsn, const GError *error)
{
  for (guint i = 0; i < entries->len; i++)
    {
      const TpsLogEntry *entry = &g_array_index (entries, TpsLogEntry, i);

      entry->done (entry->user_data, entry->command != NULL ? entry->lsn : lsn, error);
    }
}

static TpsDisk *
get_disk (const TpsSegmentWriter *writer)
{
  return writer->folder->disk;
}

static gchar *
path_of (const TpsSegmentWriter *writer, guint64 number)
{
  g_autofree gchar *name = tps_log_segment_name (number);

  return g_build_filename (writer->folder->path, name, NULL);
}

static gboolean
write_head (TpsOpenSegment *segment, GError **error)
{
  guint8 *block = g_aligned_alloc (1, TPS_DISK_BLOCK, TPS_DISK_BLOCK);
  gboolean is_written;

  tps_segment_encode_head (block, &segment->head);
  is_written = segment->file->disk->write (segment->file, block, TPS_DISK_BLOCK, 0, TRUE, error);
  g_aligned_free (block);
  return is_written;
}

/* Makes the file of a segment. On success, its room, its head and its name are on the disk. */
static gboolean
make_file (const TpsSegmentWriter *writer, TpsOpenSegment *segment, const gchar *path,
           GError **error)
{
  TpsDisk *disk = get_disk (writer);

  /* A failed attempt may have left this file. The error is ignored, because usually the file does
   * not exist. */
  disk->remove (disk, path, NULL);
  segment->file = disk->open (disk, path, TPS_DISK_CREATE | TPS_DISK_DIRECT, error);
  return segment->file != NULL && disk->preallocate (segment->file, segment->size, error)
         && write_head (segment, error) && disk->sync_folder (disk, writer->folder->path, error);
}

/* Makes the segment `number`, with its room reserved, and syncs it. No other thread may make this
 * segment meanwhile. The caller must store the segment as the spare. Errors: RESOURCE_EXHAUSTED,
 * after which the caller may try again; all others are final. Thread: any, even while a different
 * thread writes. */
static gboolean
make_segment (const TpsSegmentWriter *writer, guint64 number, TpsOpenSegment *segment,
              GError **error)
{
  TpsDisk *disk = get_disk (writer);
  g_autofree gchar *path = path_of (writer, number);

  *segment = (TpsOpenSegment) { .size = writer->segment_bytes, .offset = TPS_LOG_FIRST_GROUP };
  segment->head = (TpsSegmentHead) {
    .id = writer->folder->id,
    .number = number,
    .stamp = (guint64) g_random_int () << 32 | g_random_int (),
  };
  if (make_file (writer, segment, path, error))
    return TRUE;
  if (segment->file != NULL)
    {
      disk->close (segment->file);
      disk->remove (disk, path, NULL);
    }
  *segment = (TpsOpenSegment) { 0 };
  return FALSE;
}

/* Makes the segment after the current one, as the spare, unless there is a spare. Errors: as
 * make_segment(). */
static gboolean
make_spare (TpsSegmentWriter *writer, GError **error)
{
  return writer->spare.file != NULL
         || make_segment (writer, writer->current.head.number + 1, &writer->spare, error);
}

static gboolean
has_room (const TpsOpenSegment *segment, gint64 n_bytes)
{
  return segment->file != NULL && n_bytes <= segment->size - segment->offset;
}

/* Closes a segment, and releases its unused room. A failure to release the room has no
 * consequences. */
static void
finish_segment (TpsSegmentWriter *writer, TpsOpenSegment *segment)
{
  TpsDisk *disk = get_disk (writer);

  if (segment->file == NULL)
    return;
  if (segment->offset < segment->size)
    disk->truncate (segment->file, segment->offset, NULL);
  disk->close (segment->file);
  segment->file = NULL;
}

/* Ensures that the current segment has room for a group of `n_bytes`; otherwise the next segment
 * becomes the current one. Errors: as make_spare(). */
static gboolean
segment_writer_reserve (TpsSegmentWriter *writer, gint64 n_bytes, GError **error)
{
  TpsOpenSegment *spare = &writer->spare;

  if (has_room (&writer->current, n_bytes))
    return TRUE;
  if (!make_spare (writer, error))
    return FALSE;
  if (!has_room (spare, n_bytes))
    {
      /* The group is longer than a segment. The length of the file is synced first, so no group
       * reaches beyond the end of the file after a power cut. */
      if (!get_disk (writer)->preallocate (spare->file, spare->offset + n_bytes, error)
          || !get_disk (writer)->sync (spare->file, error))
        return FALSE;
      spare->size = spare->offset + n_bytes;
    }
  finish_segment (writer, &writer->current);
  writer->current = *spare;
  *spare = (TpsOpenSegment) { 0 };
  return TRUE;
}

/* Closes and removes a segment without a group. Each removal is synced before the next one, so the
 * numbers of the segments have no gap after a power cut. */
static void
discard_segment (TpsSegmentWriter *writer, TpsOpenSegment *segment)
{
  TpsDisk *disk = get_disk (writer);
  g_autofree gchar *path = path_of (writer, segment->head.number);

  disk->close (segment->file);
  segment->file = NULL;
  disk->remove (disk, path, NULL);
  disk->sync_folder (disk, writer->folder->path, NULL);
}

/* Closes the files. If `is_sound` is TRUE, because the disk has not failed, unused reserved room is
 * released. */
static void
segment_writer_clear (TpsSegmentWriter *writer, gboolean is_sound)
{
  TpsOpenSegment *segments[] = { &writer->spare, &writer->current };

  for (guint i = 0; i < G_N_ELEMENTS (segments); i++)
    if (segments[i]->file != NULL && !is_sound)
      segments[i]->file->disk->close (segments[i]->file);
    else if (segments[i]->file != NULL && segments[i]->offset == TPS_LOG_FIRST_GROUP)
      discard_segment (writer, segments[i]);
    else
      finish_segment (writer, segments[i]);
}

static gboolean
write_part (TpsSegmentWriter *writer, const guint8 *data, gsize n_bytes, gint64 offset,
            gboolean is_sync, GError **error)
{
  TPS_PLANT ("write-without-sync", is_sync = FALSE);
  return get_disk (writer)->write (writer->current.file, data, n_bytes, offset, is_sync, error);
}

static gboolean
write_small (TpsSegmentWriter *writer, TpsLogStage *stage, TpsGroupHead *group, GError **error)
{
  memset (stage->data + stage->n_used, 0, (gsize) group->n_bytes - stage->n_used);
  /* The first sector is not counted. It has the head, which is not zero but has not been encoded
   * yet. */
  group->n_zero_sectors = tps_group_count_zero_sectors (stage->data + TPS_DISK_SECTOR,
                                                        (gsize) group->n_bytes - TPS_DISK_SECTOR);
  tps_group_encode_head (stage->data, group);
  return write_part (writer, stage->data, (gsize) group->n_bytes, group->offset, TRUE, error);
}

/* Encodes a record that is longer than a stage while it is written. The first block, with the
 * heads, is written last, because their contents are known only then. The sync of this last write
 * covers all writes. */
static gboolean
write_large (TpsSegmentWriter *writer, TpsLogStage *stage, TpsGroupHead *group, GError **error)
{
  guint8 *first = g_aligned_alloc (1, TPS_DISK_BLOCK, TPS_DISK_BLOCK);
  gsize n_heads = TPS_LOG_GROUP_HEADER + TPS_LOG_RECORD_HEADER;
  gboolean is_written = TRUE;

  tps_record_plan_set (&stage->plan, stage->large, TRUE);
  tps_record_encode_begin (&stage->plan);
  tps_record_encode_some (&stage->plan, first + n_heads, TPS_DISK_BLOCK - n_heads);
  for (gint64 at = TPS_DISK_BLOCK; at < group->n_bytes && is_written;
       at += (gint64) stage->capacity)
    {
      gsize n_bytes = MIN (stage->capacity, (gsize) (group->n_bytes - at));
      gsize n_encoded = tps_record_encode_some (&stage->plan, stage->data, n_bytes);

      memset (stage->data + n_encoded, 0, n_bytes - n_encoded);
      group->n_zero_sectors += tps_group_count_zero_sectors (stage->data, n_bytes);
      is_written = write_part (writer, stage->data, n_bytes, group->offset + at, FALSE, error);
    }
  tps_record_encode_end (&stage->plan, first + TPS_LOG_GROUP_HEADER);
  group->n_zero_sectors += tps_group_count_zero_sectors (first + TPS_DISK_SECTOR,
                                                         TPS_DISK_BLOCK - TPS_DISK_SECTOR);
  tps_group_encode_head (first, group);
  is_written = is_written && write_part (writer, first, TPS_DISK_BLOCK, group->offset, TRUE, error);
  g_aligned_free (first);
  return is_written;
}

/* Writes the group of `stage`, for which room must be reserved, and syncs it. All errors are
 * final. */
static gboolean
segment_writer_write (TpsSegmentWriter *writer, TpsLogStage *stage, GError **error)
{
  TpsGroupHead group = { .stamp = writer->current.head.stamp,
                         .offset = writer->current.offset,
                         .n_bytes = stage_get_bytes (stage),
                         .first_lsn = stage->first_lsn,
                         .n_records = stage->n_records };
  gboolean is_written = stage->large != NULL ? write_large (writer, stage, &group, error)
                                             : write_small (writer, stage, &group, error);

  TPS_PLANT ("group-overwritten", return is_written);
  if (is_written)
    writer->current.offset += group.n_bytes;
  return is_written;
}

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
  stage_init (&writer->stages[0], stage_bytes);
  stage_init (&writer->stages[1], stage_bytes);
  writer->filling = &writer->stages[0];
  writer->ending = g_array_new (FALSE, FALSE, sizeof (TpsLogEntry));
  writer->segments = (TpsSegmentWriter) { .folder = folder,
                                          .segment_bytes = segment_bytes,
                                          .current.head.number = last_number };
}

void
tps_log_writer_clear (TpsLogWriter *writer)
{
  segment_writer_clear (&writer->segments, writer->failure == NULL);
  stage_clear (&writer->stages[0]);
  stage_clear (&writer->stages[1]);
  g_array_unref (writer->ending);
  g_array_unref (writer->queue);
  g_array_unref (writer->infos);
  g_clear_error (&writer->failure);
  g_clear_error (&writer->no_room);
  tps_cond_clear (&writer->changed);
  tps_mutex_clear (&writer->lock);
}

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
         && stage_add (writer->filling, entry, &interval, &has_copied);
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
tps_log_writer_may_add (TpsLogWriter *writer, gsize n_bytes, GError **error)
{
  const GError *reason = NULL;

  if (!__atomic_load_n (&writer->may_refuse, __ATOMIC_ACQUIRE))
    return TRUE;
  TPS_LOCK_SCOPE (&writer->lock);
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
  return reason == NULL;
}

void
tps_log_writer_close (TpsLogWriter *writer)
{
  TPS_LOCK_SCOPE (&writer->lock);
  writer->is_closing = TRUE;
  tps_cond_broadcast (&writer->changed);
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
  return !writer->is_making || stage_get_bytes (stage) <= writer->room;
}

static gboolean
can_write (const TpsLogWriter *writer, gint64 now_ns)
{
  if (writer->is_writing)
    return FALSE;
  if (writer->sealed != NULL)
    return may_try (writer, now_ns) && has_segment (writer, writer->sealed);
  return !writer->is_staging && !stage_is_empty (writer->filling)
         && (writer->filling->is_full || writer->filling->is_urgent || writer->is_closing
             || now_ns >= writer->filling->write_ns)
         && has_segment (writer, writer->filling);
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
  return has_queued (writer) || writer->sealed != NULL || !stage_is_empty (writer->filling);
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
  if (has_queued (writer) && is_stage_free (writer))
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

/* Stages the next entry of the queue, which must not be empty. FALSE: the stage is full. */
static gboolean
stage_one (TpsLogWriter *writer, TpsLogStage *stage, gint64 now_ns)
{
  TpsLogInterval interval = get_interval (writer, now_ns);
  TpsLogEntry entry;
  gboolean is_taken, has_copied;

  entry = g_array_index (writer->queue, TpsLogEntry, writer->n_taken);
  tps_mutex_unlock (&writer->lock);
  is_taken = stage_add (stage, &entry, &interval, &has_copied);
  if (has_copied)
    entry.done (entry.user_data, entry.lsn, NULL);
  tps_mutex_lock (&writer->lock);
  writer->n_taken += is_taken ? 1 : 0;
  if (has_copied && entry.durability == TPS_DURABILITY_INTERVAL)
    writer->promised_lsn = entry.lsn;
  return is_taken;
}

/* Stages the entries that were queued at `now_ns`. Entries that are added meanwhile are left to
 * the next step, which has a later time: `now_ns` may be too early to see that an interval has
 * ended. */
static void
run_stage (TpsLogWriter *writer, gint64 now_ns)
{
  TpsLogStage *stage = writer->filling;
  const gsize n_before = stage->n_used;
  const guint n_queued = writer->queue->len;

  writer->is_staging = TRUE;
  while (writer->n_taken < n_queued && stage->n_used - n_before < STAGE_PASS_BYTES
         && stage_one (writer, stage, now_ns))
    ;
  if (!has_queued (writer) || writer->n_taken >= MAX_KEPT_QUEUE)
    {
      g_array_remove_range (writer->queue, 0, writer->n_taken);
      writer->n_taken = 0;
    }
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

  writer->room = segments->current.size - used + (segments->spare.size - segments->spare.offset);
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

  make_spare (&writer->segments, &failure);
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
  make_segment (&writer->segments, number, &spare, &error);
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
  gint64 n_bytes = stage_get_bytes (stage);

  if (n_bytes == 0)
    return TRUE;
  if (!segment_writer_reserve (segments, n_bytes, error))
    return FALSE;
  if (segment_writer_write (segments, stage, error))
    return TRUE;
  if (error != NULL && g_error_matches (*error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED))
    (*error)->code = TPS_ERROR_INTERNAL;
  return FALSE;
}

/* Returns TRUE if the group was the first one of its segment. */
static gboolean
note_written (TpsLogWriter *writer, const TpsLogStage *stage)
{
  gint64 n_bytes = stage_get_bytes (stage);
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
  stage_empty (stage);
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
  entries_end (writer->ending, lsn, failure);
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
      writer->filling = writer->sealed == &writer->stages[0] ? &writer->stages[1]
                                                             : &writer->stages[0];
    }
  writer->makes_own = stage_get_bytes (writer->sealed) > writer->room;
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
    entries_end (sealed->waiting, 0, writer->failure);
  entries_end (writer->filling->waiting, 0, writer->failure);
  for (guint i = n_taken; i < queue->len; i++)
    {
      const TpsLogEntry *entry = &g_array_index (queue, TpsLogEntry, i);

      entry->done (entry->user_data, entry->lsn, writer->failure);
    }
  tps_mutex_lock (&writer->lock);
  if (sealed != NULL)
    stage_empty (sealed);
  stage_empty (writer->filling);
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

  TPS_LOCK_SCOPE (&writer->lock);
  has_worked = take_step (writer, now_ns);
  *wake_ns = get_wake_ns (writer);
  return has_worked;
}

void
tps_log_writer_run (TpsLogWriter *writer)
{
  TPS_LOCK_SCOPE (&writer->lock);
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
}

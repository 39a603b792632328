/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/segment_writer.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"

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

void
tps_segment_writer_init (TpsSegmentWriter *writer, const TpsLogFolder *folder, guint64 last_number,
                         gint64 segment_bytes)
{
  *writer = (TpsSegmentWriter) { .folder = folder,
                                 .segment_bytes = segment_bytes,
                                 .current.head.number = last_number };
}

/* ---- making segments ------------------------------------------------------------------------- */

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

gboolean
tps_segment_writer_make_segment (const TpsSegmentWriter *writer, guint64 number,
                                 TpsOpenSegment *segment, GError **error)
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

gboolean
tps_segment_writer_make_spare (TpsSegmentWriter *writer, GError **error)
{
  return writer->spare.file != NULL
         || tps_segment_writer_make_segment (writer, writer->current.head.number + 1,
                                             &writer->spare, error);
}

/* ---- the next segment ------------------------------------------------------------------------ */

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

gboolean
tps_segment_writer_reserve (TpsSegmentWriter *writer, gint64 n_bytes, GError **error)
{
  TpsOpenSegment *spare = &writer->spare;

  if (has_room (&writer->current, n_bytes))
    return TRUE;
  if (!tps_segment_writer_make_spare (writer, error))
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

gint64
tps_segment_writer_get_room (const TpsSegmentWriter *writer)
{
  return (writer->current.size - writer->current.offset)
         + (writer->spare.size - writer->spare.offset);
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

void
tps_segment_writer_clear (TpsSegmentWriter *writer, gboolean is_sound)
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

/* ---- writing --------------------------------------------------------------------------------- */

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

gboolean
tps_segment_writer_write (TpsSegmentWriter *writer, TpsLogStage *stage, GError **error)
{
  TpsGroupHead group = { .stamp = writer->current.head.stamp,
                         .offset = writer->current.offset,
                         .n_bytes = tps_log_stage_get_bytes (stage),
                         .first_lsn = stage->first_lsn,
                         .n_records = stage->n_records };
  gboolean is_written = stage->large != NULL ? write_large (writer, stage, &group, error)
                                             : write_small (writer, stage, &group, error);

  TPS_PLANT ("group-overwritten", return is_written);
  if (is_written)
    writer->current.offset += group.n_bytes;
  return is_written;
}

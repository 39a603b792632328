/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/log/segment_writer.h"

#include <string.h>

#include "runtime/base/error.h"
#include "runtime/base/planted_bug.h"
#include "runtime/server/log/log_decode.h"

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
tps_segment_writer_init (TpsSegmentWriter *writer, const TpsLogFolder *folder, TpsOldSegments *old,
                         guint64 last_number, gint64 segment_bytes)
{
  *writer = (TpsSegmentWriter) {
    .folder = folder, .old = old, .segment_bytes = segment_bytes, .current.head.number = last_number
  };
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

/* The final table is behind the initial one. */
static gint64
get_final_offset (const TpsOpenSegment *segment)
{
  return segment->size + (gint64) tps_sector_table_get_area_bytes (segment->size);
}

static gboolean
write_table (TpsOpenSegment *segment, gboolean is_final, GError **error)
{
  tps_sector_table_seal (&segment->table, segment->head.stamp, is_final);
  return segment->file->disk->write (
      segment->file, segment->table.area, tps_sector_table_get_area_bytes (segment->size),
      is_final ? get_final_offset (segment) : segment->size, !is_final, error);
}

/* Closes a segment that cannot be used. */
static void
drop_segment (TpsOpenSegment *segment)
{
  if (segment->file != NULL)
    segment->file->disk->close (segment->file);
  tps_sector_table_clear (&segment->table);
  *segment = (TpsOpenSegment) { 0 };
}

static gint64
get_file_bytes (const TpsOpenSegment *segment)
{
  return segment->size
         + (segment->head.table_offset > 0
                ? 2 * (gint64) tps_sector_table_get_area_bytes (segment->size)
                : 0);
}

static gboolean
make_file (const TpsSegmentWriter *writer, TpsOpenSegment *segment, const gchar *path,
           GError **error)
{
  TpsDisk *disk = get_disk (writer);

  disk->remove (disk, path, NULL); /* left by a failed attempt */
  segment->file = disk->open (disk, path, TPS_DISK_CREATE | TPS_DISK_DIRECT, error);
  return segment->file != NULL && disk->preallocate (segment->file, get_file_bytes (segment), error)
         && write_head (segment, error) && disk->sync_folder (disk, writer->folder->path, error);
}

static void
init_segment (const TpsSegmentWriter *writer, guint64 number, gint64 size, TpsOpenSegment *segment)
{
  *segment = (TpsOpenSegment) { .size = size, .offset = TPS_LOG_FIRST_GROUP };
  segment->head = (TpsSegmentHead) {
    .id = writer->folder->id,
    .number = number,
    .stamp = (guint64) g_random_int () << 32 | g_random_int (),
  };
}

/* Makes a segment of `size`, and a new file for it. */
static gboolean
make_new (const TpsSegmentWriter *writer, guint64 number, gint64 size, TpsOpenSegment *segment,
          GError **error)
{
  TpsDisk *disk = get_disk (writer);
  g_autofree gchar *path = path_of (writer, number);
  gboolean has_file;

  init_segment (writer, number, size, segment);
  if (size == writer->segment_bytes)
    {
      segment->head.table_offset = size;
      tps_sector_table_init (&segment->table, size);
    }
  if (make_file (writer, segment, path, error))
    return TRUE;
  has_file = segment->file != NULL;
  drop_segment (segment);
  if (has_file)
    disk->remove (disk, path, NULL);
  return FALSE;
}

/* ---- files of old segments ------------------------------------------------------------------- */

/* Reads the final table of an old segment. FALSE: it has none that is complete. */
static gboolean
read_table (TpsOpenSegment *segment)
{
  TpsDisk *disk = segment->file->disk;
  gsize n_area = tps_sector_table_get_area_bytes (segment->size);
  guint8 *area = segment->table.area;
  gboolean is_final = FALSE;
  TpsSegmentHead old;
  guint32 version;

  return disk->get_size (segment->file, NULL) == get_final_offset (segment) + (gint64) n_area
         && disk->read (segment->file, area, TPS_DISK_BLOCK, 0, NULL) == TPS_DISK_BLOCK
         && tps_segment_decode_head (area, &old, &version) == TPS_HEAD_OK
         && old.table_offset == segment->size
         && disk->read (segment->file, area, n_area, get_final_offset (segment), NULL)
                == (gssize) n_area
         && tps_sector_table_check (&segment->table, old.stamp, &is_final) && is_final;
}

/* The table is on the disk before the head, and the head before the new name: a segment with a head
 * has the table that it needs. */
static gboolean
reuse_file (const TpsSegmentWriter *writer, TpsOpenSegment *segment, const gchar *from,
            GError **error)
{
  TpsDisk *disk = get_disk (writer);
  g_autofree gchar *path = path_of (writer, segment->head.number);

  segment->head.table_offset = segment->size;
  segment->head.is_reused = TRUE;
  return write_table (segment, FALSE, error) && write_head (segment, error)
         && disk->rename (disk, from, path, error)
         && disk->sync_folder (disk, writer->folder->path, error);
}

/* Makes a segment with the file of an old one. FALSE without an error: there is none. */
static gboolean
reuse_old (const TpsSegmentWriter *writer, guint64 number, TpsOpenSegment *segment, GError **error)
{
  TpsDisk *disk = get_disk (writer);
  gchar *from;

  while ((from = tps_old_segments_take (writer->old)) != NULL)
    {
      g_autofree gchar *path = from;
      GError *failure = NULL;

      init_segment (writer, number, writer->segment_bytes, segment);
      segment->file = disk->open (disk, path, TPS_DISK_DIRECT, NULL);
      tps_sector_table_init (&segment->table, segment->size);
      if (segment->file != NULL && read_table (segment))
        {
          if (reuse_file (writer, segment, path, &failure))
            return TRUE;
          drop_segment (segment);
          g_propagate_error (error, failure);
          return FALSE;
        }
      drop_segment (segment);
      tps_disk_discard (disk, path, NULL);
    }
  return FALSE;
}

gboolean
tps_segment_writer_make_segment (const TpsSegmentWriter *writer, guint64 number,
                                 TpsOpenSegment *segment, GError **error)
{
  GError *failure = NULL;

  *segment = (TpsOpenSegment) { 0 };
  tps_old_segments_note_made (writer->old);
  if (reuse_old (writer, number, segment, &failure))
    return TRUE;
  if (failure == NULL)
    return make_new (writer, number, writer->segment_bytes, segment, error);
  g_propagate_error (error, failure);
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

/* Releases room that was reserved and is not used; a failure has no consequences. */
static void
cut_segment (TpsOpenSegment *segment)
{
  if (segment->file == NULL)
    return;
  if (segment->offset < get_file_bytes (segment))
    segment->file->disk->truncate (segment->file, segment->offset, NULL);
  drop_segment (segment);
}

/* Ends a segment, because the next one begins. Its table is for a later use of the file; without
 * it, the file cannot be used again. */
static void
finish_segment (TpsOpenSegment *segment)
{
  if (segment->file != NULL && segment->table.area != NULL)
    {
      write_table (segment, TRUE, NULL);
      drop_segment (segment);
    }
  else
    cut_segment (segment);
}

/* Replaces the spare by a file that is long enough for a group of `n_bytes`. */
static gboolean
make_long_spare (TpsSegmentWriter *writer, gint64 n_bytes, GError **error)
{
  guint64 number = writer->spare.head.number;

  drop_segment (&writer->spare);
  return make_new (writer, number, TPS_LOG_FIRST_GROUP + n_bytes, &writer->spare, error);
}

gboolean
tps_segment_writer_reserve (TpsSegmentWriter *writer, gint64 n_bytes, GError **error)
{
  TpsOpenSegment *spare = &writer->spare;

  if (has_room (&writer->current, n_bytes))
    return TRUE;
  if (!tps_segment_writer_make_spare (writer, error)
      || (!has_room (spare, n_bytes) && !make_long_spare (writer, n_bytes, error)))
    return FALSE;
  finish_segment (&writer->current);
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

/* Removes a segment without a group. Segments are removed one by one, so that their numbers have no
 * gap after a power cut. */
static void
discard_segment (TpsSegmentWriter *writer, TpsOpenSegment *segment)
{
  TpsDisk *disk = get_disk (writer);
  g_autofree gchar *path = path_of (writer, segment->head.number);

  drop_segment (segment);
  disk->remove (disk, path, NULL);
  disk->sync_folder (disk, writer->folder->path, NULL);
}

void
tps_segment_writer_clear (TpsSegmentWriter *writer, gboolean is_sound)
{
  TpsOpenSegment *segments[] = { &writer->spare, &writer->current };

  for (guint i = 0; i < G_N_ELEMENTS (segments); i++)
    if (segments[i]->file != NULL && !is_sound)
      drop_segment (segments[i]);
    else if (segments[i]->file != NULL && segments[i]->offset == TPS_LOG_FIRST_GROUP)
      discard_segment (writer, segments[i]);
    else
      cut_segment (segments[i]);
}

/* ---- writing --------------------------------------------------------------------------------- */

static gboolean
write_part (TpsSegmentWriter *writer, const guint8 *data, gsize n_bytes, gint64 offset,
            gboolean is_sync, GError **error)
{
  TPS_PLANT ("write-without-sync", is_sync = FALSE);
  return get_disk (writer)->write (writer->current.file, data, n_bytes, offset, is_sync, error);
}

/* Returns the number of sectors whose old contents are the same; these count as written even if a
 * power cut loses them. */
static guint32
note_contents (TpsSegmentWriter *writer, gint64 offset, const guint8 *data, gsize n_bytes)
{
  TpsSectorTable *table = &writer->current.table;

  return table->area != NULL ? tps_sector_table_replace (table, offset, data, n_bytes)
                             : tps_sector_table_count (table, offset, data, n_bytes);
}

/* The head differs from all old contents, because it has the stamp of the segment. */
static void
encode_head (TpsSegmentWriter *writer, guint8 *sector, const TpsGroupHead *group)
{
  tps_group_encode_head (sector, group);
  note_contents (writer, group->offset, sector, TPS_DISK_SECTOR);
}

static gboolean
write_small (TpsSegmentWriter *writer, TpsLogStage *stage, TpsGroupHead *group, GError **error)
{
  memset (stage->data + stage->n_used, 0, (gsize) group->n_bytes - stage->n_used);
  /* The first sector has the head, which has not been encoded yet. */
  group->n_same_sectors = note_contents (writer, group->offset + TPS_DISK_SECTOR,
                                         stage->data + TPS_DISK_SECTOR,
                                         (gsize) group->n_bytes - TPS_DISK_SECTOR);
  encode_head (writer, stage->data, group);
  return write_part (writer, stage->data, (gsize) group->n_bytes, group->offset, TRUE, error);
}

/* The first block, with the heads, is written last, since their contents are known only then. */
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
      group->n_same_sectors += note_contents (writer, group->offset + at, stage->data, n_bytes);
      is_written = write_part (writer, stage->data, n_bytes, group->offset + at, FALSE, error);
    }
  tps_record_encode_end (&stage->plan, first + TPS_LOG_GROUP_HEADER);
  group->n_same_sectors += note_contents (writer, group->offset + TPS_DISK_SECTOR,
                                          first + TPS_DISK_SECTOR,
                                          TPS_DISK_BLOCK - TPS_DISK_SECTOR);
  encode_head (writer, first, group);
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

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The segment to which groups are written, and the next segment, which is made in advance, so that
 * a full disk is noticed while there is still room.
 *
 * Thread: one at a time, except tps_segment_writer_make_segment().
 */

#pragma once

#include "runtime/server/log/log_folder.h"
#include "runtime/server/log/log_stage.h"

G_BEGIN_DECLS

/* A segment's file; all zero: there is none. */
typedef struct
{
  TpsDiskFile *file;
  TpsSegmentHead head;
  gint64 size;
  gint64 offset; /* of the next group */
} TpsOpenSegment;

typedef struct
{
  const TpsLogFolder *folder; /* borrowed */
  gint64 segment_bytes;
  TpsOpenSegment current; /* its number counts even if there is no file yet */
  TpsOpenSegment spare;
} TpsSegmentWriter;

/* Makes a writer, in the caller's storage, that begins after segment `last_number`. `folder` is
 * borrowed. No file is made yet. */
void tps_segment_writer_init (TpsSegmentWriter *writer, const TpsLogFolder *folder,
                              guint64 last_number, gint64 segment_bytes);

/* Closes the files. If `is_sound` is TRUE, because the disk has not failed, unused reserved room is
 * released. */
void tps_segment_writer_clear (TpsSegmentWriter *writer, gboolean is_sound);

/* Makes the segment `number`, with its room reserved, and syncs it. No other thread may make this
 * segment meanwhile. The caller must store the segment as the spare. Errors: RESOURCE_EXHAUSTED,
 * after which the caller may try again; all others are final. Thread: any, even while a different
 * thread writes. */
gboolean tps_segment_writer_make_segment (const TpsSegmentWriter *writer, guint64 number,
                                          TpsOpenSegment *segment, GError **error);

/* Makes the segment after the current one, as the spare, unless there is a spare. Errors: as
 * tps_segment_writer_make_segment(). */
gboolean tps_segment_writer_make_spare (TpsSegmentWriter *writer, GError **error);

/* Ensures that the current segment has room for a group of `n_bytes`; otherwise the next segment
 * becomes the current one. Errors: as make_spare(). */
gboolean tps_segment_writer_reserve (TpsSegmentWriter *writer, gint64 n_bytes, GError **error);

/* Writes the group of `stage`, for which room must be reserved, and syncs it. All errors are
 * final. */
gboolean tps_segment_writer_write (TpsSegmentWriter *writer, TpsLogStage *stage, GError **error);

/* Returns the number of bytes that can be written without a further segment. */
gint64 tps_segment_writer_get_room (const TpsSegmentWriter *writer);

G_END_DECLS

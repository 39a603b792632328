/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The segment to which groups are written, and the next one. That one is made in advance, so that a
 * full disk is noticed while there is still room.
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

/* Begins after segment `last_number`. No file is made yet. */
void tps_segment_writer_init (TpsSegmentWriter *writer, const TpsLogFolder *folder,
                              guint64 last_number, gint64 segment_bytes);

/* Closes the files. If the disk works, unused reserved room is released. */
void tps_segment_writer_clear (TpsSegmentWriter *writer, gboolean is_sound);

/* Makes the segment `number`, which no other thread may make meanwhile, with its room reserved, and
 * syncs it. The caller must store it as the spare. Errors: RESOURCE_EXHAUSTED, after which it may
 * be tried again; all others are final. Thread: any, also while another one writes. */
gboolean tps_segment_writer_make_segment (const TpsSegmentWriter *writer, guint64 number,
                                          TpsOpenSegment *segment, GError **error);

/* The same for the segment after the current one, unless it exists, as the spare. */
gboolean tps_segment_writer_make_spare (TpsSegmentWriter *writer, GError **error);

/* Ensures that the current segment has room for a group of `n_bytes`; otherwise the next segment
 * becomes the current one. Errors: as make_spare(). */
gboolean tps_segment_writer_reserve (TpsSegmentWriter *writer, gint64 n_bytes, GError **error);

/* Writes the group of `stage`, for which room must be reserved, and syncs it. Errors are final. */
gboolean tps_segment_writer_write (TpsSegmentWriter *writer, TpsLogStage *stage, GError **error);

/* The number of bytes that can be written without a further segment. */
gint64 tps_segment_writer_get_room (const TpsSegmentWriter *writer);

G_END_DECLS

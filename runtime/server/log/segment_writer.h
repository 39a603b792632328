/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The segment that groups are written to, and the one after it, which is made beforehand so that
 * a full disk is noticed while there is still room.
 *
 * Thread: one at a time.
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

/* Begins behind segment `last_number`. Nothing is made yet. */
void tps_segment_writer_init (TpsSegmentWriter *writer, const TpsLogFolder *folder,
                              guint64 last_number, gint64 segment_bytes);

/* Closes the files. If the disk is sound, room that was reserved and is not used is given back. */
void tps_segment_writer_clear (TpsSegmentWriter *writer, gboolean is_sound);

/* Makes the segment after the current one, unless there is one. Errors: RESOURCE_EXHAUSTED,
 * after which it may be tried again; any other one is final. */
gboolean tps_segment_writer_make_spare (TpsSegmentWriter *writer, GError **error);

/* Sees to it that the current segment has room for a group of `n_bytes`: goes on to the next one
 * if it has not. Errors: as make_spare(). */
gboolean tps_segment_writer_reserve (TpsSegmentWriter *writer, gint64 n_bytes, GError **error);

/* Writes the group of `stage`, for which room is reserved, and syncs it. Errors are final. */
gboolean tps_segment_writer_write (TpsSegmentWriter *writer, TpsLogStage *stage, GError **error);

/* Bytes that can be written without a further segment. */
gint64 tps_segment_writer_get_room (const TpsSegmentWriter *writer);

G_END_DECLS

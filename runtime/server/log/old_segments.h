/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Segments whose records are not needed any more. Their files are kept for later segments: the
 * blocks of a new file are reserved but not written, and ext4 commits its journal with each sync of
 * such blocks, which halves the rate of the log.
 *
 * As many files are kept as segments were made between the last two deletions, so the log uses no
 * more room than it did before the deletion.
 *
 * Thread: any.
 */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/server/log/log_folder.h"

G_BEGIN_DECLS

typedef struct
{
  TpsLogFolder *folder; /* borrowed */
  TpsMutex lock;
  GArray *numbers; /* of guint64: the files TPS_LOG_OLD_SUFFIX */
  guint n_made;    /* segments since the last deletion */
} TpsOldSegments;

void tps_old_segments_init (TpsOldSegments *old, TpsLogFolder *folder);
/* The files stay; the next process deletes them. */
void tps_old_segments_clear (TpsOldSegments *old);

/* Notes that a segment has been made. */
void tps_old_segments_note_made (TpsOldSegments *old);

/* Takes a file, which then belongs to the caller: its path, to be freed with g_free(); NULL: there
 * is none. */
gchar *tps_old_segments_take (TpsOldSegments *old);

/* Keeps the file of segment `number` or deletes it. Segments must be added in ascending order.
 * Errors: as the disk says; the segment then is as before. */
gboolean tps_old_segments_add (TpsOldSegments *old, guint64 number, GError **error);

/* Ends a deletion of at least one segment: deletes the files that are too many. */
void tps_old_segments_end_deletion (TpsOldSegments *old);

/* Deletes all files, because the disk is full. FALSE: there was none. */
gboolean tps_old_segments_drop (TpsOldSegments *old);

G_END_DECLS

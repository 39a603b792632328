/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The folder of a log: its marker, its lock, its segments, and the end of the log.
 *
 *   tps_log_folder_open()         locks the folder; reads the marker, or writes one into an empty
 *                                 folder
 *   tps_log_folder_find_end()     reads the last segment; changes nothing
 *   tps_log_folder_cut()          removes all bytes after the end
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/base/buffer.h"
#include "runtime/server/log/log_format.h"

G_BEGIN_DECLS

typedef struct
{
  guint64 number;
  gint64 first_lsn; /* 0: no record */
  gint64 n_bytes;   /* up to the end of its last group; 0: no record */
} TpsSegmentInfo;

typedef struct
{
  TpsDisk *disk; /* borrowed */
  gchar *path;
  TpsLogId id;
  TpsDiskFile *lock; /* of TPS_LOG_LOCK, which names its owner */
  TpsDiskFile
      *folder_lock; /* of the folder itself: the lock file may be deleted while it is locked */
  GArray *segments; /* of TpsSegmentInfo; their numbers have no gaps */
} TpsLogFolder;

/* The end of a log. */
typedef struct
{
  gint64 first_lsn, last_lsn; /* of all records; both 0: there is none */
  guint64 number;             /* of the segment with the last record; 0: there is none */
  gint64 offset;              /* the end of its last group */
  gint64 n_bytes;             /* of all segments up to there */
  gint64 n_torn_bytes;
  gchar *torn_position; /* NULL: nothing was torn */
} TpsLogEnd;

void tps_log_end_clear (TpsLogEnd *end);

/* Opens the folder `path` and locks it. `disk` is borrowed. Without `may_create`, a folder that is
 * not that of a log is refused, even if it is empty. `id`: see TpsLogOptions. Errors: see
 * tps_log_open(). */
gboolean tps_log_folder_open (TpsLogFolder *folder, TpsDisk *disk, const gchar *path,
                              gboolean may_create, const gchar *id, GError **error);
/* Unlocks the folder and frees its contents. May be called for a folder that is all zero. */
void tps_log_folder_close (TpsLogFolder *folder);

/* Finds the log's end, and `first_lsn` and `n_bytes` of segments. Errors: see tps_log_open(). */
gboolean tps_log_folder_find_end (TpsLogFolder *folder, TpsBufferPool *pool, TpsLogEnd *end,
                                  GError **error);

/* Ends the log at `offset` of segment `number` (0: before all). Errors: those of the disk. */
gboolean tps_log_folder_cut (TpsLogFolder *folder, guint64 number, gint64 offset, GError **error);

/* Removes the file of a segment, which must be the first or the last existing one.
 * `folder->segments` does not change. Errors: those of the disk. */
gboolean tps_log_folder_delete_segment (TpsLogFolder *folder, guint64 number, GError **error);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLogEnd, tps_log_end_clear)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsLogFolder, tps_log_folder_close)

G_END_DECLS

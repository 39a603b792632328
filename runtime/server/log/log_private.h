/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the log that readers other than its cursors use, and a log for tests. That log has
 * no threads, so tests must take its steps themselves. */

#pragma once

#include "runtime/server/log/log.h"
#include "runtime/server/log/log_folder.h"
#include "runtime/server/log/log_writer.h"

G_BEGIN_DECLS

#define TPS_LOG_MAX_THREADS 2

struct TpsLog
{
  TpsLogOptions options; /* with defaults */
  TpsLogFolder folder;
  TpsLogWriter writer;
  TpsMutex deleting; /* one at a time */
  gint64 base_lsn;   /* of the last record that was found, or the LSN before the first record */
  guint n_threads;
  TpsThread threads[TPS_LOG_MAX_THREADS];
};

/* As tps_log_open(), but starts no threads: the caller must do their work with
 * tps_log_writer_step (&log->writer, ...). */
TpsLog *tps_log_open_stepped (TpsDisk *disk, const gchar *path, const TpsLogOptions *options,
                              TpsLogFound *found, GError **error);

/* Returns the segments with durable records, an array of TpsSegmentInfo. The caller frees it with
 * g_array_unref(). Thread: any. */
GArray *tps_log_dup_segments (TpsLog *log);

G_END_DECLS

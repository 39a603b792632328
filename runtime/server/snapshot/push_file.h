/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The push ids of one window as one safetensors file. Its tensor consists of bytes, the records of
 * runtime/server/push_window.h. */

#pragma once

#include "runtime/server/push_window.h"
#include "runtime/server/snapshot/snapshot_io.h"

G_BEGIN_DECLS

/* Writes `file->name` in `folder` while pushes continue, and fills in the rest of `file`. Errors:
 * those of the disk, ABORTED (cancelled). */
gboolean tps_push_file_write (TpsPushWindow *window, TpsDisk *disk, const gchar *folder,
                              TpsSnapshotPace *pace, TpsManifestFile *file, GError **error);

/* Reads the file into `window`, which no request may use yet. Errors: those of the disk, ABORTED
 * (damaged, cancelled). */
gboolean tps_push_file_read (TpsPushWindow *window, TpsDisk *disk, const gchar *folder,
                             const TpsManifestFile *file, TpsSnapshotPace *pace, GError **error);

G_END_DECLS

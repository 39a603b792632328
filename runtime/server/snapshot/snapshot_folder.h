/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The folder of all snapshots. Each snapshot has a folder of its own, named for its LSN. A snapshot
 * without a manifest is incomplete. Internal to this folder. Errors: those of the disk. */

#pragma once

#include "runtime/server/log/disk.h"
#include "runtime/server/snapshot/snapshot.h"

/* Sets `name` to that of the snapshot of `lsn`, such as "snapshot-00000000000000000042". get_lsn()
 * is the inverse; its `name` must be that of a snapshot. */
void tps_snapshot_folder_name (gint64 lsn, gchar name[TPS_SNAPSHOT_MAX_NAME + 1]);
gint64 tps_snapshot_folder_get_lsn (const gchar *name);

/* Returns the names of complete snapshots, the oldest first. The caller frees them with
 * g_strfreev(). A missing folder has none. */
GStrv tps_snapshot_folder_list (TpsDisk *disk, const gchar *folder, GError **error);

/* Deletes a snapshot, complete or not. The manifest is deleted first, durably, so that a partly
 * deleted snapshot never counts as a complete one. */
gboolean tps_snapshot_folder_delete (TpsDisk *disk, const gchar *folder, const gchar *name,
                                     GError **error);

/* Returns the folder of a snapshot: `path` itself, or the newest snapshot in `path` or in its
 * folder "snapshots". The caller frees the result. Errors: NOT_FOUND (there is none), those of the
 * disk. */
gchar *tps_snapshot_folder_locate (TpsDisk *disk, const gchar *path, GError **error);

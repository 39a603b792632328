/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The folder of all snapshots: one folder each, named for its LSN. A snapshot without a manifest is
 * incomplete. Internal to this folder. Errors, where there are any: those of the disk. */

#pragma once

#include "runtime/server/log/disk.h"
#include "runtime/server/snapshot/snapshot.h"

G_BEGIN_DECLS

/* "snapshot-00000000000000000042", and the other way round. */
void tps_snapshot_folder_name (gint64 lsn, gchar name[TPS_SNAPSHOT_MAX_NAME + 1]);
gint64 tps_snapshot_folder_get_lsn (const gchar *name);

/* The names of complete snapshots, the oldest first; g_strfreev(). A folder that is not there has
 * none. */
GStrv tps_snapshot_folder_list (TpsDisk *disk, const gchar *folder, GError **error);

/* Whether `path` is the folder of a complete snapshot. */
gboolean tps_snapshot_folder_is_complete (TpsDisk *disk, const gchar *path);

/* Whether there is a complete one of this name. */
gboolean tps_snapshot_folder_has (TpsDisk *disk, const gchar *folder, const gchar *name);

/* Deletes one, complete or not. The manifest goes first, for good, so that half a snapshot is never
 * taken for a whole one. */
gboolean tps_snapshot_folder_delete (TpsDisk *disk, const gchar *folder, const gchar *name,
                                     GError **error);

/* Deletes all that have no manifest. */
gboolean tps_snapshot_folder_delete_incomplete (TpsDisk *disk, const gchar *folder, GError **error);

/* Deletes complete snapshots but the newest `keep`, the oldest first, and returns the LSN of the
 * oldest one that is there then. One that cannot be deleted stays, with those after it, and the
 * next call tries again. */
gint64 tps_snapshot_folder_delete_old (TpsDisk *disk, const gchar *folder, guint keep);

/* The folder of a snapshot: `path` itself, or the newest one in it or in its "snapshots"; the
 * caller frees it. Errors: also NOT_FOUND. */
gchar *tps_snapshot_folder_locate (TpsDisk *disk, const gchar *path, GError **error);

G_END_DECLS

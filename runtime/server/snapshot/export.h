/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Exports tables of snapshots for other programs. */

#pragma once

#include "runtime/server/snapshot/snapshot.h"

G_BEGIN_DECLS

/* Writes the tables of the snapshots at `paths` (tps_snapshot_locate()), which must be those of all
 * shards, as one snapshot into folder `to`, which must not contain a snapshot. Each table is one
 * file, with all rows in the order of their ids; increments are merged. Holds all tables in memory.
 * Push ids and models are left out. Sets `info`. Blocks. Errors: ALREADY_EXISTS (`to`), those of
 * tps_snapshot_locate(), tps_table_import() and tps_snapshot_write(). */
gboolean tps_snapshot_export (TpsDisk *disk, const gchar *const *paths, guint n_paths,
                              const gchar *to, TpsSnapshotInfo *info, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Groups the files of one or several snapshots by table, for tps_table_import(). Thread: one at a
 * time. */

#pragma once

#include "runtime/server/snapshot/snapshot.h"
#include "runtime/server/log/disk.h"
#include "runtime/base/budget.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

typedef struct TpsSnapshotTables TpsSnapshotTables;

/* Reads the manifests of the snapshots at `paths` (tps_snapshot_locate()), at least one, such as
 * those of all shards. The manifests may be hostile: their memory is charged to `budget`
 * (borrowed, like `disk`). The caller owns the result. Errors: those of tps_snapshot_locate(),
 * RESOURCE_EXHAUSTED. */
TpsSnapshotTables *tps_snapshot_tables_new (TpsDisk *disk, const gchar *const *paths, guint n_paths,
                                            TpsBudget *budget, GError **error);
/* Frees the object. NULL is fine. */
void tps_snapshot_tables_free (TpsSnapshotTables *tables);

/* Return the number of tables in all snapshots, and the specification of table `i` in the first
 * snapshot that has it. Borrowed. */
guint tps_snapshot_tables_get_n_specs (const TpsSnapshotTables *tables);
const TpsTableSpec *tps_snapshot_tables_get_spec (const TpsSnapshotTables *tables, guint i);

/* Returns the paths of the files of table `name` in all snapshots, in the order in which they must
 * be read. The caller frees them with g_strfreev(). Errors: NOT_FOUND, RESOURCE_EXHAUSTED, ABORTED
 * (a file is not the one of its manifest). */
GStrv tps_snapshot_tables_list_files (const TpsSnapshotTables *tables, const gchar *name,
                                      GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSnapshotTables, tps_snapshot_tables_free)

/* Writes the tables of the snapshots at `paths` (tps_snapshot_locate()), which must be those of all
 * shards, as one snapshot into folder `to`, which must not contain a snapshot. Each table is one
 * file, with all rows in the order of their ids; increments are merged. Holds all tables in memory.
 * Push ids and models are left out. Sets `info`. Blocks. Errors: ALREADY_EXISTS (`to`), those of
 * tps_snapshot_locate(), tps_table_import() and tps_snapshot_write(). */
gboolean tps_snapshot_export (TpsDisk *disk, const gchar *const *paths, guint n_paths,
                              const gchar *to, TpsSnapshotInfo *info, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table of a snapshot: written whole, or as an increment to the files of an earlier snapshot. The
 * files of the earlier one get a second name in the folder of the new one (TpsDisk.link), so that
 * every snapshot is complete by itself and may be deleted by itself. Internal to this folder. */

#pragma once

#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/tables/table_snapshot.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDisk *disk;
  const gchar *folder; /* of the snapshot that is being written */
  /* The previous snapshot. `earlier` NULL: all tables are written whole. */
  const TpsManifest *earlier;
  const gchar *earlier_folder;
  guint max_increments; /* of a table */
} TpsTableChain;

/* Writes the rows of table number `number` in the snapshot while pushes go on, and fills `entry`,
 * which must be empty. Rows that have changed since the earlier snapshot are written as an
 * increment on two conditions. The table must have files there, with fewer than `max_increments`,
 * and all increments together must take at most half of the whole table. Errors: those of the disk,
 * ABORTED. */
gboolean tps_table_chain_write (const TpsTableChain *chain, TpsTable *table, guint number,
                                TpsSnapshotPace *pace, TpsManifestTable *entry, GError **error);

G_END_DECLS

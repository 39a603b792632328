/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Writes a table of a snapshot: whole, or as an increment to the files of an earlier snapshot. The
 * files of the earlier snapshot get a second name in the folder of the new one (TpsDisk.link), so
 * that every snapshot is complete by itself and may be deleted by itself. Internal to this
 * folder. */

#pragma once

#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/tables/table_snapshot.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDisk *disk;
  const gchar *folder; /* of the snapshot that is being written */
  /* The manifest of the previous snapshot; NULL: all tables are written whole. */
  const TpsManifest *earlier;
  const gchar *earlier_folder;
  guint max_increments; /* of a table; 0 = all tables are written whole */
} TpsTableChain;

/* Writes the rows of table number `number` in the snapshot while pushes continue, and fills in
 * `entry`, which must be empty. The rows that have changed since the earlier snapshot are written
 * as an increment on three conditions: the earlier snapshot has files of the table, with fewer than
 * `max_increments` increments; all increments together take at most half of the bytes of the whole
 * table; and the disk can link files. If no row has changed, no increment is written, and the
 * number and the size of the increments do not matter. Errors: those of the disk, ABORTED
 * (cancelled). */
gboolean tps_table_chain_write (const TpsTableChain *chain, TpsTable *table, guint number,
                                TpsSnapshotPace *pace, TpsManifestTable *entry, GError **error);

G_END_DECLS

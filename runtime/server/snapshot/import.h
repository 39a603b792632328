/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Makes a table from files of other programs, or from snapshots of other shards. The table may have
 * any shard and any type of rows.
 *
 * The kind of a file determines its rows and their ids:
 *
 *   a table's file of a snapshot    the rows of its shard, with their state if the optimizer has
 *                                   the same state
 *   an increment of a snapshot      some rows of the shard, with their state likewise; must come
 *                                   after the table's file
 *   other safetensors               rows from saved_offsets[0] of DCP_SHARDING_INFO on, or from 0
 *                                   on
 *   .npy                            rows from 0 on
 */

#pragma once

#include "runtime/server/log/disk.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

typedef struct TpsTable TpsTable;

typedef struct
{
  TpsDisk *disk;       /* borrowed */
  TpsTableStore *into; /* borrowed */
  const gchar *const *paths;
  guint n_paths;
  /* The name of the tensor in safetensors files of other programs; NULL: the only matrix, or the
   * name of `spec` with ".weight". */
  const gchar *tensor;
  /* Returns TRUE to end the import; called every MiB. NULL: it is never ended. */
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsTableImport;

/* Makes a table of `spec` (need not be resolved) in the host's memory, with the rows of the files.
 * Every row of the table's shard must be in exactly one of the files, not counting increments.
 * Files may have rows of other shards, but none beyond the rows of the whole table. Elements are
 * converted with one rounding. The number of steps is the largest one in the files.
 *
 * The server must not have served requests, and its log must be empty, because no command is
 * recorded. The table's incarnation is the next LSN. A snapshot must be written before the first
 * command is admitted, since the log does not contain the rows.
 *
 * Files may be hostile: the memory of the table, and of the headers of files, is charged to the
 * store's budget before it is allocated.
 *
 * Errors: those of the disk; ABORTED (cancelled; a file is damaged: the message names the file and
 * the tensor or the offset), INVALID_ARGUMENT (`spec`; no such tensor, a different number of
 * columns or rows, a type that is not floating point; a row that is in no file, or in two),
 * ALREADY_EXISTS, RESOURCE_EXHAUSTED. */
gboolean tps_table_import (const TpsTableImport *import, const TpsTableSpec *spec, GError **error);

/* As tps_table_import(), but does not add the table to the store: the caller does so in a different
 * way (tables/table_snapshot.h). Returns the table, without an incarnation; the caller owns a
 * reference. Errors: those of tps_table_import() except ALREADY_EXISTS. */
TpsTable *tps_table_import_read (const TpsTableImport *import, const TpsTableSpec *spec,
                                 GError **error);

G_END_DECLS

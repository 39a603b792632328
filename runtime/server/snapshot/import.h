/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table from files of others, or from snapshots of other shards: into any shard and any type of
 * rows.
 *
 * Each file gives rows, and says which:
 *
 *   a table's file of a snapshot    the rows of its shard, with their state if the optimizer keeps
 *                                   the same
 *   an increment of a snapshot      some rows of the shard, the same; after the table's file
 *   other safetensors               rows from saved_offsets[0] of DCP_SHARDING_INFO on, or from 0
 *                                   on
 *   .npy                            rows from 0 on
 */

#pragma once

#include "runtime/server/log/disk.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

typedef struct
{
  TpsDisk *disk;       /* borrowed */
  TpsTableStore *into; /* borrowed */
  const gchar *const *paths;
  guint n_paths;
  /* Of the tensor in other safetensors files; NULL: the only matrix, or `spec`'s name with
   * ".weight". */
  const gchar *tensor;
  /* Whether to give up: asked every MiB. NULL: never. */
  gboolean (*is_cancelled) (gpointer user_data);
  gpointer user_data;
} TpsTableImport;

/* Makes a table of `spec` (need not be resolved) in the host's memory, whose rows come from the
 * files; every row of its shard must be in one of them, and later files win. Elements are converted
 * with one rounding. The number of steps is the greatest of the files.
 *
 * For a server that serves nobody yet and has logged nothing: no command is recorded. The table's
 * incarnation is the next LSN. A snapshot must be written before the first command is admitted,
 * since the log does not hold the rows.
 *
 * Files may be hostile: the table, and what the headers of files take, is charged to the store's
 * budget before it is taken.
 *
 * Errors: those of the disk; ABORTED (a file is damaged; the file, and tensor or offset are named),
 * INVALID_ARGUMENT (`spec`; no such tensor, another number of columns, a type that is not floating
 * point; a row that is in no file), ALREADY_EXISTS, RESOURCE_EXHAUSTED. */
gboolean tps_table_import (const TpsTableImport *import, const TpsTableSpec *spec, GError **error);

G_END_DECLS

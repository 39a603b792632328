/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One table as one safetensors file with the tensors `name`.lsn, `name`.row_ids (of a hash shard),
 * `name`.state.* and `name`.weight. An increment is a file with the same tensors for some rows, and
 * always with their ids. */

#pragma once

#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/tables/table_snapshot.h"

/* In the metadata of the file: the specification as JSON, and the number of steps. */
#define TPS_TABLE_FILE_SPEC "thriftps_table"
#define TPS_TABLE_FILE_STEPS "thriftps_n_steps"
#define TPS_TABLE_FILE_INCREMENT "thriftps_increment" /* "1": the file is an increment */

/* Returns the number of bytes of a row in a file, not counting its id. */
gsize tps_table_file_get_row_bytes (const TpsTable *table);

/* The rows of a file. */
typedef struct
{
  gint64 n_steps; /* of the optimizer: the progress of the table, read before `changed` was made */
  const guint8 *changed; /* bits of the rows of an increment; NULL = all rows */
  gsize n_changed;       /* the number of set bits in `changed` */
} TpsTableFileRows;

/* Writes file `path` while pushes continue, and fills in `entry` except for the name of the file.
 * Errors: those of the disk, ABORTED (cancelled). */
gboolean tps_table_file_write (TpsTable *table, TpsDisk *disk, const gchar *path,
                               const TpsTableFileRows *rows, TpsSnapshotPace *pace,
                               TpsManifestFile *entry, GError **error);

/* Reads the file of `entry` in `folder`, and then its increments, into `table`, which must have the
 * same specification and be unfilled. Errors: those of the disk, ABORTED. */
gboolean tps_table_file_read (TpsTable *table, TpsDisk *disk, const gchar *folder,
                              const TpsManifestTable *entry, TpsSnapshotPace *pace, GError **error);

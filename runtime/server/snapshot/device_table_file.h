/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Reads the file of a table on a device: see table_file.h, which writes the files of all tables. */

#pragma once

#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/tables/table_snapshot.h"

G_BEGIN_DECLS

/* Reads the rows, their state and LSNs onto the device of `table`, which must be unfilled. Errors:
 * those of the disk, DEVICE_LOST, RESOURCE_EXHAUSTED, ABORTED. */
gboolean tps_device_table_file_read (TpsTable *table, TpsSafetensorsReader *file,
                                     TpsSnapshotPace *pace, GError **error);

G_END_DECLS

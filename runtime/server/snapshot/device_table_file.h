/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The file of a table on a device; see table_file.h. It is written like any other. */

#pragma once

#include "runtime/server/snapshot/snapshot_io.h"
#include "runtime/server/tables/table_snapshot.h"

G_BEGIN_DECLS

/* Reads the rows, their state and LSNs onto the device. `table` is unfilled. Errors: those of the
 * disk, DEVICE_LOST, RESOURCE_EXHAUSTED, ABORTED. */
gboolean tps_device_table_file_read (TpsTable *table, TpsSafetensorsReader *file,
                                     TpsSnapshotPace *pace, GError **error);

G_END_DECLS

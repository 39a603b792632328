/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The folder in which a server keeps its state. Only one process may use it at a time.
 *
 *   DIR/LOCK         locked by the process that uses the folder
 *   DIR/FORMAT       "thriftps data 1\n": the program and the version of the folder
 *   DIR/log/         runtime/server/log/FORMAT.md
 *   DIR/snapshots/   runtime/server/snapshot/FORMAT.md
 */

#pragma once

#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

typedef struct TpsDataFolder TpsDataFolder;

/* Opens `path`, and makes it if it is missing. `disk` is borrowed. Errors name the folder:
 *   UNAVAILABLE         another process uses it
 *   INVALID_ARGUMENT    it has other contents, or is of another version
 *   others              as the disk says, PERMISSION_DENIED for a read-only one */
TpsDataFolder *tps_data_folder_open (TpsDisk *disk, const gchar *path, GError **error);
/* Unlocks it. NULL is fine. */
void tps_data_folder_close (TpsDataFolder *folder);

/* Borrowed. */
const gchar *tps_data_folder_get_path (const TpsDataFolder *folder);
const gchar *tps_data_folder_get_log_path (const TpsDataFolder *folder);
const gchar *tps_data_folder_get_snapshots_path (const TpsDataFolder *folder);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDataFolder, tps_data_folder_close)

G_END_DECLS

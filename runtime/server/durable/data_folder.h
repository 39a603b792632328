/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The data directory, in which a server keeps its state. Only one process may use it at a time.
 *
 *   DIR/LOCK         locked by the process that uses the directory
 *   DIR/FORMAT       "thriftps data 1\n": the program and the version of the directory
 *   DIR/log/         runtime/server/log/FORMAT.md
 *   DIR/snapshots/   runtime/server/snapshot/FORMAT.md
 */

#pragma once

#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

typedef struct TpsDataFolder TpsDataFolder;

/* Opens and locks the directory `path`, which is made if it is missing. `disk` is borrowed. Errors
 * name the directory:
 *   UNAVAILABLE         another process uses the directory
 *   INVALID_ARGUMENT    the directory has other contents, or a different version
 *   others              those of the disk; PERMISSION_DENIED if the directory is read-only */
TpsDataFolder *tps_data_folder_open (TpsDisk *disk, const gchar *path, GError **error);
/* Unlocks the directory and frees the object. NULL is fine. */
void tps_data_folder_close (TpsDataFolder *folder);

/* Return the path of the directory, of its log, and of its snapshots. Borrowed from `folder`. */
const gchar *tps_data_folder_get_path (const TpsDataFolder *folder);
const gchar *tps_data_folder_get_log_path (const TpsDataFolder *folder);
const gchar *tps_data_folder_get_snapshots_path (const TpsDataFolder *folder);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDataFolder, tps_data_folder_close)

G_END_DECLS

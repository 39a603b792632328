/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The data directory, in which a server keeps its state. Only one process may use it at a time.
 *
 *   DIR/LOCK         locked by the process that uses the directory
 *   DIR/FORMAT       the version of the directory; the properties of its parts: see FORMAT.md
 *   DIR/log/         runtime/server/log/FORMAT.md
 *   DIR/snapshots/   runtime/server/snapshot/FORMAT.md
 */

#pragma once

#include "runtime/server/log/disk.h"

G_BEGIN_DECLS

#define TPS_DATA_FOLDER_FORMAT "FORMAT"

typedef struct TpsDataFolder TpsDataFolder;

/* Opens and locks the directory `path`, which is made if it is missing. `disk` is borrowed. Errors
 * name the directory:
 *   UNAVAILABLE         another process uses the directory
 *   INVALID_ARGUMENT    the directory has other contents, or a different version
 *   ABORTED             a part of the directory is missing, or FORMAT is damaged
 *   others              those of the disk; PERMISSION_DENIED if the directory is read-only */
TpsDataFolder *tps_data_folder_open (TpsDisk *disk, const gchar *path, GError **error);
/* Unlocks the directory and frees the object. NULL is fine. */
void tps_data_folder_close (TpsDataFolder *folder);

/* Turns NOT_FOUND, an error that names a part of an existing directory, into ABORTED, and adds a
 * remedy. Other errors stay. */
void tps_data_folder_explain (GError **error);

/* Return the path of the directory, of its log, and of its snapshots. Borrowed from `folder`. */
const gchar *tps_data_folder_get_path (const TpsDataFolder *folder);
const gchar *tps_data_folder_get_log_path (const TpsDataFolder *folder);
const gchar *tps_data_folder_get_snapshots_path (const TpsDataFolder *folder);

/* Returns the id that the directory, its log and its snapshots have in common: TPS_LOG_ID_DIGITS
 * hexadecimal digits. Borrowed from `folder`. */
const gchar *tps_data_folder_get_history (const TpsDataFolder *folder);
/* Returns the epoch of the directory, from 1. No record of the log and no snapshot has a higher
 * one. */
guint32 tps_data_folder_get_epoch (const TpsDataFolder *folder);
/* Return the LSN that the log must reach, and the LSN that the newest snapshot must have at least.
 * Must not be called at the same time as the functions below. */
gint64 tps_data_folder_get_lsn (const TpsDataFolder *folder);
gint64 tps_data_folder_get_snapshot_lsn (const TpsDataFolder *folder);

/* Raises the two LSNs to these values if they are lower, on the disk too. A failure is traced. The
 * old values then stay, so missing parts may not be noticed. Errors: those of the disk. Thread:
 * any. */
gboolean tps_data_folder_raise (TpsDataFolder *folder, gint64 lsn, gint64 snapshot_lsn,
                                GError **error);

/* Lowers the LSN that the log must reach to `lsn` if it is higher. Must be called before records
 * are removed on purpose. Errors: those of the disk. */
gboolean tps_data_folder_lower (TpsDataFolder *folder, gint64 lsn, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDataFolder, tps_data_folder_close)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The data directory, in which a server keeps its state. Only one process may use it at a time.
 *
 *   DIR/LOCK         locked by the process that uses the directory
 *   DIR/FORMAT       the version of the directory; the properties of its parts: see FORMAT.md
 *   DIR/log/         runtime/server/log/FORMAT.md
 *   DIR/snapshots/   runtime/server/snapshot/FORMAT.md
 */

#pragma once

#include "runtime/base/sync.h"
#include "runtime/server/log/disk.h"
#include "runtime/server/log/log_format.h"

#define TPS_DATA_FOLDER_FORMAT "FORMAT"

/* Read-only for users. */
typedef struct
{
  TpsDisk *disk;
  gchar *path;
  gchar *log_path;
  gchar *snapshots_path;
  TpsDiskFile *file; /* the lock */

  /* Guards the following fields, and FORMAT. `lsn` and `snapshot_lsn` must not be read at the same
   * time as the functions below. */
  TpsMutex lock;
  gchar history[TPS_LOG_ID_DIGITS + 1]; /* the id of the directory, its log and its snapshots */
  guint32 epoch;       /* from 1; no record of the log and no snapshot has a higher one */
  gint64 lsn;          /* that the log must reach */
  gint64 snapshot_lsn; /* that the newest snapshot must have at least */
} TpsDataFolder;

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

/* Raises the two LSNs to these values if they are lower, on the disk too. A failure is traced. The
 * old values then stay, so missing parts may not be noticed. Errors: those of the disk. Thread:
 * any. */
gboolean tps_data_folder_raise (TpsDataFolder *folder, gint64 lsn, gint64 snapshot_lsn,
                                GError **error);

/* Lowers the LSN that the log must reach to `lsn` if it is higher. Must be called before records
 * are removed on purpose. Errors: those of the disk. */
gboolean tps_data_folder_lower (TpsDataFolder *folder, gint64 lsn, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsDataFolder, tps_data_folder_close)

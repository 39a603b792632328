/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Functions that the parts of a snapshot share: cancelling, progress, opening files. Internal to
 * this folder. */

#pragma once

#include "runtime/server/snapshot/manifest.h"
#include "runtime/server/snapshot/safetensors.h"
#include "runtime/server/snapshot/snapshot.h"

/* The progress of a snapshot. tps_snapshot_pace() must be called between two pieces of work. */
typedef struct
{
  const TpsSnapshotOptions *options;
  guint64 n_done, n_bytes;
  guint64 n_told; /* the part of `n_done` that was reported */
} TpsSnapshotPace;

/* Counts `n_bytes` as complete. Errors: ABORTED (the caller of the snapshot has cancelled it). */
gboolean tps_snapshot_pace (TpsSnapshotPace *pace, gsize n_bytes, GError **error);

/* Calls options.held(), if it is set: `n_bytes` were read under a lock, which has been released. */
void tps_snapshot_held (const TpsSnapshotPace *pace, gsize n_bytes);

/* Checks that the length and the header of an open file are those of `file`. Errors: ABORTED. */
gboolean tps_snapshot_check_file (TpsSafetensorsReader *reader, const TpsManifestFile *file,
                                  GError **error);

/* Opens a file of the snapshot in `folder`. The length and the header of the file must be those of
 * `file`. The caller owns the reader. Errors: those of the disk, ABORTED. */
TpsSafetensorsReader *tps_snapshot_open_file (TpsDisk *disk, const gchar *folder,
                                              const TpsManifestFile *file, GError **error);

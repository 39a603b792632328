/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the parts of a snapshot have in common: giving up, progress, opening files. Internal to this
 * folder. */

#pragma once

#include "runtime/server/snapshot/manifest.h"
#include "runtime/server/snapshot/safetensors.h"
#include "runtime/server/snapshot/snapshot.h"

G_BEGIN_DECLS

/* Called between two pieces of work. */
typedef struct
{
  const TpsSnapshotOptions *options;
  guint64 n_done, n_bytes;
  guint64 n_told; /* of `n_done` */
} TpsSnapshotPace;

/* `n_bytes` more are done. FALSE with ABORTED: the caller of the snapshot gives up. */
gboolean tps_snapshot_pace (TpsSnapshotPace *pace, gsize n_bytes, GError **error);

/* `n_bytes` were read under a lock that is free again. */
void tps_snapshot_held (const TpsSnapshotPace *pace, gsize n_bytes);

/* Opens a file of a snapshot, whose length and header must be those that the manifest says. Errors:
 * those of the disk, ABORTED. */
TpsSafetensorsReader *tps_snapshot_open_file (TpsDisk *disk, const gchar *folder,
                                              const TpsManifestFile *file, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The model of a batch-updating server as files: one for each version that is kept, and one for the
 * optimizer's state. */

#pragma once

#include "runtime/server/model/model_capture.h"
#include "runtime/server/snapshot/snapshot_io.h"

/* Writes the files of `capture` to `folder`, and fills in `model` except for the push ids. Errors:
 * those of the disk, ABORTED (cancelled). */
gboolean tps_model_files_write (const TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
                                TpsSnapshotPace *pace, TpsManifestModel *model, GError **error);

/* Reads the files of `model` into `capture`, which must be all zero. The caller must clear
 * `capture` in any case. Errors: those of the disk, ABORTED, RESOURCE_EXHAUSTED. */
gboolean tps_model_files_read (TpsModelCapture *capture, TpsDisk *disk, const gchar *folder,
                               const TpsManifestModel *model, TpsSnapshotPace *pace,
                               GError **error);

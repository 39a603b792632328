/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push windows and floors as bytes, for snapshots. Without them an id would become new again when
 * the log before the snapshot is deleted.
 *
 *   tps_push_export_begin (window);
 *   while (tps_push_export_some (window, records))
 *     ... write and empty `records` ...
 *
 * Pushes go on meanwhile. Every client that is remembered throughout the export is among the
 * records, each as it was at one moment. Ids that end during the export may be included or not.
 * Records: runtime/server/snapshot/FORMAT.md. Thread: any, but one export of a window at a time.
 */

#pragma once

#include "runtime/server/push_window.h"

G_BEGIN_DECLS

/* About the number of bytes that some() appends, and for which it holds the lock. It may exceed
 * this by the pushes of one client, 40 bytes each. */
#define TPS_PUSH_EXPORT_BYTES (64 << 10)

/* Begins an export, also if an earlier one was abandoned. */
void tps_push_export_begin (TpsPushWindow *window);

/* Appends whole records. FALSE: there are no more, and nothing was appended. */
gboolean tps_push_export_some (TpsPushWindow *window, GByteArray *records);

/* Remembers the whole records at the beginning of `records`, and sets `n_used` to their length. No
 * request may use the window yet. Clients for which there is no room are forgotten as usual. FALSE:
 * the bytes after `n_used` are not a record. */
gboolean tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes,
                               gsize *n_used);

G_END_DECLS

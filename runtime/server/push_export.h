/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push windows and floors as bytes, for snapshots: without them an id would be new again when the
 * log has been cut.
 *
 *   tps_push_export_begin (window);
 *   while (tps_push_export_some (window, records))
 *     ... write and empty `records` ...
 *
 * The window goes on meanwhile: every client that is remembered from begin() on to the end is among
 * the records, each as it was at one moment. Ids that ended later may be in it or not. Records:
 * runtime/server/snapshot/FORMAT.md. Thread: any, but one export of a window at a time.
 */

#pragma once

#include "runtime/server/push_window.h"

G_BEGIN_DECLS

/* About how much some() appends, and how much it does under the lock: more by the pushes of one
 * client at most, 40 bytes each. */
#define TPS_PUSH_EXPORT_BYTES (64 << 10)

void tps_push_export_begin (TpsPushWindow *window);

/* Appends whole records. FALSE: there are no more, and nothing was appended. */
gboolean tps_push_export_some (TpsPushWindow *window, GByteArray *records);

/* Remembers the whole records at the beginning of `records`; `n_used` says how long they are. For a
 * window that serves nobody yet. Clients for which there is no room are forgotten as they would be
 * otherwise. FALSE: what comes next is not a record. */
gboolean tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes,
                               gsize *n_used);

G_END_DECLS

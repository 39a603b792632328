/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push windows and floors as bytes, for snapshots. Otherwise, an id would become new again when the
 * log before the snapshot is deleted.
 *
 *   tps_push_export_begin (window);
 *   while (tps_push_export_some (window, records))
 *     ... write and empty `records` ...
 *
 * Pushes continue meanwhile. Every client that is remembered throughout the export has a record,
 * with its state at one moment of the export. Pushes that end during the export may or may not be
 * included. runtime/server/snapshot/FORMAT.md describes the records. Thread: any, but one export of
 * a window at a time.
 */

#pragma once

#include "runtime/server/push_window.h"

G_BEGIN_DECLS

/* The approximate number of bytes that one call of some() appends while it holds the lock. The
 * record of one client, with 40 bytes for each push, may exceed it. */
#define TPS_PUSH_EXPORT_BYTES (64 << 10)

/* Begins an export, even if an earlier one was abandoned. */
void tps_push_export_begin (TpsPushWindow *window);

/* Appends whole records to `records`. FALSE: there are no more records, and nothing was
 * appended. */
gboolean tps_push_export_some (TpsPushWindow *window, GByteArray *records);

/* Adds the whole records at the beginning of `records` to the window, and sets `n_used` to their
 * length. No request may use the window yet. No client is forgotten: clients may exceed the share
 * of their tenant, and windows become floors as usual. FALSE without an error: the bytes after
 * `n_used` are not a record. Errors: RESOURCE_EXHAUSTED (the budget has no room). */
gboolean tps_push_export_read (TpsPushWindow *window, const guint8 *records, gsize n_bytes,
                               gsize *n_used, GError **error);

/* Must be called when all records have been read. Puts clients in the order of their last requests,
 * because an export has a different order. */
void tps_push_export_end_read (TpsPushWindow *window);

G_END_DECLS

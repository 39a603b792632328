/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows on devices, in the form in which snapshots hold them.
 *
 * A device keeps no LSNs of rows. All work on rows is queued on the table's stream in the order of
 * the LSNs. All rows of one copy thus contain exactly the steps that were queued before it, and
 * each has the LSN of the last of these. A table that was filled from a snapshot remembers these
 * LSNs until replay has passed the last of them, so that no row takes a step twice. */

#pragma once

#include "runtime/server/tables/device/device_rows.h"

G_BEGIN_DECLS

/* Copies rows [slot, slot + n) to `to`, in the table's dtype, and their optimizer state to `state`,
 * which is not written if the optimizer has none. Sets `lsn` to the LSN that all of these rows
 * have. Steps of the table wait for the copy. Blocks. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED.
 * Thread: any. */
gboolean tps_device_rows_capture (TpsDeviceRows *rows, gsize slot, gsize n, gpointer to,
                                  gfloat *state, gint64 *lsn, GError **error);

/* Writes rows, their state and their LSNs to the device. No other thread may have the table. Calls
 * must be made by ascending slots. `state` is not read if there is none. Blocks. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_device_rows_fill (TpsDeviceRows *rows, gsize slot, gsize n, gconstpointer from,
                               const gfloat *state, const gint64 *lsns, GError **error);

/* Whether a row may already contain the step of command `lsn`. If not, the LSNs of fill() are
 * forgotten: later commands have greater ones. Thread: that of the table's step. */
gboolean tps_device_rows_may_have (TpsDeviceRows *rows, gint64 lsn);

/* Whether the row contains the step. Must be called only after tps_device_rows_may_have() has
 * returned TRUE. */
gboolean tps_device_rows_has (const TpsDeviceRows *rows, gint64 slot, gint64 lsn);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows on devices, in the form in which snapshots hold them.
 *
 * A device keeps no LSNs of rows. All work on rows is queued on the table's stream in the order of
 * the LSNs. All rows of one copy thus contain exactly the steps that were queued before the copy,
 * and each row gets the LSN of the last of these steps. A table that was filled from a snapshot
 * keeps the LSNs of its rows until replay has passed the largest of them, so that no row takes a
 * step twice. */

#pragma once

#include "runtime/server/tables/device/device_rows.h"

G_BEGIN_DECLS

/* Copies rows [slot, slot + n) to `to`, in the table's dtype, and their optimizer state to `state`,
 * which is not written if the optimizer has none. Sets `lsn` to the LSN of all of these rows. Steps
 * of the table wait for the copy. Blocks. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. Thread: any. */
gboolean tps_device_rows_capture (TpsDeviceRows *rows, gsize slot, gsize n, gpointer to,
                                  gfloat *state, gint64 *lsn, GError **error);

/* Writes rows, their state and their LSNs to the device. No other thread may have the table. Calls
 * must be made in ascending slot order. `state` is not read if there is none. Blocks. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_device_rows_fill (TpsDeviceRows *rows, gsize slot, gsize n, gconstpointer from,
                               const gfloat *state, const gint64 *lsns, GError **error);

/* Returns TRUE if a row may already contain the step of command `lsn`. If `lsn` is greater than all
 * LSNs of fill(), these are discarded, since later commands have larger LSNs. Thread: the thread
 * of the table's step. */
gboolean tps_device_rows_may_have (TpsDeviceRows *rows, gint64 lsn);

/* Returns TRUE if the row in `slot` contains the step of command `lsn`. Must not be called unless
 * tps_device_rows_may_have() has returned TRUE. Thread: the thread of the table's step. */
gboolean tps_device_rows_has (const TpsDeviceRows *rows, gint64 slot, gint64 lsn);

G_END_DECLS

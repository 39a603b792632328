/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rows that devices work on, as snapshots hold them.
 *
 * A device keeps no LSNs of rows. Everything that touches rows is queued on the table's stream in
 * the order of the LSNs, so all rows of one copy contain exactly the steps that were queued before
 * it: each has the LSN of the last of these. A table that was filled from a snapshot remembers
 * these LSNs until replay has passed the last of them, so that no row takes a step twice. */

#pragma once

#include "runtime/server/tables/device/device_rows.h"

G_BEGIN_DECLS

/* Copies rows [slot, slot + n) with their state, which is not written where there is none, and sets
 * the LSN that they all have. Steps of the table wait for the copy. Blocks. Errors: DEVICE_LOST,
 * RESOURCE_EXHAUSTED. Thread: any. */
gboolean tps_device_rows_capture (TpsDeviceRows *rows, gsize slot, gsize n, gfloat *to,
                                  gfloat *state, gint64 *lsn, GError **error);

/* The opposite, for a table that nobody else has; by ascending slots. `state` is not read where
 * there is none. Blocks. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_device_rows_fill (TpsDeviceRows *rows, gsize slot, gsize n, const gfloat *from,
                               const gfloat *state, const gint64 *lsns, GError **error);

/* Whether some row may have the step of command `lsn` already. If not, the LSNs that fill() was
 * given are forgotten: later commands have greater ones. Thread: that of the table's step. */
gboolean tps_device_rows_may_have (TpsDeviceRows *rows, gint64 lsn);

/* Whether the row has it; after tps_device_rows_may_have() said TRUE. */
gboolean tps_device_rows_has (const TpsDeviceRows *rows, gint64 slot, gint64 lsn);

G_END_DECLS

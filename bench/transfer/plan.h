/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plan of a run: its rows and their systems. */

#pragma once

#include "bench/transfer/options.h"
#include "bench/transfer/system/system.h"

G_BEGIN_DECLS

/* Returns the rows, an array of TpsTransferRow. The caller owns the result. */
GArray *tps_transfer_plan_rows (const TpsTransferOptions *options);

/* Returns the maximum of bytes in flight on a connection, over all rows, and at most
 * TPS_TRANSFER_MAX_BYTES. */
gsize tps_transfer_plan_max_bytes (GArray *rows);

/* Returns the systems, an array of static TpsTransferSystemSpec. The caller owns the array. Errors:
 * INVALID_ARGUMENT if the flags exclude all systems, with the names of all systems. */
GPtrArray *tps_transfer_plan_systems (const TpsTransferOptions *options, GError **error);

/* Returns the warm-up of a row: a few of its calls. */
TpsTransferRow tps_transfer_plan_warm_up (const TpsTransferRow *row);

/* Returns the expected seconds of a row on a typical machine: two cores, memory of 10 GB/s. */
gdouble tps_transfer_plan_seconds (const TpsTransferSystemSpec *spec, const TpsTransferRow *row);

G_END_DECLS

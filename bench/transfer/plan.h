/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The plan of a run: its rows, and their systems. */

#pragma once

#include "bench/transfer/options.h"
#include "bench/transfer/system/system.h"

G_BEGIN_DECLS

/* Of TpsTransferRow; owned by the caller. */
GArray *tps_transfer_plan_rows (const TpsTransferOptions *options);

/* Of the rows, the most bytes that are in flight on a connection. */
gsize tps_transfer_plan_max_bytes (GArray *rows);

/* Of const TpsTransferSystemSpec, static; owned by the caller. Errors: TPS_ERROR_INVALID_ARGUMENT
 * where the flags leave none, naming those that there are. */
GPtrArray *tps_transfer_plan_systems (const TpsTransferOptions *options, GError **error);

/* The few calls of a row that come before it. */
TpsTransferRow tps_transfer_plan_warm_up (const TpsTransferRow *row);

/* Seconds that the row takes on a usual machine: two cores, memory of 10 GB/s. */
gdouble tps_transfer_plan_seconds (const TpsTransferSystemSpec *spec, const TpsTransferRow *row);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a run measures: which rows, on which systems. */

#pragma once

#include "bench/transfer/options.h"
#include "bench/transfer/system.h"

G_BEGIN_DECLS

/* Of TpsTransferRow; owned by the caller. */
GArray *tps_transfer_plan_rows (const TpsTransferOptions *options);

/* Of the rows, the most bytes that are in flight on a connection. */
gsize tps_transfer_plan_max_bytes (GArray *rows);

/* Of const TpsTransferSystemSpec, static; owned by the caller. Errors: TPS_ERROR_INVALID_ARGUMENT where the flags leave none,
 * naming those that there are. */
GPtrArray *tps_transfer_plan_systems (const TpsTransferOptions *options, GError **error);

G_END_DECLS

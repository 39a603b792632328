/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Rounding of updated rows, for code that keeps rows of FLOAT16 or BFLOAT16 in host memory. */

#pragma once

#include "runtime/device/backend.h"

/* Rounds `from` [dim] to `to` [dim] of `dtype`, FLOAT16 or BFLOAT16, as row number `row` in step
 * `step`; see TpsRowRounding. No overlap. Thread: any. */
void tps_cpu_round_row (TpsDType dtype, gpointer to, const gfloat *from, gsize dim,
                        const TpsRowRounding *rounding, gint64 step, gsize row);

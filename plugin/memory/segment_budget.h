/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits of all segments of one connection: bytes, number, and the budget of the server.
 * Private to plugin/memory. Reference-counted, because charges may outlive the registry. Thread:
 * any.
 */

#pragma once

#include "plugin/memory/segment_registry.h"

G_BEGIN_DECLS

typedef struct TpsSegmentBudget TpsSegmentBudget;

/* Creates a budget; copies `limits`. The caller owns a reference. */
TpsSegmentBudget *tps_segment_budget_new (const TpsSegmentLimits *limits);
void tps_segment_budget_unref (TpsSegmentBudget *budget);

/* Charges a segment of `n_bytes`. The caller owns the charge, which holds a reference to the
 * budget. Errors: RESOURCE_EXHAUSTED, with the limit. */
TpsSegmentCharge *tps_segment_budget_take (TpsSegmentBudget *budget, gsize n_bytes, GError **error);

/* Returns TpsSegmentLimits.copies, borrowed; NULL = the default pool. */
TpsBufferPool *tps_segment_budget_get_copies (const TpsSegmentBudget *budget);

/* Returns the limit on the bytes of all segments of the connection. */
gsize tps_segment_budget_get_max_bytes (const TpsSegmentBudget *budget);

/* Returns the bytes of all segments that are charged now. */
gsize tps_segment_budget_get_bytes (TpsSegmentBudget *budget);

G_END_DECLS

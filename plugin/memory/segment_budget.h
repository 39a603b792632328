/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What all segments of one connection may be together: bytes, number, and the account of the
 * server. Inside plugin/memory only. Reference-counted: what counts may outlive the registry.
 * Thread: any.
 */

#pragma once

#include "plugin/memory/segment_registry.h"

G_BEGIN_DECLS

typedef struct TpsSegmentBudget TpsSegmentBudget;

TpsSegmentBudget *tps_segment_budget_new (const TpsSegmentLimits *limits);
TpsSegmentBudget *tps_segment_budget_ref (TpsSegmentBudget *budget);
void tps_segment_budget_unref (TpsSegmentBudget *budget);

/* Counts one more segment; the caller's, which keeps the budget. Errors: RESOURCE_EXHAUSTED, saying
 * which limit. */
TpsSegmentCharge *tps_segment_budget_take (TpsSegmentBudget *budget, gsize n_bytes, GError **error);

/* Borrowed; may be NULL. */
TpsBufferPool *tps_segment_budget_get_copies (const TpsSegmentBudget *budget);

gsize tps_segment_budget_get_max_bytes (const TpsSegmentBudget *budget);

/* Of the segments that count at this moment. */
gsize tps_segment_budget_get_bytes (TpsSegmentBudget *budget);

G_END_DECLS

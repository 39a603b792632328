/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The second half of the check. It looks for an order of the pushes of each epoch that fits all
 * reads, and for crashes that keep a prefix of this order. Call it only if all reads have passed
 * the first half. */

#pragma once

#include "tests/history/read_check.h"

namespace history {

/* Returns anomalies in the same form as check_history(). */
std::vector<Anomaly> check_order (const History &history, const RowIndex &index,
                                  const ReadCheck &reads);

} // namespace history

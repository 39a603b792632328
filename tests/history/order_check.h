/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The second half of the check: one order of the pushes of each epoch that fits all reads, and
 * crashes that keep a prefix of it. Call it only for histories whose reads have passed the first
 * half. */

#pragma once

#include "tests/history/read_check.h"

namespace history {

/* Anomalies, as check_history() returns them. */
std::vector<Anomaly> check_order (const History &history, const RowIndex &index,
                                  const ReadCheck &reads);

} // namespace history

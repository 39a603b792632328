/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Decides whether a server with durability COMMIT may have given the replies of a history.
 *
 * A history is valid if there is one order of all pushes with these properties:
 *   - Each push takes its place in the order once, however often it is attempted. It takes its
 *     place after its first attempt since the last restart, and before its acknowledgement.
 *   - Each value of a row counts the pushes of a prefix of the order. The prefixes that reads show
 *     of one row grow with real time. Different rows may be at different places of the order.
 *   - When a push is acknowledged, it and all pushes before it are visible in all rows.
 *   - A crash keeps a prefix of the order. The prefix has every push that was acknowledged or that
 *     an earlier crash has kept.
 *
 * The check takes time and memory in proportion to the history, times a logarithm for sorting equal
 * rows. README.md explains why it is exact. */

#pragma once

#include <string>
#include <vector>

#include "tests/history/history.h"

namespace history {

struct Anomaly
{
  std::string name; /* a name in README.md */
  uint32_t line;    /* of the file, where the anomaly is visible */
  std::string text; /* the operation, the row and the reason */
};

/* Returns at most kMaxAnomalies anomalies, in the order of their detection. The history is valid if
 * there are none. All reads are checked one by one first. The order of pushes is checked only if
 * each read is possible. */
constexpr size_t kMaxAnomalies = 10;
std::vector<Anomaly> check_history (const History &history);

} // namespace history

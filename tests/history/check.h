/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Decides whether a server of durability COMMIT may have answered as a history says.
 *
 * A history is valid if there is one order of all pushes such that
 *   - each push takes its place in the order once, however often it is attempted: after its first
 *     attempt since the last restart, and before its acknowledgement;
 *   - each value of a row counts the pushes of a prefix of that order, and the prefixes that are
 *     seen of one row grow with real time; different rows may be at different places of the order;
 *   - when a push is acknowledged, it and all pushes before it are visible in all rows;
 *   - a crash keeps a prefix of the order, with every push that was acknowledged or that an
 *     earlier crash has kept.
 *
 * The check takes time and memory in proportion to the history, times a logarithm for the
 * sorting of equal rows. README.md explains why it is exact. */

#pragma once

#include <string>
#include <vector>

#include "tests/history/history.h"

namespace history {

struct Anomaly
{
  std::string name; /* those of README.md */
  uint32_t line;    /* of the file, where the anomaly shows */
  std::string text; /* which operation, which row, and why */
};

/* Anomalies in the order in which they were found, at most kMaxAnomalies. The history is valid if
 * there are none. Reads are checked one by one first; the order of pushes is checked only if each
 * read is possible. */
constexpr size_t kMaxAnomalies = 10;
std::vector<Anomaly> check_history (const History &history);

} // namespace history

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "tests/history/check.h"

#include "tests/history/order_check.h"

namespace history {

std::vector<Anomaly>
check_history (const History &history)
{
  RowIndex index (history);
  ReadCheck reads = check_reads (history, index);

  return reads.anomalies.empty () ? check_order (history, index, reads) : reads.anomalies;
}

} // namespace history

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A peer chooses the number of parts of a command. The record of a command that has taken effect
 * must not fail, so its encoding must not allocate memory. */

#include <gtest/gtest.h>

#include <vector>

#include "runtime/server/log/log_format.h"
#include "tests/plugin/call_cost/counted.h"
#include "tests/runtime/server/log/commands.h"

namespace thriftps {
namespace {

using thriftps_test::CountedSoFar;

long
count_allocations (const TpsCommand *command, std::vector<guint8> *bytes)
{
  TpsRecordPlan plan;
  long before = CountedSoFar ().allocations;

  tps_record_plan_set (&plan, command, TRUE);
  if (plan.n_bytes > bytes->size ())
    return -1;
  tps_record_encode (&plan, bytes->data ());
  return CountedSoFar ().allocations - before;
}

TEST (EncodeAllocations, ThereAreNoneForAnyCommand)
{
  std::vector<guint8> bytes (4 << 20);

  ASSERT_GT (CountedSoFar ().allocations, 0) << "allocations are counted";
  for (TpsCommandKind kind : kAllKinds)
    for (uint32_t seed = 0; seed < 20; seed++)
      {
        RandomCommand command (seed, 1, kind, 20000);

        EXPECT_EQ (count_allocations (&command.record, &bytes), 0) << kind;
      }
}

TEST (EncodeAllocations, ThereAreNoneForManyParts)
{
  constexpr guint kParts = 30000;
  const gint64 ids[] = { 7 };
  const float values[] = { 1, 2 };
  std::vector<guint8> bytes (kParts * 512);
  std::vector<TpsBagGradient> gradients (kParts);
  TpsCommand command = {};

  for (TpsBagGradient &gradient : gradients)
    {
      gradient.query.table = "t";
      gradient.query.indices = { { TPS_DTYPE_INT64, 1, { 1 } }, ids };
      gradient.query.offsets = { { TPS_DTYPE_INT64, 1, { 1 } }, ids };
      gradient.query.pooling = TPS_POOLING_SUM;
      gradient.gradient = { { TPS_DTYPE_FLOAT32, 2, { 1, 2 } }, values };
    }
  command.lsn = 1;
  command.kind = TPS_COMMAND_APPLY_BAGS;
  command.bags.n_gradients = kParts;
  command.bags.gradients = gradients.data ();
  EXPECT_EQ (count_allocations (&command, &bytes), 0);
}

} // namespace
} // namespace thriftps

// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/machine/tuning.h"

#include <gtest/gtest.h>

namespace thriftps_test {
namespace {

TpsTuning
Derive (guint n_cores, bool fetches_pairs = false)
{
  TpsMachine machine = {};
  TpsTuning tuning;

  machine.n_processors = machine.n_allowed = machine.n_cores = n_cores;
  machine.fetches_pairs = fetches_pairs;
  tps_tuning_derive (&machine, &tuning);
  return tuning;
}

bool
IsPowerOfTwo (gsize number)
{
  return number > 0 && (number & (number - 1)) == 0;
}

// The code relies on these relations.
TEST (Tuning, IsUsableOnAnyMachine)
{
  for (guint n_cores = 1; n_cores <= 2000; n_cores++)
    {
      TpsTuning tuning = Derive (n_cores);
      SCOPED_TRACE (n_cores);

      for (gsize number :
           { tuning.io_threads, tuning.workers, tuning.tls_threads, tuning.max_helpers })
        EXPECT_TRUE (number >= 1 && number <= 1024) << number;
      EXPECT_LE (tuning.spinning_loops, n_cores / 2);
      EXPECT_TRUE (IsPowerOfTwo (tuning.row_presences)) << tuning.row_presences;
    }
  TpsTuning tuning = Derive (2);
  EXPECT_GE (tuning.lock_spins, 1u);
  EXPECT_EQ (tuning.fetch_bytes, 64u);
  EXPECT_EQ (Derive (2, true).fetch_bytes, 128u);
  EXPECT_LT (tuning.inline_bytes, tuning.part_bytes);
  EXPECT_LT (tuning.part_bytes, tuning.wake_bytes);
  EXPECT_LT (tuning.wake_bytes, tuning.short_step_bytes);
  EXPECT_GE (tuning.average_range_bytes, tuning.digest_block_bytes);
  EXPECT_GT (tuning.average_helper_bytes, tuning.average_range_bytes);
  EXPECT_GE (tuning.model_range_bytes, 8192u); // a block of a model
  EXPECT_GT (tuning.model_helper_bytes, tuning.model_range_bytes);
  EXPECT_LT (tuning.stream_bytes, tuning.shared_stream_bytes);
  EXPECT_GT (tuning.shared_stream_bytes, gsize { 1 } << 20); // the block that a thread copies alone
  for (gsize number : { tuning.digest_block_bytes, tuning.reduce_slot_bytes, tuning.row_ahead_bytes,
                        tuning.row_version_bytes })
    EXPECT_TRUE (IsPowerOfTwo (number)) << number;
  EXPECT_GE (tuning.reduce_slot_bytes, 4096u);
}

} // namespace
} // namespace thriftps_test

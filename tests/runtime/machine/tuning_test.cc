// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/machine/tuning.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <string>
#include <thread>
#include <vector>

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

// ---- values ---------------------------------------------------------------------------------

TEST (Tuning, HasTheMeasuredValuesOnTwoCores)
{
  TpsTuning tuning = Derive (2);

  EXPECT_EQ (tuning.io_threads, 8u);
  EXPECT_EQ (tuning.workers, 2u);
  EXPECT_EQ (tuning.tls_threads, 1u);
  EXPECT_EQ (tuning.max_helpers, 3u);
  EXPECT_EQ (tuning.spin_us, 100u);
  EXPECT_EQ (tuning.spinning_loops, 1u);
  EXPECT_EQ (tuning.row_presences, 32u);
  EXPECT_EQ (tuning.fetch_bytes, 64u);
  EXPECT_EQ (Derive (2, true).fetch_bytes, 128u);
}

TEST (Tuning, DoesNotSpinOnOneCore)
{
  TpsTuning tuning = Derive (1);

  EXPECT_EQ (tuning.io_threads, 2u);
  EXPECT_EQ (tuning.workers, 1u);
  EXPECT_EQ (tuning.tls_threads, 1u);
  EXPECT_EQ (tuning.spin_us, 0u);
  EXPECT_EQ (tuning.spinning_loops, 0u);
}

TEST (Tuning, UsesManyCores)
{
  TpsTuning tuning = Derive (64);

  EXPECT_EQ (tuning.io_threads, 64u);
  EXPECT_EQ (tuning.workers, 64u);
  EXPECT_EQ (tuning.tls_threads, 32u);
  EXPECT_EQ (tuning.max_helpers, 7u);
  EXPECT_EQ (tuning.spinning_loops, 32u);
  EXPECT_EQ (tuning.row_presences, 128u);
}

TEST (Tuning, CountsIoThreadsAsForTheMachine)
{
  EXPECT_EQ (tps_tuning_count_io_threads (1), 2u);
  for (guint n_cores : { 2u, 3u, 8u })
    EXPECT_EQ (tps_tuning_count_io_threads (n_cores), 8u);
  EXPECT_EQ (tps_tuning_count_io_threads (9), 9u);
  EXPECT_EQ (tps_tuning_count_io_threads (500), 64u);
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

// ---- the list -------------------------------------------------------------------------------

// Checks the rows in the order of the fields, so that every field is listed once.
TEST (TuningList, HasEveryDerivedValueOnce)
{
  TpsTuning tuning = Derive (2);
  std::set<std::string> names;

  ASSERT_EQ (tps_tuning_count_rows (), G_STRUCT_OFFSET (TpsTuning, lock_spins) / sizeof (gsize));
  for (guint i = 0; i < tps_tuning_count_rows (); i++)
    {
      TpsTuningRow row = tps_tuning_get_row (&tuning, i);
      EXPECT_TRUE (names.insert (row.name).second) << row.name;
      EXPECT_EQ (row.value, reinterpret_cast<gsize *> (&tuning)[i]) << row.name;
      EXPECT_STRNE (row.unit, "");
      EXPECT_STRNE (row.rule, "");
      EXPECT_STRNE (row.purpose, "");
    }
}

// ---- this machine ---------------------------------------------------------------------------

TEST (Tuning, OfThisProcessMatchesItsMachine)
{
  TpsTuning expected;
  const TpsTuning *found[8];
  std::vector<std::thread> threads;

  tps_tuning_derive (tps_machine_get (), &expected);
  for (const TpsTuning *&each : found)
    threads.emplace_back ([&each] { each = tps_tuning_get (); });
  for (std::thread &thread : threads)
    thread.join ();
  for (const TpsTuning *each : found)
    EXPECT_EQ (each, tps_tuning_get ());
  EXPECT_EQ (std::memcmp (tps_tuning_get (), &expected, sizeof expected), 0);
}

} // namespace
} // namespace thriftps_test

// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/machine/tuning.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/machine/machine_tree.h"

namespace thriftps_test {
namespace {

TpsTuning
Derive (const TpsMachine &machine)
{
  TpsTuning tuning;

  tps_tuning_derive (&machine, &tuning);
  return tuning;
}

TpsMachine
MachineOf (guint n_cores, gsize l1, gsize l2, gsize l3)
{
  TpsMachine machine = {};

  machine.n_processors = machine.n_allowed = machine.n_cores = n_cores;
  machine.l1_bytes = l1;
  machine.l2_bytes = l2;
  machine.l3_bytes = l3;
  machine.line_bytes = 64;
  return machine;
}

bool
IsPowerOfTwo (gsize number)
{
  return number > 0 && (number & (number - 1)) == 0;
}

// ---- vectors --------------------------------------------------------------------------------

// Expects the values of the machines on which the rules were measured.
void
ExpectMeasuredValues (const TpsTuning &tuning)
{
  EXPECT_EQ (tuning.io_threads, 8u);
  EXPECT_EQ (tuning.workers, 2u);
  EXPECT_EQ (tuning.tls_threads, 1u);
  EXPECT_EQ (tuning.max_helpers, 3u);
  EXPECT_EQ (tuning.spin_us, 100u);
  EXPECT_EQ (tuning.spinning_loops, 1u);
  EXPECT_EQ (tuning.lock_spins, 64u);
  EXPECT_EQ (tuning.wake_bytes, 256 * kKiB);
  EXPECT_EQ (tuning.inline_bytes, 64 * kKiB);
  EXPECT_EQ (tuning.part_bytes, 128 * kKiB);
  EXPECT_EQ (tuning.short_step_bytes, 2 * kMiB);
  EXPECT_EQ (tuning.reply_worker_bytes, 1 * kMiB);
  EXPECT_EQ (tuning.average_range_bytes, 1 * kMiB);
  EXPECT_EQ (tuning.average_helper_bytes, 3 * kMiB);
  EXPECT_EQ (tuning.model_range_bytes, 256 * kKiB);
  EXPECT_EQ (tuning.model_helper_bytes, 1 * kMiB);
  EXPECT_EQ (tuning.skinny_products, 100000000u);
  EXPECT_EQ (tuning.pack_rows_bytes, 96 * kKiB);
  EXPECT_EQ (tuning.pack_matrix_bytes, 4 * kMiB);
  EXPECT_EQ (tuning.stream_bytes, 12 * kMiB);
  EXPECT_EQ (tuning.shared_stream_bytes, 16 * kMiB);
  EXPECT_EQ (tuning.unix_buffer_bytes, 256 * kKiB);
  EXPECT_EQ (tuning.reduce_slot_bytes, 256 * kKiB);
  EXPECT_EQ (tuning.digest_block_bytes, 32 * kKiB);
  EXPECT_EQ (tuning.row_ahead_bytes, 4 * kKiB);
  EXPECT_EQ (tuning.row_version_bytes, 64 * kKiB);
  EXPECT_EQ (tuning.row_presences, 32u);
}

TEST (Tuning, HasTheMeasuredValuesOnAnEpycOfTwoCores)
{
  TpsTuning tuning = Derive (ReadEpyc ());

  ExpectMeasuredValues (tuning);
  EXPECT_EQ (tuning.pool_ahead_bytes, 256 * kKiB);
  EXPECT_EQ (tuning.fetch_bytes, 64u);
  EXPECT_EQ (tuning.stream_pages, 1u);
}

TEST (Tuning, HasTheMeasuredValuesOnAXeonWithTheCacheOfItsHost)
{
  TpsTuning tuning = Derive (ReadXeon ());

  ExpectMeasuredValues (tuning);
  EXPECT_EQ (tuning.pool_ahead_bytes, 512 * kKiB);
  EXPECT_EQ (tuning.fetch_bytes, 128u);
  EXPECT_EQ (tuning.stream_pages, 4u);
}

// The second-level cache is half as large as on the other machines, but a wake-up takes as long.
TEST (Tuning, SharesNoSmallerWorkOnAZen3)
{
  TpsTuning tuning = Derive (MachineOf (2, 32 * kKiB, 512 * kKiB, 4 * kMiB));

  EXPECT_EQ (tuning.wake_bytes, 256 * kKiB);
  EXPECT_EQ (tuning.inline_bytes, 64 * kKiB);
  EXPECT_EQ (tuning.short_step_bytes, 2 * kMiB);
  EXPECT_EQ (tuning.unix_buffer_bytes, 128 * kKiB);
}

TEST (Tuning, IsSmallerOnATinyProcessor)
{
  TpsTuning tuning = Derive (ReadTiny ());

  EXPECT_EQ (tuning.workers, 4u);
  EXPECT_EQ (tuning.wake_bytes, 64 * kKiB);
  EXPECT_EQ (tuning.inline_bytes, 16 * kKiB);
  EXPECT_EQ (tuning.unix_buffer_bytes, 64 * kKiB);
  EXPECT_EQ (tuning.reduce_slot_bytes, 64 * kKiB);
  EXPECT_EQ (tuning.stream_bytes, 1 * kMiB);
  EXPECT_EQ (tuning.shared_stream_bytes, 2 * kMiB);
  EXPECT_EQ (tuning.digest_block_bytes, 16 * kKiB);
  EXPECT_EQ (tuning.row_version_bytes, 8 * kKiB);
}

TEST (Tuning, DoesNotSpinOnOneCore)
{
  TpsTuning tuning = Derive (MachineOf (1, 48 * kKiB, 1 * kMiB, 4 * kMiB));

  EXPECT_EQ (tuning.io_threads, 2u);
  EXPECT_EQ (tuning.workers, 1u);
  EXPECT_EQ (tuning.spin_us, 0u);
  EXPECT_EQ (tuning.spinning_loops, 0u);
  EXPECT_EQ (tuning.lock_spins, 1u);
}

TEST (Tuning, UsesManyCores)
{
  TpsTuning tuning = Derive (MachineOf (64, 48 * kKiB, 2 * kMiB, 4 * kMiB));

  EXPECT_EQ (tuning.io_threads, 64u);
  EXPECT_EQ (tuning.workers, 64u);
  EXPECT_EQ (tuning.max_helpers, 7u);
  EXPECT_EQ (tuning.spinning_loops, 32u);
  EXPECT_EQ (tuning.row_presences, 128u);
  EXPECT_EQ (tuning.skinny_products, 10000000u);
}

TEST (Tuning, CountsIoThreadsAsForTheMachine)
{
  EXPECT_EQ (tps_tuning_count_io_threads (1), 2u);
  for (guint n_cores : { 2u, 3u, 8u })
    EXPECT_EQ (tps_tuning_count_io_threads (n_cores), 8u);
  EXPECT_EQ (tps_tuning_count_io_threads (9), 9u);
  EXPECT_EQ (tps_tuning_count_io_threads (500), 64u);
}

// ---- properties -----------------------------------------------------------------------------

TpsMachine
RandomMachine (std::mt19937_64 &dice)
{
  return MachineOf (1 + dice () % 512, 4 * kKiB + dice () % (1 * kMiB),
                    32 * kKiB + dice () % (256 * kMiB),
                    dice () % 2 == 0 ? 0 : dice () % (TPS_MACHINE_MAX_L3_PER_CORE + 1));
}

// The code relies on these relations on every machine.
TEST (Tuning, IsUsableOnAnyMachine)
{
  std::mt19937_64 dice (3);

  for (int round = 0; round < 5000; round++)
    {
      TpsMachine machine = RandomMachine (dice);
      TpsTuning tuning = Derive (machine);
      SCOPED_TRACE (testing::Message () << machine.n_cores << " cores, " << machine.l1_bytes << ", "
                                        << machine.l2_bytes << ", " << machine.l3_bytes);

      for (gsize number :
           { tuning.io_threads, tuning.workers, tuning.tls_threads, tuning.max_helpers })
        EXPECT_TRUE (number >= 1 && number <= 1024) << number;
      EXPECT_GE (tuning.lock_spins, 1u);
      EXPECT_EQ (tuning.spin_us > 0, machine.n_cores > 1);
      EXPECT_LE (tuning.spinning_loops, machine.n_cores / 2);

      EXPECT_LT (tuning.inline_bytes, tuning.part_bytes);
      EXPECT_LT (tuning.part_bytes, tuning.wake_bytes);
      EXPECT_LT (tuning.wake_bytes, tuning.short_step_bytes);
      EXPECT_GE (tuning.average_range_bytes, tuning.digest_block_bytes);
      EXPECT_GT (tuning.average_helper_bytes, tuning.average_range_bytes);
      EXPECT_GE (tuning.model_range_bytes, 8192u); // a block of a model
      EXPECT_GT (tuning.model_helper_bytes, tuning.model_range_bytes);

      EXPECT_LT (tuning.stream_bytes, tuning.shared_stream_bytes);
      EXPECT_GT (tuning.shared_stream_bytes, 1 * kMiB); // the block that a thread copies alone
      EXPECT_LE (tuning.unix_buffer_bytes, 256 * kKiB);

      for (gsize number : { tuning.digest_block_bytes, tuning.reduce_slot_bytes, tuning.wake_bytes,
                            tuning.row_ahead_bytes, tuning.row_version_bytes, tuning.row_presences,
                            tuning.unix_buffer_bytes })
        EXPECT_TRUE (IsPowerOfTwo (number)) << number;
      EXPECT_GE (tuning.reduce_slot_bytes, 4096u);
    }
}

// A machine with more of everything must not get a smaller value. `skinny_products` is an
// exception.
TEST (Tuning, GrowsWithTheMachine)
{
  std::mt19937_64 dice (4);

  for (int round = 0; round < 2000; round++)
    {
      TpsMachine small = RandomMachine (dice);
      TpsMachine large = small;
      large.n_cores += dice () % 16;
      large.l1_bytes += dice () % (64 * kKiB);
      large.l2_bytes += dice () % (4 * kMiB);
      large.l3_bytes += dice () % (4 * kMiB);
      TpsTuning less = Derive (small);
      TpsTuning more = Derive (large);
      more.skinny_products = less.skinny_products;
      for (gsize i = 0; i < sizeof less / sizeof (gsize); i++)
        EXPECT_GE (reinterpret_cast<gsize *> (&more)[i], reinterpret_cast<gsize *> (&less)[i]) << i;
    }
}

// Processes on one machine share memory whose layout depends on this value.
TEST (Tuning, OfSharedMemoryDoesNotDependOnTheCoresOfAProcess)
{
  TpsMachine machine = ReadXeon ();
  gsize slot_bytes = Derive (machine).reduce_slot_bytes;

  machine.n_cores = machine.n_allowed = 1;
  EXPECT_EQ (Derive (machine).reduce_slot_bytes, slot_bytes);
}

// ---- the list -------------------------------------------------------------------------------

gsize
BytesOf (const TpsTuningRow &row)
{
  return row.value << (strcmp (row.unit, "KiB") == 0 ? 10 : strcmp (row.unit, "MiB") == 0 ? 20 : 0);
}

// Checks the rows in the order of the fields, so that every field is listed once.
TEST (TuningList, HasEveryValueOnce)
{
  TpsTuning tuning = Derive (ReadEpyc ());
  std::set<std::string> names;

  ASSERT_EQ (tps_tuning_count_rows (), sizeof tuning / sizeof (gsize));
  for (guint i = 0; i < tps_tuning_count_rows (); i++)
    {
      g_auto (TpsTuningRow) row = {};
      tps_tuning_get_row (&tuning, i, &row);
      EXPECT_TRUE (names.insert (row.name).second) << row.name;
      EXPECT_EQ (BytesOf (row), reinterpret_cast<gsize *> (&tuning)[i]) << row.name;
      EXPECT_STRNE (row.unit, "");
      EXPECT_STRNE (row.purpose, "");
    }
}

std::string
DescriptionOf (const TpsTuning &tuning, const std::string &name)
{
  for (guint i = 0; i < tps_tuning_count_rows (); i++)
    {
      g_auto (TpsTuningRow) row = {};
      tps_tuning_get_row (&tuning, i, &row);
      if (name == row.name)
        return std::to_string (row.value) + " " + row.unit + " = " + row.derived_from;
    }
  return "";
}

TEST (TuningList, DescribesTheRules)
{
  TpsTuning tuning = Derive (ReadEpyc ());

  EXPECT_EQ (DescriptionOf (tuning, "io_threads"),
             "8 threads = cores, at least 8, at most 64; on one core 2");
  EXPECT_EQ (DescriptionOf (tuning, "unix_buffer_bytes"),
             "256 KiB = L2 / 4 as a power of two, at least 64 KiB, at most 256 KiB");
  EXPECT_EQ (DescriptionOf (tuning, "stream_bytes"),
             "12 MiB = last level * 3, at least 1 MiB, at most 12 MiB");
  EXPECT_EQ (DescriptionOf (tuning, "spin_us"), "100 us = 100; on one core 0");
  EXPECT_EQ (DescriptionOf (tuning, "inline_bytes"), "64 KiB = wake_bytes / 4");
  EXPECT_EQ (DescriptionOf (tuning, "skinny_products"),
             "100000000 products = 200000000 / cores, at least 10000000, at most 100000000");
}

// ---- this machine ---------------------------------------------------------------------------

TEST (Tuning, OfThisProcessMatchesItsMachine)
{
  TpsTuning expected = Derive (*tps_machine_get ());
  const TpsTuning *found[8];
  std::vector<std::thread> threads;

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

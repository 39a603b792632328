// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "runtime/base/stream_copy.h"
#include "runtime/machine/tuning.h"

namespace {

const size_t kMin = tps_tuning_get ()->stream_bytes;
// From this size on, several threads copy.
const size_t kShared = tps_tuning_get ()->shared_stream_bytes;
constexpr size_t kGuard = 256; // bytes around the copied range; a copy may start anywhere in it
constexpr size_t kGroup = 4 * 4096;

// The parameter is `fetch_bytes`, so that every processor tests both orders of the copy.
class StreamCopyTest : public testing::TestWithParam<size_t>
{
protected:
  StreamCopyTest () : from_ (kShared + 3 * kGroup + 2 * kGuard), to_ (from_.size ())
  {
    std::mt19937_64 dice (1);

    tuning_.fetch_bytes = GetParam ();
    tps_tuning_chosen = &tuning_;
    for (uint8_t &byte : from_)
      byte = static_cast<uint8_t> (dice ());
  }

  ~StreamCopyTest () override
  {
    tps_tuning_chosen = usual_;
  }

  // The target must have the source's bytes in the range and be unchanged around it.
  void
  CheckCopy (size_t to_offset, size_t from_offset, size_t n_bytes)
  {
    SCOPED_TRACE (testing::Message ()
                  << n_bytes << " bytes from " << from_offset << " to " << to_offset);
    std::vector<uint8_t> expected (from_.size (), 0xa5);

    std::memset (to_.data (), 0xa5, to_.size ());
    std::memcpy (expected.data () + to_offset, from_.data () + from_offset, n_bytes);
    tps_stream_copy (to_.data () + to_offset, from_.data () + from_offset, n_bytes);
    ASSERT_TRUE (to_ == expected);
  }

  const TpsTuning *usual_ = tps_tuning_get ();
  TpsTuning tuning_ = *usual_;
  std::vector<uint8_t> from_, to_;
};

INSTANTIATE_TEST_SUITE_P (Orders, StreamCopyTest, testing::Values (size_t { 64 }, size_t { 128 }),
                          [] (const auto &order) {
                            return order.param == 64 ? "OnePageAfterTheOther"
                                                     : "FourPagesSideBySide";
                          });

TEST_P (StreamCopyTest, CopiesOnBothSidesOfTheBoundary)
{
  for (size_t n_bytes : { kMin - 1, kMin, kMin + 1 })
    CheckCopy (kGuard, kGuard, n_bytes);
  for (size_t n_bytes : { kShared - 1, kShared, kShared + 1, kShared + kGroup + 65 })
    CheckCopy (kGuard + 1, kGuard + 2, n_bytes);
}

TEST_P (StreamCopyTest, CopiesOnManyThreadsAtOnce)
{
  std::vector<std::vector<uint8_t>> copies (4);
  std::vector<std::thread> threads;

  for (std::vector<uint8_t> &copy : copies)
    threads.emplace_back ([&] {
      copy.resize (from_.size ());
      for (int i = 0; i < 3; i++)
        tps_stream_copy (copy.data (), from_.data (), copy.size ());
    });
  for (std::thread &thread : threads)
    thread.join ();
  for (const std::vector<uint8_t> &copy : copies)
    EXPECT_TRUE (copy == from_);
}

TEST_P (StreamCopyTest, CopiesRandomSizesAndOffsets)
{
  std::mt19937_64 dice (7);

  for (int i = 0; i < 80; i++)
    CheckCopy (dice () % kGuard, dice () % kGuard, kMin - kGroup + dice () % (3 * kGroup));
}

} // namespace

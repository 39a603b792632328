// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/base/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace {

class Cores : public testing::Test
{
protected:
  void
  SetUp () override
  {
    ASSERT_EQ (sched_getaffinity (0, sizeof all_, &all_), 0);
  }

  // Uses a thread of its own, because the affinity ends with the thread.
  guint
  CountWhereOnly (const cpu_set_t &cores)
  {
    guint n = 0;
    std::thread ([&] {
      EXPECT_EQ (sched_setaffinity (0, sizeof cores, &cores), 0);
      n = tps_cores_count ();
    }).join ();
    return n;
  }

  cpu_set_t all_;
};

TEST_F (Cores, AreThoseThatTheThreadMayRunOn)
{
  EXPECT_EQ (tps_cores_count (), (guint) CPU_COUNT (&all_));
  EXPECT_EQ (CountWhereOnly (all_), (guint) CPU_COUNT (&all_));
}

TEST_F (Cores, AreOneWhereverThatIs)
{
  for (int core = 0; core < CPU_SETSIZE; core++)
    {
      cpu_set_t one;
      CPU_ZERO (&one);
      CPU_SET (core, &one);
      if (CPU_ISSET (core, &all_))
        {
          EXPECT_EQ (CountWhereOnly (one), 1u) << core;
        }
    }
}

} // namespace

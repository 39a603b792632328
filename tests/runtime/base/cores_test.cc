// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/machine/machine.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
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

  // Uses its own thread, because the affinity ends with the thread.
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
  guint n_quota = tps_machine_get ()->n_quota;
  guint expected = (guint) CPU_COUNT (&all_);

  if (n_quota > 0)
    expected = std::min (expected, n_quota);
  EXPECT_EQ (tps_cores_count (), expected);
  EXPECT_EQ (CountWhereOnly (all_), expected);
}

TEST_F (Cores, AreOneForAnySingleCore)
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

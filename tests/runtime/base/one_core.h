// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sched.h>

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace thriftps_test {

// Restricts its thread, and the threads and processes that this thread starts, to one core during
// its lifetime. The core is random, so that concurrent tests seldom share it. (The process id
// cannot choose it, because tests in sandboxes have the same process id.)
class OneCore
{
public:
  OneCore ()
  {
    cpu_set_t one;
    int core = -1;

    CPU_ZERO (&all_);
    EXPECT_EQ (sched_getaffinity (0, sizeof all_, &all_), 0);
    int n_cores = std::max (CPU_COUNT (&all_), 1);
    for (unsigned left = std::random_device () () % static_cast<unsigned> (n_cores) + 1; left > 0;
         left--)
      do
        core++;
      while (core < CPU_SETSIZE - 1 && !CPU_ISSET (core, &all_));
    CPU_ZERO (&one);
    CPU_SET (core, &one);
    EXPECT_EQ (sched_setaffinity (0, sizeof one, &one), 0);
  }
  ~OneCore ()
  {
    EXPECT_EQ (sched_setaffinity (0, sizeof all_, &all_), 0);
  }
  OneCore (const OneCore &) = delete;
  OneCore &operator= (const OneCore &) = delete;

private:
  cpu_set_t all_;
};

} // namespace thriftps_test

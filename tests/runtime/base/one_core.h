// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#pragma once

#include <sched.h>

#include <gtest/gtest.h>

namespace thriftps_test {

// While it exists, its thread and the threads and processes that this thread starts run on one
// core.
class OneCore
{
public:
  OneCore ()
  {
    cpu_set_t one;
    int core = 0;

    CPU_ZERO (&all_);
    EXPECT_EQ (sched_getaffinity (0, sizeof all_, &all_), 0);
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET (core, &all_))
      core++;
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

// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the number of I/O threads of a server.

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "runtime/base/cores.h"
#include "runtime/machine/tuning.h"
#include "tests/plugin/server/test_service.h"
#include "tests/runtime/base/one_core.h"

namespace thriftps_test {
namespace {

int
CountThreads (const std::string &prefix)
{
  int n = 0;
  for (const auto &task : std::filesystem::directory_iterator ("/proc/self/task"))
    {
      std::ifstream file (task.path () / "comm");
      std::string name;
      std::getline (file, name);
      n += name.rfind (prefix, 0) == 0;
    }
  return n;
}

// Returns the number of threads with this thread's name. A new thread has the name of its creator
// until it sets its own.
int
CountThreadsWithoutName ()
{
  char name[16] = {};
  prctl (PR_GET_NAME, name);
  return CountThreads (name);
}

// Some sanitizers start a thread together with the first thread of the program.
void
StartThreadOfSanitizer ()
{
  std::filesystem::path task;

  std::thread ([&task] { task = "/proc/self/task/" + std::to_string (gettid ()); }).join ();
  while (std::filesystem::exists (task)) // a joined thread may still be listed
    sched_yield ();
}

class IoThreadsTest : public ServerTest
{
protected:
  void
  SetUp () override
  {
    StartThreadOfSanitizer ();
    n_without_name_ = CountThreadsWithoutName ();
  }
  void
  TearDown () override
  {
    if (server_ != nullptr)
      ServerTest::TearDown ();
    while (CountThreads ("tps-io-") > 0) // joined threads may still be listed
      sched_yield ();
  }

  TpsServerOptions
  Options () override
  {
    return options_;
  }

  int
  CountIoThreads ()
  {
    while (CountThreadsWithoutName () > n_without_name_)
      sched_yield ();
    return CountThreads ("tps-io-");
  }

  int n_without_name_ = 0;
  TpsServerOptions options_ = {};
};

TEST_F (IoThreadsTest, AreAsManyAsTheCoresSuggest)
{
  if (tps_cores_count () < 2)
    GTEST_SKIP () << "the test may run on one core only";
  ServerTest::SetUp ();
  EXPECT_EQ (CountIoThreads (), (int) tps_tuning_count_io_threads (tps_cores_count ()));
}

TEST_F (IoThreadsTest, AreTwoOnOneCore)
{
  OneCore one_core;
  ServerTest::SetUp ();
  EXPECT_EQ (CountIoThreads (), 2);
}

TEST_F (IoThreadsTest, AreAsManyAsAskedFor)
{
  options_.n_io_threads = 3;
  ServerTest::SetUp ();
  EXPECT_EQ (CountIoThreads (), 3);
}

} // namespace
} // namespace thriftps_test

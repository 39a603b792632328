// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the pulse with loops and workers, some of which the test blocks.

#include "plugin/server/pulse.h"

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <thread>
#include <vector>

namespace {

// Blocks a thread until Release() is called.
class Hold
{
public:
  static void
  Run (gpointer data)
  {
    auto *self = static_cast<Hold *> (data);
    self->begun_.set_value ();
    self->released_.get_future ().wait ();
    self->ended_.set_value ();
  }
  void
  WaitUntilItRuns ()
  {
    begun_.get_future ().wait ();
  }
  void
  Release ()
  {
    released_.set_value ();
    ended_.get_future ().wait ();
  }

private:
  std::promise<void> begun_, released_, ended_;
};

class PulseTest : public testing::Test
{
protected:
  PulseTest ()
  {
    for (TpsLoop *&loop : loops_)
      loop = tps_loop_new ("loop", nullptr);
    pulse_ = tps_pulse_new (loops_, 2, workers_);
  }
  ~PulseTest ()
  {
    tps_pulse_free (pulse_);
    for (TpsLoop *loop : loops_)
      tps_loop_free (loop);
    tps_worker_pool_free (workers_);
  }
  // By default the check has no patience, so every beat must have returned.
  std::string
  Check (gint64 now_ns = 0, gint64 patience_ns = 0)
  {
    g_autofree gchar *missing = nullptr;
    return tps_pulse_check (pulse_, now_ns, patience_ns, &missing) ? "" : missing;
  }
  // Checks until all beats have returned.
  void
  CheckUntilTheyTurn ()
  {
    while (Check () != "")
      std::this_thread::yield ();
  }

  TpsLoop *loops_[2];
  TpsWorkerPool *workers_ = tps_worker_pool_new ("worker", 2);
  TpsPulse *pulse_;
};

TEST_F (PulseTest, NamesALoopThatStandsStill)
{
  Hold hold;
  tps_loop_post (loops_[1], Hold::Run, &hold);
  hold.WaitUntilItRuns ();
  EXPECT_EQ (Check (), "");
  // The other beats return at some time. The beat of the second loop does not.
  std::string missing;
  while ((missing = Check ()) != "I/O thread 1")
    EXPECT_NE (missing, "");
  EXPECT_EQ (Check (), "I/O thread 1");
  hold.Release ();
  CheckUntilTheyTurn ();
}

// In between, checks of other callers send no new beats and do not hide the standstill.
TEST_F (PulseTest, UsesTheTimeoutOfItsCaller)
{
  Hold hold;
  tps_loop_post (loops_[0], Hold::Run, &hold);
  hold.WaitUntilItRuns ();
  EXPECT_EQ (Check (1000), "");
  EXPECT_EQ (Check (1500, 1000), "");
  EXPECT_EQ (Check (1999, 1000), "");
  EXPECT_EQ (Check (2000, 1000), "I/O thread 0");
  EXPECT_EQ (Check (2000, 5000), "");
  hold.Release ();
  while (Check (3000, 1000) != "")
    std::this_thread::yield ();
  EXPECT_EQ (Check (3500, 1000), "") << "beats of the last look";
}

// This holds even if another caller with more patience sees no standstill in between.
TEST_F (PulseTest, ReportsAStandstillOnce)
{
  Hold hold;
  tps_loop_post (loops_[0], Hold::Run, &hold);
  hold.WaitUntilItRuns ();
  EXPECT_EQ (Check (1000), "");
  EXPECT_EQ (Check (2000, 1000), "I/O thread 0");
  EXPECT_TRUE (tps_pulse_begin_report (pulse_));
  EXPECT_EQ (Check (2000, 5000), "");
  EXPECT_EQ (Check (2500, 1000), "I/O thread 0");
  EXPECT_FALSE (tps_pulse_begin_report (pulse_));
  hold.Release ();
  while (Check (3000, 1000) != "")
    std::this_thread::yield ();
  EXPECT_TRUE (tps_pulse_begin_report (pulse_)) << "the next standstill";
}

TEST_F (PulseTest, OneWorkerThatTurnsIsEnough)
{
  Hold first, second;
  tps_worker_pool_submit (workers_, Hold::Run, &first);
  first.WaitUntilItRuns ();
  for (int i = 0; i < 3; i++)
    CheckUntilTheyTurn ();
  tps_worker_pool_submit (workers_, Hold::Run, &second);
  second.WaitUntilItRuns ();
  while (Check () != "workers")
    std::this_thread::yield ();
  first.Release ();
  CheckUntilTheyTurn ();
  second.Release ();
}

TEST_F (PulseTest, NamesTimersThatStandStillAsWorkers)
{
  Hold hold;
  tps_worker_pool_add_timer (workers_, 0, Hold::Run, &hold);
  hold.WaitUntilItRuns ();
  EXPECT_EQ (Check (), "");
  while (Check () != "workers")
    std::this_thread::yield ();
  hold.Release ();
  CheckUntilTheyTurn ();
}

// Beats that are pending when the pulse is freed either return later or are cancelled.
TEST_F (PulseTest, MayBeFreedWhileBeatsAreAway)
{
  Hold loop, timer;
  tps_loop_post (loops_[0], Hold::Run, &loop);
  tps_worker_pool_add_timer (workers_, 0, Hold::Run, &timer);
  loop.WaitUntilItRuns ();
  timer.WaitUntilItRuns ();
  EXPECT_EQ (Check (), "");
  tps_pulse_free (pulse_);
  loop.Release ();
  timer.Release ();
  pulse_ = tps_pulse_new (loops_, 2, workers_);
}

} // namespace

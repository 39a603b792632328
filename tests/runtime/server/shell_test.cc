// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "runtime/server/shell.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace {

constexpr gint64 kFar = (gint64) 3600 * 1000000000;

// A service whose state is a list of deadlines.
class Service
{
public:
  Service ()
  {
    workers_ = tps_worker_pool_new ("test", 2);
    tps_shell_init (&shell_, workers_, Expire, this);
  }
  ~Service ()
  {
    ShutDown ();
    tps_shell_drain (&shell_);
    tps_shell_clear (&shell_);
    tps_worker_pool_free (workers_);
  }

  void
  SetDeadline (gint64 deadline_ns)
  {
    tps_mutex_lock (&shell_.lock);
    tps_shell_set_deadline (&shell_, deadline_ns);
    tps_mutex_unlock (&shell_.lock);
  }
  void
  ShutDown ()
  {
    tps_mutex_lock (&shell_.lock);
    tps_shell_shut_down (&shell_);
    tps_mutex_unlock (&shell_.lock);
  }
  void
  WaitForExpired (int n)
  {
    std::unique_lock<std::mutex> guard (lock_);
    changed_.wait (guard, [&] { return n_expired_ >= n; });
  }
  // If a period is set, each expiry sets the next deadline.
  void
  SetPeriod (gint64 period_ns)
  {
    std::lock_guard<std::mutex> guard (lock_);
    period_ns_ = period_ns;
  }
  // Expiries wait while the caller has this lock.
  std::unique_lock<std::mutex>
  Hold ()
  {
    return std::unique_lock<std::mutex> (hold_);
  }
  void
  WaitForBegun ()
  {
    std::unique_lock<std::mutex> guard (lock_);
    changed_.wait (guard, [&] { return has_begun_; });
  }
  TpsShell *
  shell ()
  {
    return &shell_;
  }
  TpsWorkerPool *
  workers ()
  {
    return workers_;
  }
  int
  NExpired ()
  {
    std::lock_guard<std::mutex> guard (lock_);
    return n_expired_;
  }

private:
  static void
  Expire (gpointer data)
  {
    auto *self = static_cast<Service *> (data);
    gint64 period_ns;
    {
      std::lock_guard<std::mutex> guard (self->lock_);
      self->has_begun_ = true;
      self->changed_.notify_all ();
    }
    std::lock_guard<std::mutex> hold (self->hold_);
    {
      std::lock_guard<std::mutex> guard (self->lock_);
      period_ns = self->period_ns_;
    }
    if (period_ns > 0)
      self->SetDeadline (tps_clock_now_ns () + period_ns);
    std::lock_guard<std::mutex> guard (self->lock_);
    self->n_expired_++;
    self->changed_.notify_all ();
  }

  TpsShell shell_;
  TpsWorkerPool *workers_;
  std::mutex hold_;
  std::mutex lock_;
  std::condition_variable changed_;
  int n_expired_ = 0;
  bool has_begun_ = false;
  gint64 period_ns_ = 0;
};

TEST (Shell, CallsForEachDeadline)
{
  Service service;
  service.SetPeriod (1000);
  service.SetDeadline (0);
  service.WaitForExpired (100);
}

TEST (Shell, TakesAnEarlierDeadlineAndKeepsItAgainstALaterOne)
{
  Service service;
  service.SetDeadline (tps_clock_now_ns () + kFar);
  service.SetDeadline (G_MAXINT64);
  gint64 soon_ns = tps_clock_now_ns () + 1000000;
  service.SetDeadline (soon_ns);
  service.SetDeadline (tps_clock_now_ns () + kFar);
  service.WaitForExpired (1);
  EXPECT_GE (tps_clock_now_ns (), soon_ns);
}

// The drain must not wait for a timer that is due in an hour.
TEST (Shell, DrainsAtOnceWhenItsTimerIsFar)
{
  Service service;
  service.SetDeadline (tps_clock_now_ns () + kFar);
  service.ShutDown ();
  service.SetDeadline (0);
  tps_shell_drain (service.shell ());
  EXPECT_EQ (service.NExpired (), 0);
}

TEST (Shell, DrainWaitsForAnExpiryThatRuns)
{
  Service service;
  auto hold = service.Hold ();
  service.SetDeadline (0);
  service.WaitForBegun ();
  service.ShutDown ();
  std::thread drain ([&] {
    tps_shell_drain (service.shell ());
    EXPECT_EQ (service.NExpired (), 1);
  });
  hold.unlock ();
  drain.join ();
}

struct Job
{
  TpsShell *shell;
  std::mutex *gate;
  bool *has_ended;
};

TEST (Shell, DrainWaitsForJobs)
{
  Service service;
  std::mutex gate;
  bool has_ended = false;
  Job job = { service.shell (), &gate, &has_ended };
  gate.lock ();
  tps_mutex_lock (&service.shell ()->lock);
  tps_shell_begin (service.shell ());
  tps_mutex_unlock (&service.shell ()->lock);
  tps_worker_pool_submit (
      service.workers (),
      [] (gpointer data) {
        auto *self = static_cast<Job *> (data);
        std::lock_guard<std::mutex> guard (*self->gate);
        *self->has_ended = true;
        tps_shell_end (self->shell);
      },
      &job);
  service.ShutDown ();
  std::thread drain ([&] {
    tps_shell_drain (service.shell ());
    EXPECT_TRUE (has_ended);
  });
  gate.unlock ();
  drain.join ();
}

// Many threads set deadlines while expiries run. No deadline may be lost, and the service may end
// at any time.
TEST (Shell, SurvivesDeadlinesFromEverywhere)
{
  for (int round = 0; round < 20; round++)
    {
      Service service;
      std::vector<std::thread> threads;
      service.SetPeriod (1000);
      for (int i = 0; i < 4; i++)
        threads.emplace_back ([&service, i] {
          for (int j = 0; j < 200; j++)
            service.SetDeadline (tps_clock_now_ns () + (j % 7) * 1000 * i);
        });
      service.WaitForExpired (10);
      for (std::thread &thread : threads)
        thread.join ();
    }
}

} // namespace

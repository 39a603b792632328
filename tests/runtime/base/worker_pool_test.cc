/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/worker_pool.h"

#include <signal.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

/* The pool's clock. */
gint64
now_ns ()
{
  struct timespec now;

  clock_gettime (CLOCK_MONOTONIC, &now);
  return (gint64) now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A gate that opens once. */
class Gate
{
public:
  void
  open ()
  {
    std::lock_guard<std::mutex> guard (lock);

    is_open = true;
    changed.notify_all ();
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock);

    changed.wait (guard, [this] { return is_open; });
  }

  static void
  open_it (gpointer gate)
  {
    ((Gate *) gate)->open ();
  }

  static void
  wait_for_it (gpointer gate)
  {
    ((Gate *) gate)->wait ();
  }

private:
  std::mutex lock;
  std::condition_variable changed;
  bool is_open = false;
};

void
count (gpointer counter)
{
  (*(std::atomic<int> *) counter)++;
}

struct Numbered
{
  std::vector<int> *order;
  int number;
};

void
append (gpointer user_data)
{
  Numbered *numbered = (Numbered *) user_data;

  numbered->order->push_back (numbered->number);
}

struct Nested
{
  TpsWorkerPool *pool;
  std::atomic<int> n;
  int depth;
};

void
submit_nested (gpointer user_data)
{
  Nested *nested = (Nested *) user_data;

  nested->n++;
  if (--nested->depth > 0)
    tps_worker_pool_submit (nested->pool, submit_nested, nested);
}

TEST (WorkerPool, SettlesWithTheLastJobOfAJob)
{
  Nested nested = { tps_worker_pool_new ("test", 2), { 0 }, 0 };

  tps_worker_pool_settle (nested.pool);
  for (int i = 1; i <= 3; i++)
    {
      nested.depth = 100;
      tps_worker_pool_submit (nested.pool, submit_nested, &nested);
      tps_worker_pool_settle (nested.pool);
      EXPECT_EQ (nested.n, 100 * i);
    }
  tps_worker_pool_free (nested.pool);
}

TEST (WorkerPool, TimersDoNotWaitForWorkers)
{
  TpsWorkerPool *pool = tps_worker_pool_new ("test", 1);
  Gate holds, timer;

  tps_worker_pool_submit (pool, Gate::wait_for_it, &holds);
  tps_worker_pool_add_timer (pool, now_ns () + 1000000, Gate::open_it, &timer);
  timer.wait (); /* The only worker is blocked meanwhile. */
  holds.open ();
  tps_worker_pool_free (pool);
}

TEST (WorkerPool, JobsOfTheLastTimerRun)
{
  Nested nested = { tps_worker_pool_new ("test", 1), { 0 }, 1 };
  Gate begun;

  tps_worker_pool_add_timer (nested.pool, 0, Gate::open_it, &begun);
  tps_worker_pool_add_timer (
      nested.pool, 0,
      [] (gpointer data) {
        Nested *last = (Nested *) data;
        last->depth++;
        tps_worker_pool_submit (last->pool, submit_nested, last);
      },
      &nested);
  begun.wait ();
  while (nested.n == 0)
    std::this_thread::yield ();
  tps_worker_pool_free (nested.pool);
  EXPECT_EQ (nested.n, 2);
}

/* ---- lanes ---- */

TEST (WorkerPool, LongJobsLeaveAThreadForShortOnes)
{
  TpsWorkerPool *pool = tps_worker_pool_new ("test", 2);
  g_autoptr (TpsJobQueue) queue = tps_job_queue_new (pool, TPS_LANE_LONG);
  Gate gate;

  for (int i = 0; i < 3; i++)
    tps_job_queue_submit (queue, Gate::wait_for_it, nullptr, &gate);
  tps_worker_pool_submit (pool, Gate::open_it, &gate);
  tps_worker_pool_free (pool);
}

struct LongJob
{
  TpsWorkerPool *pool;
  std::atomic<int> n_parts { 0 };
  int n_parts_meanwhile = -1;
  Gate others;

  static void
  run (gpointer data)
  {
    LongJob *job = (LongJob *) data;

    tps_worker_pool_submit_part (job->pool, count, &job->n_parts);
    job->others.wait ();
    job->n_parts_meanwhile = job->n_parts;
  }
};

TEST (WorkerPool, PartsOfLongJobsAreLong)
{
  LongJob job { tps_worker_pool_new ("test", 2) };
  g_autoptr (TpsJobQueue) queue = tps_job_queue_new (job.pool, TPS_LANE_LONG);

  tps_job_queue_submit (queue, LongJob::run, nullptr, &job);
  for (int i = 0; i < 3; i++)
    tps_worker_pool_submit (job.pool, Gate::open_it, &job.others);
  tps_worker_pool_free (job.pool);
  EXPECT_EQ (job.n_parts_meanwhile, 0) << "a part ran in the place of short jobs";
  EXPECT_EQ (job.n_parts, 1);
}

/* ---- queues of owners ---- */

/* A pool whose only worker is blocked until release(). */
class HeldPool
{
public:
  HeldPool () : pool (tps_worker_pool_new ("test", 1))
  {
    tps_worker_pool_submit (pool, begin, this);
    begun.wait ();
  }

  void
  release_and_free ()
  {
    holds.open ();
    tps_worker_pool_free (pool);
  }

  TpsWorkerPool *pool;

private:
  static void
  begin (gpointer data)
  {
    HeldPool *held = (HeldPool *) data;

    held->begun.open ();
    held->holds.wait ();
  }

  Gate begun, holds;
};

TEST (JobQueue, OwnersTakeTurnsAndThePoolsJobsComeEveryOther)
{
  HeldPool held;
  g_autoptr (TpsJobQueue) greedy = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  g_autoptr (TpsJobQueue) modest = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  std::vector<int> order;
  std::vector<Numbered> jobs;

  for (int i = 0; i < 16; i++)
    jobs.push_back ({ &order, i });
  for (int i = 0; i < 8; i++)
    tps_job_queue_submit (greedy, append, nullptr, &jobs[(size_t) i]);
  for (int i = 8; i < 10; i++)
    tps_job_queue_submit (modest, append, nullptr, &jobs[(size_t) i]);
  for (int i = 10; i < 13; i++)
    tps_worker_pool_submit (held.pool, append, &jobs[(size_t) i]);
  held.release_and_free ();
  /* Jobs 10 to 12 are the pool's own, and jobs 8 and 9 belong to the modest owner. The first job to
   * run, the blocking one, was the pool's, so an owner's job is next. */
  EXPECT_EQ (order, (std::vector<int> { 0, 10, 8, 11, 1, 12, 9, 2, 3, 4, 5, 6, 7 }));
}

/* Groups take turns first. Within a group, its queues take turns. */
TEST (JobQueue, AGroupOfManyQueuesHasNoMoreTurnsThanAGroupOfOne)
{
  HeldPool held;
  g_autoptr (TpsJobGroup) crowd = tps_job_group_new (held.pool);
  g_autoptr (TpsJobGroup) single = tps_job_group_new (held.pool);
  g_autoptr (TpsJobQueue) alone = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  g_autoptr (TpsJobQueue) plain = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  std::vector<TpsJobQueue *> queues;
  std::vector<int> order;
  std::vector<Numbered> jobs;

  for (int i = 0; i < 20; i++)
    jobs.push_back ({ &order, i });
  for (int i = 0; i < 6; i++)
    {
      queues.push_back (tps_job_queue_new (held.pool, TPS_LANE_SHORT));
      tps_job_queue_set_group (queues.back (), crowd);
      tps_job_queue_submit (queues.back (), append, nullptr, &jobs[(size_t) i]);
    }
  tps_job_queue_submit (queues[0], append, nullptr, &jobs[6]);
  tps_job_queue_set_group (alone, single);
  for (int i = 10; i < 13; i++)
    tps_job_queue_submit (alone, append, nullptr, &jobs[(size_t) i]);
  for (int i = 15; i < 17; i++)
    tps_job_queue_submit (plain, append, nullptr, &jobs[(size_t) i]);
  for (TpsJobQueue *queue : queues)
    tps_job_queue_unref (queue);
  held.release_and_free ();
  EXPECT_EQ (order, (std::vector<int> { 0, 10, 15, 1, 11, 16, 2, 12, 3, 4, 5, 6 }));
}

TEST (JobQueue, ChangesItsGroupWithItsNextTurn)
{
  HeldPool held;
  TpsJobGroup *crowd = tps_job_group_new (held.pool);
  g_autoptr (TpsJobQueue) moving = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  g_autoptr (TpsJobQueue) staying = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  std::vector<int> order;
  std::vector<Numbered> jobs;

  for (int i = 0; i < 20; i++)
    jobs.push_back ({ &order, i });
  tps_job_queue_set_group (moving, crowd);
  for (int i = 0; i < 3; i++)
    tps_job_queue_submit (moving, append, nullptr, &jobs[(size_t) i]);
  for (int i = 10; i < 13; i++)
    tps_job_queue_submit (staying, append, nullptr, &jobs[(size_t) i]);
  tps_job_queue_set_group (moving, nullptr);
  tps_job_group_unref (crowd); /* the queue keeps the group until its next turn */
  held.release_and_free ();
  EXPECT_EQ (order, (std::vector<int> { 0, 10, 1, 11, 2, 12 }));
}

struct Fate
{
  std::atomic<int> n_run { 0 };
  std::atomic<int> n_cancelled { 0 };
  Gate cancelled;

  static void
  run (gpointer fate)
  {
    ((Fate *) fate)->n_run++;
  }

  static void
  cancel (gpointer fate)
  {
    ((Fate *) fate)->n_cancelled++;
    ((Fate *) fate)->cancelled.open ();
  }
};

TEST (JobQueue, CancelDropsJobsThatHaveNotBegun)
{
  HeldPool held;
  g_autoptr (TpsJobQueue) closed = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  g_autoptr (TpsJobQueue) open = tps_job_queue_new (held.pool, TPS_LANE_SHORT);
  Fate of_closed, of_open, must;

  for (int i = 0; i < 64; i++)
    {
      tps_job_queue_submit (closed, Fate::run, Fate::cancel, &of_closed);
      tps_job_queue_submit (open, Fate::run, Fate::cancel, &of_open);
    }
  tps_job_queue_submit (closed, Fate::run, nullptr, &must);
  tps_job_queue_cancel (closed);
  tps_job_queue_cancel (closed);
  tps_job_queue_submit (closed, Fate::run, Fate::cancel, &of_closed); /* after the cancellation */
  tps_job_queue_submit (closed, Fate::run, nullptr, &must);
  EXPECT_EQ (of_closed.n_cancelled, 0) << "called back by cancel()";
  held.release_and_free ();
  EXPECT_EQ (of_closed.n_run, 0);
  EXPECT_EQ (of_closed.n_cancelled, 65);
  EXPECT_EQ (of_open.n_run, 64);
  EXPECT_EQ (of_open.n_cancelled, 0);
  EXPECT_EQ (must.n_run, 2);
}

/* Many threads submit jobs to many queues and cancel them. Every job must end exactly once. */
TEST (JobQueue, EveryJobRunsOrIsCancelledOnce)
{
  TpsWorkerPool *pool = tps_worker_pool_new ("test", 3);
  std::vector<std::thread> owners;
  Fate fate;

  for (int i = 0; i < 4; i++)
    owners.emplace_back ([pool, &fate] {
      for (int round = 0; round < 50; round++)
        {
          g_autoptr (TpsJobQueue) queue = tps_job_queue_new (pool, TPS_LANE_SHORT);

          for (int job = 0; job < 20; job++)
            tps_job_queue_submit (queue, Fate::run, Fate::cancel, &fate);
          tps_job_queue_cancel (queue);
        }
    });
  for (std::thread &owner : owners)
    owner.join ();
  tps_worker_pool_free (pool);
  EXPECT_EQ (fate.n_run + fate.n_cancelled, 4 * 50 * 20);
}

void
read_signal_mask (gpointer mask)
{
  pthread_sigmask (SIG_SETMASK, NULL, (sigset_t *) mask);
}

TEST (WorkerPool, SignalsAreLeftToTheHost)
{
  TpsWorkerPool *pool = tps_worker_pool_new ("test", 1);
  sigset_t inside, outside;

  tps_worker_pool_submit (pool, read_signal_mask, &inside);
  tps_worker_pool_free (pool);
  read_signal_mask (&outside);
  EXPECT_TRUE (sigismember (&inside, SIGTERM));
  EXPECT_FALSE (sigismember (&outside, SIGTERM));
}

} // namespace

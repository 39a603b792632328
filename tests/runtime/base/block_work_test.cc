/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/parallel.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace {

/* Work that counts the runs of each block. */
class Work
{
public:
  explicit Work (guint n_blocks) : n_runs (n_blocks)
  {
  }

  void
  run (TpsWorkerPool *pool, guint range_blocks, guint blocks_per_helper)
  {
    TpsBlockWork work = {};

    work.n_blocks = static_cast<guint> (n_runs.size ());
    work.range_blocks = range_blocks;
    work.blocks_per_helper = blocks_per_helper;
    work.run = [] (gpointer self, guint first, guint n) {
      for (guint i = first; i < first + n; i++)
        static_cast<Work *> (self)->n_runs[i]++;
    };
    work.done = [] (gpointer user_data) {
      auto self = static_cast<Work *> (user_data);
      std::lock_guard<std::mutex> guard (self->lock_);

      self->n_done++;
      self->changed_.notify_all ();
    };
    work.user_data = this;
    tps_block_work_run (pool, &work);
  }

  void
  wait ()
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [this] { return n_done > 0; });
  }

  std::vector<std::atomic<int>> n_runs;
  int n_done = 0;

private:
  std::mutex lock_;
  std::condition_variable changed_;
};

TEST (BlockWork, EachBlockIsRunOnceAndTheEndIsToldOnce)
{
  g_autoptr (TpsWorkerPool) pool = tps_worker_pool_new ("test", 4);

  for (guint n_blocks : { 1u, 2u, 7u, 8u, 9u, 1000u })
    for (guint range : { 1u, 3u, 8u, 2000u })
      {
        Work work (n_blocks);

        work.run (pool, range, 2);
        work.wait ();
        for (auto &n : work.n_runs)
          ASSERT_EQ (n, 1);
        EXPECT_EQ (work.n_done, 1);
      }
}

TEST (BlockWork, SmallWorkIsDoneOnTheCallingThread)
{
  g_autoptr (TpsWorkerPool) pool = tps_worker_pool_new ("test", 4);
  static std::thread::id ran_on;
  TpsBlockWork work = {};

  work.n_blocks = 3;
  work.range_blocks = 1;
  work.blocks_per_helper = 4;
  work.run = [] (gpointer, guint, guint) { ran_on = std::this_thread::get_id (); };
  work.done = [] (gpointer) {};
  tps_block_work_run (pool, &work);
  EXPECT_EQ (ran_on, std::this_thread::get_id ());
}

/* A helper may start after all work is done and the memory of the work is freed. */
TEST (BlockWork, HelpersThatComeLateFindNothingToDo)
{
  g_autoptr (TpsWorkerPool) pool = tps_worker_pool_new ("test", 2);

  for (int round = 0; round < 200; round++)
    {
      Work work (64);

      work.run (pool, 1, 1);
      work.wait ();
    }
}

} // namespace

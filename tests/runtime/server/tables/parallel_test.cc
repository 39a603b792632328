/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace {

struct Counts
{
  explicit Counts (size_t n) : n_runs (n)
  {
  }
  std::vector<std::atomic<int>> n_runs;
};

void
count (gpointer user_data, gsize part)
{
  static_cast<Counts *> (user_data)->n_runs[part]++;
}

/* The worker's first part submits a job. The worker's next part records whether the job has already
 * run. */
struct Turns
{
  TpsWorkerPool *pool;
  std::thread::id caller;
  std::atomic<bool> job_ran { false };
  int n_parts_of_worker = 0;
  bool job_ran_between = false;
};

void
job (gpointer user_data)
{
  static_cast<Turns *> (user_data)->job_ran = true;
}

void
take_turns (gpointer user_data, gsize part)
{
  Turns *turns = static_cast<Turns *> (user_data);

  if (std::this_thread::get_id () == turns->caller)
    {
      while (!turns->job_ran)
        std::this_thread::yield ();
      return;
    }
  if (++turns->n_parts_of_worker == 1)
    tps_worker_pool_submit (turns->pool, job, turns);
  else if (turns->n_parts_of_worker == 2)
    turns->job_ran_between = turns->job_ran;
}

} // namespace

TEST (Parallel, RunsEachPartOnce)
{
  g_autoptr (TpsWorkerPool) pool = tps_worker_pool_new ("parts", 3);

  for (size_t n : { 0, 1, 2, 3, 100 })
    for (TpsWorkerPool *workers : { pool, static_cast<TpsWorkerPool *> (nullptr) })
      {
        Counts counts (n);

        tps_parallel_run (workers, n, count, &counts);
        for (std::atomic<int> &n_runs : counts.n_runs)
          EXPECT_EQ (n_runs, 1);
      }
}

TEST (Parallel, OtherJobsHaveTheirTurnBetweenParts)
{
  g_autoptr (TpsWorkerPool) pool = tps_worker_pool_new ("parts", 1);
  Turns turns { pool, std::this_thread::get_id () };

  tps_parallel_run (pool, 100000, take_turns, &turns);
  EXPECT_TRUE (turns.job_ran);
  /* If the caller took all remaining parts before the worker returned, the worker had only one
   * part. */
  EXPECT_TRUE (turns.job_ran_between || turns.n_parts_of_worker < 2);
}

TEST (Parallel, SmallWorkIsNotCut)
{
  g_autoptr (TpsWorkerPool) pool = tps_worker_pool_new ("parts", 1);

  EXPECT_EQ (tps_parallel_count_parts (pool, 1000, 50), 1u);
  EXPECT_EQ (tps_parallel_count_parts (nullptr, G_MAXSIZE, 50), 1u);
  EXPECT_EQ (tps_parallel_count_parts (pool, G_MAXSIZE, 50), 50u);
  EXPECT_EQ (tps_parallel_count_parts (pool, G_MAXSIZE, 0), 1u);
}

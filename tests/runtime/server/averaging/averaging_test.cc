/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of a round, one scenario each, in simulated time. */

#include "tests/runtime/server/averaging/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"

namespace averaging_test {
namespace {

using testing::HasSubstr;

Simulation::Options
n_trainers (unsigned n)
{
  Simulation::Options options;

  options.n_trainers = n;
  return options;
}

void
expect_average (const Simulation &sim, int call, const std::vector<Contribution> &by_trainer)
{
  ASSERT_EQ (sim.outcome (call).n_answers, 1);
  ASSERT_EQ (sim.outcome (call).code, 0) << sim.outcome (call).message;
  EXPECT_TRUE (*sim.outcome (call).average == expected_average (by_trainer));
}

void
expect_error (const Simulation &sim, int call, int code, const std::string &text)
{
  ASSERT_EQ (sim.outcome (call).n_answers, 1);
  EXPECT_EQ (sim.outcome (call).code, code) << sim.outcome (call).message;
  EXPECT_THAT (sim.outcome (call).message, HasSubstr (text));
}

TEST (Averaging, ThousandsOfMissingAreCounted)
{
  Simulation sim (n_trainers (4000));
  int call = sim.push (0, 0, 0, dense ({ 1 }));

  sim.advance_time (30 * SECOND);
  expect_error (sim, call, TPS_ERROR_DEADLINE_EXCEEDED, "1, 2, 3, ");
  expect_error (sim, call, TPS_ERROR_DEADLINE_EXCEEDED, "and 3899 more");
}

/* Each weight is a valid FLOAT32, but their sum is not. Without the refusal, the mean of 0.5 and
 * 0.5 would be 0. */
TEST (Averaging, WeightsWhoseSumIsBeyondFloatAreRefused)
{
  Simulation sim (n_trainers (2));
  int first = sim.push (0, 0, 0, dense ({ 0.5 }, 3e38));
  int second = sim.push (1, 0, 0, dense ({ 0.5 }, 3e38));

  expect_error (sim, first, TPS_ERROR_INVALID_ARGUMENT,
                "gradient.weight: the weights of the round");
  expect_error (sim, second, TPS_ERROR_INVALID_ARGUMENT, "round (batch 0, param_loc 0)");
}

TEST (Averaging, CallsThatMayNotWaitMayWaitForArithmetic)
{
  Simulation::Options options = n_trainers (2);

  options.runs_jobs_at_once = false;
  Simulation sim (options);
  sim.push (0, 0, 0, dense ({ 1 }));
  sim.run_jobs ();
  int last = sim.push (1, 0, 0, dense ({ 3 }), false);
  int repeat = sim.push (0, 0, 0, dense ({ 1 }), false, true);
  EXPECT_TRUE (sim.is_waiting (repeat));
  sim.run_jobs ();
  expect_average (sim, last, { dense ({ 1 }), dense ({ 3 }) });
  expect_average (sim, repeat, { dense ({ 1 }), dense ({ 3 }) });
}

TEST (Averaging, RoundsOfABatchAreLimited)
{
  Simulation::Options options = n_trainers (2);

  options.max_rounds = 2;
  Simulation sim (options);
  sim.push (0, 0, 0, dense ({ 1 }));
  sim.push (0, 0, 1, dense ({ 1 }));
  expect_error (sim, sim.push (0, 0, 2, dense ({ 1 })), TPS_ERROR_RESOURCE_EXHAUSTED,
                "param_loc 2 is refused");
  expect_average (sim, sim.push (1, 0, 1, dense ({ 1 })), { dense ({ 1 }), dense ({ 1 }) });
  EXPECT_TRUE (sim.is_waiting (sim.push (0, 1, 2, dense ({ 1 }))));
}

TEST (Averaging, RoundsAreChargedAndOlderOnesGiveWay)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "averages", 1 << 20);
  {
    Simulation::Options options = n_trainers (1000);
    int n = 0;

    options.budget = budget;
    Simulation sim (options);
    while (n < 1000 && sim.is_waiting (sim.push (0, 0, n, dense ({ 1 }))))
      n++;
    EXPECT_LE (n, (1 << 20) / (1000 * 24));
    EXPECT_GE (n, (1 << 20) / (1000 * 32 + 4096));
    /* The limit is not permanent: the next batch starts, and finds room once the old one has
     * ended. */
    for (gint64 batch = 1; batch < 4; batch++)
      sim.push (0, batch, 0, dense ({ 1 }));
    EXPECT_TRUE (sim.is_waiting (sim.push (0, 4, 0, dense ({ 1 }))));
  }
  EXPECT_EQ (tps_budget_get_held (budget), 0u);
}

TEST (Averaging, SumThatFindsNoMemoryFailsTheRound)
{
  g_autoptr (TpsBudget) budget = tps_budget_new (nullptr, "averages", 1);
  TpsBufferPool *none = tps_buffer_pool_new (budget, nullptr, 0);
  {
    Simulation::Options options = n_trainers (2);

    options.buffers = none;
    Simulation sim (options);
    int first = sim.push (0, 0, 0, dense ({ 1 }, 1, TPS_DTYPE_FLOAT16)); /* wider sums need room */
    int second = sim.push (1, 0, 0, dense ({ 1 }, 1, TPS_DTYPE_FLOAT16));

    for (int call : { first, second })
      expect_error (sim, call, TPS_ERROR_RESOURCE_EXHAUSTED,
                    "round (batch 0, param_loc 0): no memory");
  }
  tps_buffer_pool_unref (none);
}

TEST (Averaging, InOrderArrivalsTakeTheMemoryOfOneGradient)
{
  TpsBufferPool *pool = tps_buffer_pool_get_default ();
  gsize before = tps_buffer_pool_get_n_bytes_out (pool);
  Simulation sim (n_trainers (5));
  Contribution large = dense (std::vector<double> (1 << 18, 1.0)); /* 1 MiB */

  for (int trainer = 0; trainer < 4; trainer++)
    {
      sim.push (trainer, 0, 0, large);
      EXPECT_EQ (tps_buffer_pool_get_n_bytes_out (pool) - before, 1u << 20);
    }
}

} // namespace
} // namespace averaging_test

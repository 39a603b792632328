/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares thousands of random histories with the naive server. Trainers are silent, slow, ahead or
 * behind, repeat calls, or send wrong data, in any order. Jobs run at once or much later, in any
 * order. */

#include <random>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/server/averaging/naive_server.h"

namespace averaging_test {
namespace {

/* The faults of a history. */
struct Mischief
{
  bool lies = true; /* other bytes, other shapes, calls that may not wait, arguments out of range */
  bool resets_at_once = true; /* otherwise pending jobs run first */
  bool delays_jobs = false;
};

class History
{
public:
  History (uint64_t seed, const Mischief &chosen)
      : dice (seed), mischief (chosen), options (make_options ()), sim (options), naive (options)
  {
  }

  void
  run (int n_steps)
  {
    for (int i = 0; i < n_steps && !testing::Test::HasFailure (); i++)
      {
        step ();
        if (!mischief.delays_jobs)
          compare ();
      }
    sim.run_jobs ();
  }

  void
  compare ()
  {
    for (size_t call = 0; call < sim.n_calls (); call++)
      compare_call ((int) call);
  }

  int
  n_completed () const
  {
    return sim.n_completed;
  }

  /* Checks invariants that hold for any order of jobs: one reply per call, one average per
   * round. */
  void
  check_invariants ()
  {
    std::map<std::tuple<int, int64_t, int32_t>, Average> averages;

    end_all ();
    sim.run_jobs ();
    for (size_t call = 0; call < sim.n_calls (); call++)
      {
        const Outcome &outcome = sim.outcome ((int) call);

        ASSERT_EQ (outcome.n_answers, 1) << "call " << call;
        if (outcome.average)
          {
            auto [found, is_new] = averages.emplace (rounds[call], *outcome.average);

            EXPECT_TRUE (is_new || found->second == *outcome.average) << "call " << call;
          }
      }
  }

private:
  uint64_t
  roll (uint64_t sides)
  {
    return dice () % sides;
  }

  bool
  chance (uint64_t percent)
  {
    return roll (100) < percent;
  }

  Simulation::Options
  make_options ()
  {
    Simulation::Options chosen;

    chosen.n_trainers = (unsigned) roll (6) + 1;
    chosen.kind = chance (50) ? "AverageParameterServer" : "AverageBatchParameterServer";
    chosen.is_sum = chance (20);
    chosen.timeout_ns = 100;
    chosen.runs_jobs_at_once = !mischief.delays_jobs;
    return chosen;
  }

  /* Returns equal contributions for equal arguments, so that repeats are exact. `variant` 0 is the
   * correct contribution. */
  Contribution
  make_contribution (int32_t trainer, int64_t batch, int32_t param_loc, uint64_t variant)
  {
    std::mt19937_64 own ((uint64_t) (trainer * 1000003 + batch * 10007 + param_loc) * 16 + variant
                         + epoch * 77777);
    std::mt19937_64 of_round ((uint64_t) (batch * 10007 + param_loc) * 16
                              + (variant >= 8 ? variant : 0));
    static const TpsDType dtypes[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT64,
                                       TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 };
    static const double weights[] = { 1, 1, 1, 1, 0, 0.3, 2, 17.25 };
    TpsDType dtype = dtypes[of_round () % 5];
    double weight = weights[own () % 8];
    bool is_sparse = of_round () % 2 == 0;
    int64_t rows = (int64_t) (of_round () % 6) + 1;
    int64_t dim = (int64_t) (of_round () % 4);
    int64_t n_rows = is_sparse ? (int64_t) (own () % 8) : rows;
    std::vector<int64_t> ids;
    std::vector<double> values;

    if (weight == 0 && own () % 2 == 0)
      return no_data ();
    for (int64_t i = 0; i < n_rows; i++)
      ids.push_back ((int64_t) (own () % (uint64_t) rows));
    for (int64_t i = 0; i < n_rows * dim; i++)
      values.push_back (round_to (dtype, (double) (int64_t) (own () % 20001) / 1000 - 10));
    if (is_sparse)
      return sparse (ids, rows, dim, values, weight, dtype);
    return dense (values, weight, dtype);
  }

  void
  push ()
  {
    int64_t current = naive.current ();
    int32_t trainer = (int32_t) roll (options.n_trainers);
    int64_t batch = current < 0 ? (int64_t) roll (3) : current;
    int32_t param_loc = (int32_t) roll (3);
    uint64_t variant = 0;
    bool may_wait = true;

    if (chance (8))
      batch += (int64_t) roll (3);
    else if (chance (10))
      batch = std::max<int64_t> (0, batch - (int64_t) roll (4));
    if (mischief.lies && chance (10))
      variant = 1 + roll (15);
    if (mischief.lies && chance (3))
      trainer = chance (50) ? -1 : (int32_t) options.n_trainers;
    if (mischief.lies && chance (1))
      param_loc = -1;
    if (mischief.lies && chance (8))
      may_wait = false;
    Contribution contribution = make_contribution (trainer, batch, param_loc, variant);
    sim.push (trainer, batch, param_loc, contribution, may_wait, chance (30));
    naive.push (trainer, batch, param_loc, contribution, may_wait);
    rounds.emplace_back (epoch, batch, param_loc);
  }

  void
  end_all ()
  {
    if (!mischief.resets_at_once)
      sim.run_jobs ();
    sim.end_all (TPS_ERROR_ABORTED);
    naive.end_all (TPS_ERROR_ABORTED);
    epoch++;
  }

  void
  step ()
  {
    if (chance (1))
      end_all ();
    else if (chance (10))
      {
        int64_t ns = (int64_t) roll (60);

        sim.advance_time (ns);
        naive.advance_time (ns);
      }
    else if (sim.n_jobs () > 0 && chance (40))
      sim.run_job (roll (sim.n_jobs ()));
    else
      push ();
  }

  void
  compare_call (int call)
  {
    const Outcome &got = sim.outcome (call);
    const Outcome &expected = naive.outcome (call);

    ASSERT_EQ (got.n_answers, expected.n_answers) << "call " << call << ": " << got.message;
    ASSERT_EQ (got.code, expected.code) << "call " << call << ": " << got.message;
    if (expected.average)
      {
        ASSERT_TRUE (got.average && *got.average == *expected.average) << "call " << call;
      }
    ASSERT_NE (got.message.find (naive.missing (call)), std::string::npos)
        << got.message << " does not say " << naive.missing (call);
  }

  std::mt19937_64 dice;
  Mischief mischief;
  Simulation::Options options;
  Simulation sim;
  NaiveServer naive;
  std::vector<std::tuple<int, int64_t, int32_t>> rounds; /* the round of each call */
  int epoch = 0;
};

TEST (AveragingModel, AgreesWithTheNaiveServerAtEveryStep)
{
  int n_completed = 0;

  for (uint64_t seed = 0; seed < 1000 && !HasFailure (); seed++)
    {
      SCOPED_TRACE (seed);
      History history (seed, {});

      history.run (120);
      n_completed += history.n_completed ();
    }
  EXPECT_GT (n_completed, 1000); /* The comparison must cover more than errors. */
}

TEST (AveragingModel, OrderAndDelayOfJobsChangeNothing)
{
  Mischief mischief;

  mischief.lies = false;
  mischief.resets_at_once = false;
  mischief.delays_jobs = true;
  for (uint64_t seed = 0; seed < 1000 && !HasFailure (); seed++)
    {
      SCOPED_TRACE (seed);
      History history (seed, mischief);

      history.run (150);
      history.compare ();
    }
}

TEST (AveragingModel, EveryCallIsAnsweredOnceInRandomHistories)
{
  Mischief mischief;

  mischief.delays_jobs = true;
  for (uint64_t seed = 0; seed < 1000 && !HasFailure (); seed++)
    {
      SCOPED_TRACE (seed);
      History history (seed, mischief);

      history.run (150);
      history.check_invariants ();
    }
}

} // namespace
} // namespace averaging_test

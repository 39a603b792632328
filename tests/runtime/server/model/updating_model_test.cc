/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares random histories with a model of the rules: the members of the round, and the result of
 * each call. */

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/server/model/simulation.h"

namespace updating_test {
namespace {

constexpr int N_HISTORIES = 2000;
constexpr int N_STEPS = 60;

class Naive
{
public:
  explicit Naive (const Simulation::Options &options) : options_ (options)
  {
    min_ = options.min_trainers > 0 ? options.min_trainers : options.n_trainers;
  }

  /* Returns the immediate reply to a call; -1 = the call waits. */
  int
  push (int call, int trainer, float value, int64_t version, bool may_wait)
  {
    if (trainer < 0 || static_cast<unsigned> (trainer) >= options_.n_trainers || version > version_)
      return TPS_ERROR_INVALID_ARGUMENT;
    lost_.erase (trainer);
    if (round_.count (trainer) > 0)
      {
        if (round_[trainer] != std::make_pair (value, version))
          return TPS_ERROR_INVALID_ARGUMENT;
        if (!may_wait)
          return TPS_ERROR_UNAVAILABLE;
        waiting_.insert (call);
        return -1;
      }
    if (version > 0 && version_ - version > static_cast<int64_t> (options_.max_staleness))
      return TPS_ERROR_STALE;
    if (!may_wait && round_.size () + 1 < options_.n_trainers)
      return TPS_ERROR_UNAVAILABLE;
    if (round_.empty ())
      started_ns_ = now_ns_;
    round_[trainer] = { value, version };
    waiting_.insert (call);
    close_if_complete ();
    return -1;
  }

  void
  lose (int trainer)
  {
    lost_.insert (trainer);
    if (!round_.empty ())
      close_if_complete ();
  }

  void
  advance (int64_t ns)
  {
    now_ns_ += ns;
    if (round_.empty () || now_ns_ < started_ns_ + 30 * SECOND)
      return;
    if (round_.size () >= min_)
      close ();
    else
      end (TPS_ERROR_ABORTED);
  }

  std::map<int, int> answered; /* call -> code, 0 = a model */
  std::map<int, int64_t> versions;
  std::vector<std::vector<std::pair<int, float>>> updates;
  int64_t version_ = 1;

private:
  /* All have contributed, or a quorum has, and all others are lost. */
  void
  close_if_complete ()
  {
    size_t n_missing = options_.n_trainers - round_.size ();
    size_t n_lost = static_cast<size_t> (std::count_if (
        lost_.begin (), lost_.end (), [&] (int trainer) { return round_.count (trainer) == 0; }));

    if (n_missing == 0 || (round_.size () >= min_ && n_missing == n_lost))
      close ();
  }

  void
  close ()
  {
    updates.emplace_back ();
    for (const auto &part : round_)
      updates.back ().emplace_back (part.first, part.second.first);
    version_++;
    end (0);
  }

  void
  end (int code)
  {
    for (int call : waiting_)
      {
        answered[call] = code;
        versions[call] = version_;
      }
    waiting_.clear ();
    round_.clear ();
  }

  Simulation::Options options_;
  unsigned min_;
  int64_t now_ns_ = 0;
  int64_t started_ns_ = 0;
  std::map<int, std::pair<float, int64_t>> round_;
  std::set<int> waiting_, lost_;
};

Simulation::Options
draw_options (std::mt19937 *random)
{
  Simulation::Options options;

  options.n_trainers = 1 + (*random) () % 4;
  options.min_trainers = (*random) () % (options.n_trainers + 1);
  options.max_staleness = (*random) () % 3;
  options.hashes_late = (*random) () % 2 == 0;
  return options;
}

void
run_history (unsigned seed)
{
  std::mt19937 random (seed);
  Simulation::Options options = draw_options (&random);
  Simulation sim (options);
  Naive naive (options);
  std::map<int, int> at_once;

  for (int step = 0; step < N_STEPS; step++)
    {
      if (random () % 6 == 0)
        {
          int64_t ns = static_cast<int64_t> (random () % 20) * SECOND;

          sim.advance_time (ns);
          naive.advance (ns);
          continue;
        }
      if (random () % 8 == 0)
        {
          int lost = static_cast<int> (random () % options.n_trainers);

          sim.lose (lost);
          naive.lose (lost);
          continue;
        }
      int trainer = static_cast<int> (random () % (options.n_trainers + 1)); /* one id too many */
      bool may_wait = random () % 8 > 0;
      float value = static_cast<float> (random () % 2);
      int64_t version = random () % 2 == 0
                            ? 0
                            : std::max<int64_t> (0, sim.version () + 1 - random () % 5);
      int call = sim.push (trainer, value, version, may_wait);

      at_once[call] = naive.push (call, trainer, value, version, may_wait);
      if (at_once[call] >= 0)
        {
          ASSERT_EQ (sim.outcome (call).code, at_once[call]) << sim.outcome (call).message;
        }
    }
  EXPECT_EQ (sim.updates, naive.updates);
  EXPECT_EQ (sim.version (), naive.version_);
  for (const auto &entry : at_once)
    {
      const Outcome &outcome = sim.outcome (entry.first);
      bool ended = entry.second >= 0 || naive.answered.count (entry.first) > 0;

      ASSERT_EQ (outcome.n_answers, ended ? 1 : 0);
      if (entry.second < 0 && ended)
        {
          EXPECT_EQ (outcome.code, naive.answered[entry.first]);
          EXPECT_EQ (outcome.version, naive.versions[entry.first]);
        }
    }
}

TEST (UpdatingModel, randomHistoriesAgree)
{
  for (unsigned seed = 0; seed < N_HISTORIES; seed++)
    {
      SCOPED_TRACE (seed);
      run_history (seed);
      if (testing::Test::HasFailure ())
        return;
    }
}

/* Updates take time and may end in any order relative to calls. No call may be lost or answered
 * twice, and versions must increase by one. */
TEST (UpdatingModel, slowUpdatesLoseNoCall)
{
  for (unsigned seed = 0; seed < N_HISTORIES; seed++)
    {
      std::mt19937 random (seed);
      Simulation::Options options = draw_options (&random);
      options.updates_at_once = false;
      Simulation sim (options);
      std::vector<int> calls;
      int64_t n_made = 0;

      for (int step = 0; step < N_STEPS; step++)
        switch (random () % 5)
          {
          case 0:
            sim.advance_time (static_cast<int64_t> (random () % 20) * SECOND);
            break;
          case 1:
            if (sim.has_update ())
              {
                bool fails = random () % 4 == 0;

                sim.finish_update (fails ? TPS_ERROR_RESOURCE_EXHAUSTED : 0);
                n_made += fails ? 0 : 1;
              }
            break;
          default:
            calls.push_back (sim.push (static_cast<int> (random () % options.n_trainers),
                                       static_cast<float> (random () % 2)));
          }
      ASSERT_EQ (sim.version (), 1 + n_made) << seed;
      sim.end_all (TPS_ERROR_ABORTED);
      for (int call : calls)
        ASSERT_EQ (sim.outcome (call).n_answers, 1) << seed;
    }
}

} // namespace
} // namespace updating_test

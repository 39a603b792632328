/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares random histories with a model of the rules: the members of each round, and the result of
 * each call. Updates are computed at once, or take time, and may fail. */

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <utility>

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
    for (Round *round : { &updating_, &open_ })
      if (round->parts.count (trainer) > 0)
        {
          if (round->parts[trainer] != std::make_pair (value, version))
            return TPS_ERROR_INVALID_ARGUMENT;
          if (round == &open_ && !may_wait && open_.parts.size () < options_.n_trainers)
            return TPS_ERROR_UNAVAILABLE;
          round->waiting.insert (call);
          return -1;
        }
    if (version > 0
        && version_ + has_update () - version > static_cast<int64_t> (options_.max_staleness))
      return TPS_ERROR_STALE;
    if (!may_wait && open_.parts.size () + 1 < options_.n_trainers)
      return TPS_ERROR_UNAVAILABLE;
    if (open_.parts.empty ())
      open_.started_ns = now_ns_;
    open_.parts[trainer] = { value, version };
    open_.waiting.insert (call);
    close_if_complete ();
    return -1;
  }

  void
  lose (int trainer)
  {
    lost_.insert (trainer);
    close_if_complete ();
  }

  /* A round whose time is over ends after the update that is being computed. */
  void
  advance (int64_t ns)
  {
    now_ns_ += ns;
    if (open_.parts.empty () || has_update () || now_ns_ < open_.started_ns + 30 * SECOND)
      return;
    if (open_.parts.size () >= min_)
      close ();
    else
      end (&open_, TPS_ERROR_ABORTED);
  }

  void
  finish_update (int code)
  {
    version_ += code == 0;
    end (&updating_, code);
    close_if_complete ();
    advance (0);
  }

  /* All calls end, and the model begins anew. */
  void
  reset ()
  {
    version_ = 0;
    end (&updating_, TPS_ERROR_ABORTED);
    end (&open_, TPS_ERROR_ABORTED);
    lost_.clear ();
    version_ = 1;
  }

  std::map<int, int> answered; /* call -> code, 0 = a model */
  std::map<int, int64_t> versions;
  std::vector<std::vector<std::pair<int, float>>> updates;
  int64_t version_ = 1;

private:
  struct Round
  {
    int64_t started_ns = 0;
    std::map<int, std::pair<float, int64_t>> parts;
    std::set<int> waiting;
  };

  bool
  has_update () const
  {
    return !updating_.parts.empty ();
  }

  /* All have contributed, or a quorum has, and all others are lost. */
  void
  close_if_complete ()
  {
    size_t n_missing = options_.n_trainers - open_.parts.size ();
    size_t n_lost = static_cast<size_t> (
        std::count_if (lost_.begin (), lost_.end (),
                       [&] (int trainer) { return open_.parts.count (trainer) == 0; }));

    if (!open_.parts.empty () && !has_update ()
        && (n_missing == 0 || (open_.parts.size () >= min_ && n_missing == n_lost)))
      close ();
  }

  void
  close ()
  {
    updates.emplace_back ();
    for (const auto &part : open_.parts)
      updates.back ().emplace_back (part.first, part.second.first);
    updating_ = std::exchange (open_, {});
    if (options_.updates_at_once)
      finish_update (0);
  }

  void
  end (Round *round, int code)
  {
    for (int call : round->waiting)
      {
        answered[call] = code;
        versions[call] = version_;
      }
    *round = {};
  }

  Simulation::Options options_;
  unsigned min_;
  int64_t now_ns_ = 0;
  Round open_, updating_;
  std::set<int> lost_;
};

Simulation::Options
draw_options (std::mt19937 *random)
{
  Simulation::Options options;

  options.n_trainers = 1 + (*random) () % 4;
  options.min_trainers = (*random) () % (options.n_trainers + 1);
  options.max_staleness = (*random) () % 3;
  options.hashes_late = (*random) () % 2 == 0;
  options.updates_at_once = (*random) () % 2 == 0;
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
      if (random () % 40 == 0)
        {
          bool has_update = sim.has_update ();

          sim.end_all (TPS_ERROR_ABORTED);
          naive.reset ();
          sim.set_model ();
          if (has_update) /* of the model that was replaced */
            sim.finish_update ();
          continue;
        }
      if (sim.has_update () && random () % 3 == 0)
        {
          int code = random () % 4 == 0 ? TPS_ERROR_RESOURCE_EXHAUSTED : 0;

          sim.finish_update (code);
          naive.finish_update (code);
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

} // namespace
} // namespace updating_test

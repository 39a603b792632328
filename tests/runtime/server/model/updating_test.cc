/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of updating, one scenario each, in simulated time. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/server/model/simulation.h"

namespace updating_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

TEST (Updating, pushesWithoutDigestsAreComparedOnlyWhereATrainerComesTwice)
{
  Simulation::Options options;
  options.hashes_late = true;
  Simulation sim (options);
  int a = sim.push (0, 1);

  sim.push (1, 2);
  EXPECT_EQ (sim.n_compared, 0);
  int again = sim.push (0, 1), other = sim.push (0, 5);
  EXPECT_EQ (sim.n_compared, 2);
  EXPECT_EQ (sim.outcome (again).n_answers, 0);
  EXPECT_EQ (sim.outcome (other).code, TPS_ERROR_INVALID_ARGUMENT);
  sim.push (2, 3);
  EXPECT_EQ (sim.outcome (a).version, 2);
  EXPECT_EQ (sim.outcome (again).version, 2);
  EXPECT_THAT (sim.updates, ElementsAre (ElementsAre (Pair (0, 1), Pair (1, 2), Pair (2, 3))));
}

TEST (Updating, aRepeatWhileTheUpdateIsComputedWaitsForIt)
{
  for (bool hashes_late : { false, true })
    {
      Simulation::Options options;
      options.hashes_late = hashes_late;
      options.updates_at_once = false;
      Simulation sim (options);

      for (int i = 0; i < 3; i++)
        sim.push (i, 1);
      int again = sim.push (1, 1), other = sim.push (1, 2);
      EXPECT_EQ (sim.outcome (again).n_answers, 0) << hashes_late;
      EXPECT_EQ (sim.outcome (other).code, TPS_ERROR_INVALID_ARGUMENT) << hashes_late;
      sim.finish_update ();
      EXPECT_EQ (sim.outcome (again).version, 2) << hashes_late;
    }
}

TEST (Updating, aLossDuringAnUpdateClosesTheNextRoundAfterIt)
{
  Simulation::Options options;
  options.n_trainers = 4;
  options.min_trainers = 2;
  options.updates_at_once = false;
  Simulation sim (options);

  sim.push (0, 1);
  sim.push (1, 1);
  sim.advance_time (30 * SECOND);
  int c = sim.push (2, 5), d = sim.push (3, 5);
  sim.lose (0);
  sim.lose (1);
  sim.finish_update ();
  ASSERT_TRUE (sim.has_update ());
  EXPECT_EQ (sim.outcome (c).n_answers, 0);
  sim.finish_update ();
  EXPECT_EQ (sim.outcome (d).version, 3);
}

TEST (Updating, aResetExpectsAllTrainersAgain)
{
  Simulation::Options options;
  options.min_trainers = 2;
  Simulation sim (options);

  sim.lose (2);
  sim.end_all (TPS_ERROR_ABORTED);
  sim.set_model ();
  int a = sim.push (0, 1);
  sim.push (1, 1);
  EXPECT_EQ (sim.outcome (a).n_answers, 0);
}

TEST (Updating, stalenessIsCountedFromClosedRoundsNotFromArithmetic)
{
  Simulation::Options options;
  options.min_trainers = 2;
  options.updates_at_once = false;
  Simulation sim (options);

  sim.push (0, 1, 1);
  sim.push (1, 1, 1);
  sim.advance_time (30 * SECOND);
  ASSERT_TRUE (sim.has_update ());
  int late = sim.push (2, 1, 1);
  EXPECT_EQ (sim.outcome (late).code, TPS_ERROR_STALE);
  sim.finish_update ();
}

TEST (Updating, theNextRoundOpensWhileAnUpdateIsComputedAndEndsAfterIt)
{
  Simulation::Options options;
  options.min_trainers = 2;
  options.updates_at_once = false;
  Simulation sim (options);

  sim.push (0, 1);
  sim.push (1, 1);
  sim.advance_time (30 * SECOND);
  int late = sim.push (2, 5);
  sim.advance_time (40 * SECOND); /* the deadline of the late call's round expires meanwhile */
  EXPECT_EQ (sim.outcome (late).n_answers, 0);
  sim.finish_update ();
  EXPECT_EQ (sim.outcome (late).code, TPS_ERROR_ABORTED);
  EXPECT_EQ (sim.version (), 2);
}

TEST (Updating, aFailedUpdateIsToldToAllAndLeavesTheModel)
{
  Simulation::Options options;
  options.n_trainers = 2;
  options.updates_at_once = false;
  Simulation sim (options);
  int a = sim.push (0, 1), b = sim.push (1, 1);

  sim.finish_update (TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (sim.outcome (a).code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (sim.outcome (b).code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (sim.version (), 1);
}

TEST (Updating, refusesPushesThatDoNotFitTheModel)
{
  Simulation sim ({});
  int shape = sim.push (0, 1, 0, true, 3), number = sim.push (0, 1, 0, true, 2, 2);
  int trainer = sim.push (3, 1), negative = sim.push (-1, 1), future = sim.push (0, 1, 2);

  EXPECT_THAT (sim.outcome (shape).message,
               HasSubstr ("gradients[0] is FLOAT32 [3], parameter w is FLOAT32 [2]"));
  EXPECT_THAT (sim.outcome (number).message, HasSubstr ("2 tensors"));
  EXPECT_THAT (sim.outcome (trainer).message, HasSubstr ("trainer is 3"));
  EXPECT_THAT (sim.outcome (negative).message, HasSubstr ("trainer is -1"));
  EXPECT_THAT (sim.outcome (future).message, HasSubstr ("version is 2"));
  for (int call : { shape, number, trainer, negative, future })
    EXPECT_EQ (sim.outcome (call).code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE (sim.n_before.empty ());
}

TEST (Updating, aResetEndsPendingCallsEvenBehindAnUpdateAndForgetsTheModel)
{
  Simulation::Options options;
  options.min_trainers = 2;
  options.updates_at_once = false;
  Simulation sim (options);
  int a = sim.push (0, 1);

  sim.push (1, 1);
  sim.advance_time (30 * SECOND);
  int next = sim.push (2, 1);
  sim.end_all (TPS_ERROR_ABORTED);
  EXPECT_EQ (sim.outcome (a).code, TPS_ERROR_ABORTED);
  EXPECT_EQ (sim.outcome (next).code, TPS_ERROR_ABORTED);
  EXPECT_EQ (sim.version (), 0);
  sim.set_model ();
  sim.finish_update (); /* the update of the replaced model */
  EXPECT_EQ (sim.version (), 1);
  EXPECT_EQ (sim.outcome (a).n_answers, 1);
  sim.push (0, 1);
  sim.push (1, 1);
  sim.push (2, 1);
  sim.finish_update ();
  EXPECT_EQ (sim.version (), 2);
}

} // namespace
} // namespace updating_test

// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

#include "bench/engine/engine.h"

#include <gtest/gtest.h>

#include <string>

namespace {

// Records each run: "a1" is a run of system a in round 1, and "a0" is its warm-up.
class Engine : public testing::Test
{
protected:
  void
  Add (const char *system, bool no_warm_up = false)
  {
    TpsTask task = {};
    task.run = Run;
    task.bench = this;
    task.system = const_cast<char *> (system);
    task.no_warm_up = no_warm_up;
    task.warm_up_s = 1;
    task.measured_s = 10;
    tps_engine_add (engine_, &task, "%s", system);
  }

  std::string
  RunAll ()
  {
    g_autoptr (GError) error = nullptr;
    if (!tps_engine_run (engine_, &error))
      ran_ += "!" + std::string (error->message);
    return ran_;
  }

  static gboolean
  Run (gpointer bench, gpointer system, gpointer, gboolean is_warm_up, GError **error)
  {
    Engine *self = static_cast<Engine *> (bench);
    std::string name = static_cast<const char *> (system);
    self->ran_ += (self->ran_.empty () ? "" : " ") + name + (is_warm_up ? "0" : "");
    if (name == self->fails_ && !is_warm_up)
      g_set_error (error, g_quark_from_static_string ("test"), 1, "on purpose");
    return name != self->fails_ || is_warm_up;
  }

  TpsEngine *engine_ = tps_engine_new (3);
  std::string ran_, fails_;

  void
  TearDown () override
  {
    tps_engine_free (engine_);
  }
};

TEST_F (Engine, AnotherSystemOfARowBeginsInEachRound)
{
  tps_engine_begin_row (engine_);
  Add ("a");
  Add ("b");
  Add ("c");
  tps_engine_begin_row (engine_);
  Add ("x");
  EXPECT_EQ (RunAll (), "a0 b0 c0 x0 a b c x b c a x c a b x");
}

TEST_F (Engine, ATaskMayDoWithoutWarmUp)
{
  tps_engine_begin_row (engine_);
  Add ("a");
  Add ("b", true);
  tps_engine_on_warm (
      engine_, [] (gpointer ran) { *static_cast<std::string *> (ran) += " warm"; }, &ran_);
  EXPECT_EQ (RunAll (), "a0 warm a b b a a b");
}

TEST_F (Engine, AFailureEndsTheRun)
{
  fails_ = "b";
  tps_engine_begin_row (engine_);
  Add ("a");
  Add ("b");
  EXPECT_EQ (RunAll (), "a0 b0 a b!on purpose");
}

// A task without an expected time reports its progress. The progress also predicts the time of
// later rounds.
TEST_F (Engine, ProgressOfATaskPredictsTheRemainingTime)
{
  TpsTask task = {};
  task.bench = engine_;
  task.run = [] (gpointer engine, gpointer, gpointer, gboolean is_warm_up, GError **) -> gboolean {
    if (is_warm_up)
      tps_engine_show (static_cast<TpsEngine *> (engine), "step 1 of 2", 0.5);
    return TRUE;
  };
  tps_engine_begin_row (engine_);
  tps_engine_add (engine_, &task, "a");
  testing::internal::CaptureStderr ();
  EXPECT_TRUE (tps_engine_run (engine_, nullptr));
  EXPECT_EQ (testing::internal::GetCapturedStderr (), "warm-up: a, step 1 of 2; about 0 s left\n");
}

} // namespace

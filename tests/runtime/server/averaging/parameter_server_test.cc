/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server with threads. The guarantees of the state machine must hold for calls from any thread.
 * No test measures time: a wait for a deadline ends when the server ends the call. Run these tests
 * under the thread sanitizer too. */

#include "runtime/server/averaging/parameter_server.h"

#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/base/readings.h"
#include "tests/runtime/server/averaging/parameter_server_fixture.h"

namespace averaging_test {
namespace {

using testing::HasSubstr;

Contribution
large (double value)
{
  return dense (std::vector<double> (100000, value));
}

TEST_F (ParameterServerTest, AnswersSmallRoundsOnTheCallersThread)
{
  Answer first, second;

  start (2);
  push (&first, 0, 0, 0, dense ({ 1, 2 }));
  EXPECT_EQ (first.count (), 0);
  push (&second, 1, 0, 0, dense ({ 3, 4 }));
  EXPECT_EQ (first.count (), 1);
  EXPECT_EQ (second.count (), 1);
  EXPECT_TRUE (first.average == expected_average ({ dense ({ 1, 2 }), dense ({ 3, 4 }) }));
}

TEST_F (ParameterServerTest, AnswersLargeRoundsOfBothKinds)
{
  for (const char *kind : { "AverageParameterServer", "AverageBatchParameterServer" })
    {
      Answer answers[3];

      start (3, kind);
      for (int trainer : { 1, 2, 0 })
        push (&answers[trainer], trainer, 0, 0, large (trainer));
      for (Answer &answer : answers)
        {
          answer.wait ();
          EXPECT_TRUE (answer.average == expected_average ({ large (0), large (1), large (2) }));
        }
      tps_parameter_server_free (server);
      server = NULL;
    }
}

TEST_F (ParameterServerTest, WorkersShareTheBlocksOfALargeRound)
{
  std::vector<Contribution> given;

  for (int trainer = 0; trainer < 3; trainer++)
    {
      std::vector<double> values (900001);

      for (size_t i = 0; i < values.size (); i++)
        values[i] = (double) (i * (size_t) (trainer + 3) % 1009);
      given.push_back (dense (values));
    }
  Average expected = expected_average (given);
  for (const char *kind : { "AverageParameterServer", "AverageBatchParameterServer" })
    {
      Answer answers[3];
      Answer repeat;

      start (3, kind);
      for (int trainer : { 2, 0, 1 })
        push (&answers[trainer], trainer, 0, 0, given[(size_t) trainer]);
      push (&repeat, 1, 0, 0, given[1]);
      for (Answer *answer : { &answers[0], &answers[1], &answers[2], &repeat })
        {
          answer->wait ();
          EXPECT_TRUE (answer->average == expected);
        }
      tps_parameter_server_free (server);
      server = NULL;
    }
}

TEST_F (ParameterServerTest, LargeRepeatsAreJudgedByTheirBytes)
{
  Answer first, same, other, last;

  start (2);
  push (&first, 0, 0, 0, large (1));
  push (&same, 0, 0, 0, large (1));
  push (&other, 0, 0, 0, large (2));
  other.wait ();
  EXPECT_EQ (other.code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (same.count (), 0);
  push (&last, 1, 0, 0, large (5));
  for (Answer *answer : { &first, &same, &last })
    {
      answer->wait ();
      EXPECT_TRUE (answer->average == expected_average ({ large (1), large (5) }));
    }
}

TEST_F (ParameterServerTest, RoundsAreCounted)
{
  Answer first, second, late;

  start (2);
  auto number = [this] (const char *name) {
    return thriftps_test::ReadNumber (
        tps_metrics_get_counters (tps_parameter_server_get_metrics (server)), name, "averaging");
  };
  push (&first, 0, 0, 0, dense ({ 1 }));
  EXPECT_EQ (number ("rounds_open"), 1);
  EXPECT_EQ (number ("rounds_waiting_calls"), 1);
  EXPECT_EQ (number ("rounds_completed_total"), 0);
  push (&second, 1, 0, 0, dense ({ 1 }));
  first.wait ();
  second.wait ();
  EXPECT_EQ (number ("rounds_open"), 0);
  EXPECT_EQ (number ("rounds_waiting_calls"), 0);
  EXPECT_EQ (number ("rounds_completed_total"), 1);
  push (&late, 0, 1, 0, dense ({ 1 }));
  tps_parameter_server_shut_down (server);
  late.wait ();
  EXPECT_EQ (number ("rounds_open"), 0);
  EXPECT_EQ (number ("rounds_waiting_calls"), 0);
  EXPECT_EQ (number ("rounds_completed_total"), 1);
}

TEST_F (ParameterServerTest, ManyIdsAreCheckedToo)
{
  std::vector<int64_t> ids (20000);
  Answer bad, good;

  start (1);
  for (size_t i = 0; i < ids.size (); i++)
    ids[i] = (int64_t) i;
  push (&good, 0, 0, 0, sparse (ids, 20000, 1, std::vector<double> (20000, 1)));
  good.wait ();
  EXPECT_EQ (good.code, 0);
  ids[17777] = 20000;
  push (&bad, 0, 1, 0, sparse (ids, 20000, 1, std::vector<double> (20000, 1)));
  bad.wait ();
  EXPECT_EQ (bad.code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT (bad.message, HasSubstr ("indices[17777] is 20000"));
}

TEST_F (ParameterServerTest, MalformedGradientsAreRefusedAndCostNothing)
{
  TpsGradient integers = {};
  Answer answer, after;

  start (1);
  integers.kind = TPS_GRADIENT_DENSE;
  integers.weight = 1;
  tps_tensor_init_1d (&integers.dense, TPS_DTYPE_INT32, 4);
  tps_parameter_server_average_gradient (server, 0, 0, 0, &integers, TRUE, Answer::done, &answer);
  EXPECT_EQ (answer.code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_THAT (answer.message, HasSubstr ("INT32"));
  push (&after, 0, 0, 0, dense ({ 1 }));
  EXPECT_EQ (after.code, 0);
}

TEST_F (ParameterServerTest, DeadlineEndsTheWait)
{
  Answer answer, late;

  start (3, NULL, 1000000);
  push (&answer, 1, 0, 0, dense ({ 1 }));
  answer.wait ();
  EXPECT_EQ (answer.code, TPS_ERROR_DEADLINE_EXCEEDED);
  EXPECT_THAT (answer.message, HasSubstr ("trainers 0, 2"));
  push (&late, 0, 0, 0, dense ({ 1 }));
  EXPECT_EQ (late.code, TPS_ERROR_DEADLINE_EXCEEDED);
}

TEST_F (ParameterServerTest, DeadlinesOfLaterRoundsAreKeptToo)
{
  start (2, NULL, 1000000);
  for (gint64 batch = 0; batch < 5; batch++)
    {
      Answer alone, first, second;

      push (&first, 0, batch, 0, dense ({ 1 }));
      push (&second, 1, batch, 0, dense ({ 1 }));
      push (&alone, 0, batch, 1, dense ({ 1 }));
      alone.wait ();
      EXPECT_EQ (alone.code, TPS_ERROR_DEADLINE_EXCEEDED);
    }
}

TEST_F (ParameterServerTest, ResetEndsTheWaitAndClearsTheMetrics)
{
  Answer waiting, first, second;

  start (2);
  push (&first, 0, 7, 0, dense ({ 1 }));
  push (&second, 1, 7, 0, dense ({ 1 }));
  push (&waiting, 0, 7, 1, dense ({ 1 }));
  EXPECT_EQ (count_metric ("parameter_server_batch_metric", "param_index_batch"), 1);
  tps_parameter_server_reset_state (server);
  EXPECT_EQ (waiting.code, TPS_ERROR_ABORTED);
  EXPECT_EQ (count_metric ("parameter_server_batch_metric", "param_index_batch"), 0);

  Answer again, other;
  push (&again, 0, 0, 0, dense ({ 1 }));
  push (&other, 1, 0, 0, dense ({ 1 }));
  EXPECT_EQ (again.code, 0);
  EXPECT_EQ (other.count (), 1);
}

TEST_F (ParameterServerTest, ShutDownEndsPendingCallsAndRefusesLaterOnes)
{
  Answer waiting, after;

  start (2);
  push (&waiting, 0, 0, 0, large (1));
  tps_parameter_server_shut_down (server);
  EXPECT_EQ (waiting.code, TPS_ERROR_UNAVAILABLE);
  push (&after, 1, 0, 0, dense ({ 1 }));
  EXPECT_EQ (after.code, TPS_ERROR_UNAVAILABLE);
  tps_parameter_server_reset_state (server);
}

TEST_F (ParameterServerTest, CallsThatMayNotWaitDoNot)
{
  Answer refused, waiting, last;

  start (2);
  push (&refused, 0, 0, 0, dense ({ 1 }), false);
  EXPECT_EQ (refused.code, TPS_ERROR_UNAVAILABLE);
  push (&waiting, 0, 0, 0, dense ({ 1 }));
  push (&last, 1, 0, 0, dense ({ 1 }), false);
  EXPECT_EQ (last.count (), 1);
  EXPECT_EQ (last.code, 0);
}

TEST_F (ParameterServerTest, RecordsTheSpansOfARound)
{
  Answer answers[6];

  start (2);
  for (int i = 0; i < 6; i++)
    push (&answers[i], i % 2, i / 2, 3, dense ({ 1 }));
  EXPECT_EQ (count_metric ("parameter_server_straggler_metric", "param_index_straggler"), 3);
  EXPECT_EQ (count_metric ("parameter_server_batch_metric", "param_index_batch"), 3);
  EXPECT_EQ (count_metric ("method_metric", "average computation"), 3);
}

TEST_F (ParameterServerTest, RefusesBadOptions)
{
  TpsParameterServerOptions options = {};
  g_autoptr (GError) error = NULL;

  options.workers = workers;
  EXPECT_EQ (tps_parameter_server_new (&options, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  g_clear_error (&error);
  options.n_trainers = G_MAXUINT;
  EXPECT_EQ (tps_parameter_server_new (&options, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
  g_clear_error (&error);
  options.n_trainers = 1;
  options.kind = "nonsense";
  EXPECT_EQ (tps_parameter_server_new (&options, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_NOT_FOUND));
}

/* Pushes the next batch from within the reply to the previous one. */
struct Chain
{
  TpsParameterServer *server;
  gint64 batch;
  std::atomic<int> n_answers;

  static void
  done (gpointer user_data, const TpsGradient *average, const GError *error)
  {
    Chain *self = (Chain *) user_data;

    ASSERT_EQ (error, nullptr);
    self->n_answers++;
    if (self->batch < 20000)
      self->push ();
  }

  void
  push ()
  {
    TpsGradient gradient = to_gradient (dense ({ 1 }));

    tps_parameter_server_average_gradient (server, 0, batch++, 0, &gradient, TRUE, done, this);
  }
};

TEST_F (ParameterServerTest, CallbacksMayCallBackAsOftenAsTheyLike)
{
  Chain chain = { NULL, 0, { 0 } };

  start (1);
  chain.server = server;
  chain.push ();
  EXPECT_EQ (chain.n_answers, 20000);
}

/* Runs a trainer on its own thread. It has several rounds of a batch in flight, and starts the next
 * batch after all replies. */
void
train (TpsParameterServer *server, gint32 trainer, int n_batches, int n_params,
       std::atomic<int> *n_wrong)
{
  for (gint64 batch = 0; batch < n_batches; batch++)
    {
      std::vector<Answer> answers ((size_t) n_params);

      for (int i = 0; i < n_params; i++)
        {
          int param_loc = (i + trainer) % n_params;
          size_t n = param_loc % 2 == 0 ? 3 : 30000;
          TpsGradient gradient = to_gradient (dense (std::vector<double> (n, trainer + 1.0)));

          tps_parameter_server_average_gradient (server, trainer, batch, param_loc, &gradient, TRUE,
                                                 Answer::done, &answers[(size_t) param_loc]);
        }
      for (Answer &answer : answers)
        {
          gfloat first;

          answer.wait ();
          if (answer.code != 0)
            {
              (*n_wrong)++;
              continue;
            }
          std::memcpy (&first, answer.average.bytes.data (), sizeof first);
          *n_wrong += first != 2.5f;
        }
    }
}

TEST_F (ParameterServerTest, FourTrainersAtOnce)
{
  for (const char *kind : { "AverageParameterServer", "AverageBatchParameterServer" })
    {
      std::vector<std::thread> trainers;
      std::atomic<int> n_wrong { 0 };

      start (4, kind);
      for (int trainer = 0; trainer < 4; trainer++)
        trainers.emplace_back (train, server, trainer, 50, 5, &n_wrong);
      for (std::thread &trainer : trainers)
        trainer.join ();
      EXPECT_EQ (n_wrong, 0);
      EXPECT_EQ (count_metric ("parameter_server_batch_metric", "param_index_batch"), 250);
      tps_parameter_server_free (server);
      server = NULL;
    }
}

/* Pushes batches whose calls other threads may end at any time. Each call must be answered exactly
 * once. */
void
disturb (TpsParameterServer *server, gint32 trainer, std::atomic<int> *n_answered)
{
  for (gint64 batch = 0; batch < 100; batch++)
    {
      Answer answer;
      TpsGradient gradient = to_gradient (batch % 3 == 0 ? large (1) : dense ({ 1 }));

      tps_parameter_server_average_gradient (server, trainer, batch, 0, &gradient, TRUE,
                                             Answer::done, &answer);
      answer.wait ();
      (*n_answered)++;
    }
}

TEST_F (ParameterServerTest, ResetsFromOutsideAnswerEveryCallOnce)
{
  std::vector<std::thread> threads;
  std::atomic<int> n_answered { 0 };
  std::atomic<bool> is_over { false };

  start (3, NULL, 2000000);
  for (int trainer = 0; trainer < 3; trainer++)
    threads.emplace_back (disturb, server, trainer, &n_answered);
  std::thread resetter ([&] {
    while (!is_over)
      {
        tps_parameter_server_reset_state (server);
        std::this_thread::yield ();
      }
  });
  for (std::thread &thread : threads)
    thread.join ();
  is_over = true;
  resetter.join ();
  EXPECT_EQ (n_answered, 300);
}

TEST_F (ParameterServerTest, FreeWaitsForWorkUnderWay)
{
  for (int i = 0; i < 50; i++)
    {
      Answer answers[3];

      start (2);
      push (&answers[0], 0, 0, 0, large (1));
      push (&answers[1], 1, 0, 0, large (1));
      push (&answers[2], 1, 0, 1, large (1));
      tps_parameter_server_free (server);
      server = NULL;
      for (Answer &answer : answers)
        EXPECT_EQ (answer.count (), 1);
    }
}

} // namespace
} // namespace averaging_test

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server with threads. The guarantees of the state machine must hold for calls from any thread.
 * No test measures time: a wait for a deadline ends when the server ends the call. Run these tests
 * under the thread sanitizer too. */

#include "runtime/server/averaging/parameter_server.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/base/readings.h"
#include "tests/runtime/server/averaging/parameter_server_fixture.h"

namespace averaging_test {
namespace {

Contribution
large (double value)
{
  return dense (std::vector<double> (100000, value));
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

TEST_F (ParameterServerTest, RoundsAreCounted)
{
  Answer first, second, late;

  start (2);
  auto number = [this] (const char *name) {
    return thriftps_test::ReadNumber (tps_metrics_get_counters (metrics), name, "averaging");
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

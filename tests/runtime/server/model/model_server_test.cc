/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server with threads. The guarantees of the state machine must hold for calls from any thread.
 * No test measures time: a wait for a deadline ends when the server ends the call. Run these tests
 * under the thread sanitizer too. */

#include "runtime/server/model/model_server.h"

#include <atomic>
#include <deque>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/base/trace_capture.h"
#include "tests/runtime/server/model/models.h"

namespace updating_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/* The reply to a call that came over a connection. */
struct ConnectedAnswer : Answer
{
  static gboolean
  is_connected (gpointer user_data)
  {
    return *static_cast<ConnectedAnswer *> (user_data)->connection;
  }

  const std::atomic<bool> *connection = nullptr;
};

struct Push
{
  int trainer;
  Values gradient;
  const char *client = nullptr;
  gint64 sequence = 0;
  gint64 version = 0;
  const std::atomic<bool> *connection = nullptr; /* TRUE while it is open */
};

const Shapes SMALL = { { 3, 2 }, { 3 } };
const Shapes LARGE = { { 300, 1000 }, { 1000 } }; /* large enough for workers, in several blocks */

class ModelServer : public testing::Test
{
protected:
  ModelServer ()
  {
    workers_ = tps_worker_pool_new ("test", 3);
    options_.n_trainers = 3;
    options_.workers = workers_;
  }
  ~ModelServer () override
  {
    if (server_ != nullptr)
      tps_model_server_free (server_);
    tps_worker_pool_free (workers_);
  }

  void
  start ()
  {
    g_autoptr (GError) error = nullptr;

    server_ = tps_model_server_new (&options_, &error);
    ASSERT_NE (server_, nullptr) << error->message;
  }

  int
  init (const Shapes &shapes, const Values &values, double rate = 0.1)
  {
    auto parameters = to_parameters (shapes, values);
    TpsOptimizerSpec spec = tps_optimizer_spec (TPS_OPTIMIZER_SGD, rate);
    g_autoptr (GError) error = nullptr;

    spec.momentum = 0.9;
    tps_model_server_init_model (server_, parameters.data (),
                                 static_cast<guint> (parameters.size ()), &spec, &error);
    EXPECT_EQ (parameters[0].name, nullptr); /* taken even if the call fails */
    if (shapes_ != shapes) /* no needless write, because other threads may read it */
      shapes_ = shapes;
    return error == nullptr ? 0 : error->code;
  }

  Answer &
  push (const Push &push, bool may_wait = true)
  {
    auto tensors = to_tensors (shapes_, push.gradient);
    ConnectedAnswer *answer;

    {
      std::lock_guard<std::mutex> guard (lock_);

      answer = &answers_.emplace_back ();
    }
    answer->connection = push.connection;
    TpsModelPush arguments = {};
    arguments.trainer = push.trainer;
    arguments.n_gradients = static_cast<guint> (tensors.size ());
    arguments.gradients = tensors.data ();
    arguments.client = push.client;
    arguments.sequence = push.sequence;
    arguments.version = push.version;
    arguments.may_wait = may_wait;
    arguments.connection = push.connection;
    arguments.is_connected = ConnectedAnswer::is_connected;
    tps_model_server_update_and_fetch (server_, &arguments, Answer::done, answer);
    return *answer;
  }

  TpsWorkerPool *workers_;
  TpsModelServerOptions options_ = {};
  TpsModelServer *server_ = nullptr;
  Shapes shapes_;
  std::mutex lock_;
  std::deque<ConnectedAnswer> answers_;
  std::mt19937 random_ { 11 };
};

TEST_F (ModelServer, aRepeatedPushIsAnsweredAsTheFirstTimeWhileItRunsAndAfter)
{
  Values first = draw_values (LARGE, &random_), gradient = draw_values (LARGE, &random_);
  Push mine = { 0, gradient, "trainer0", 1, 1 };

  start ();
  ASSERT_EQ (init (LARGE, first), 0);
  Answer &a = push (mine), &again = push (mine);
  Answer &b = push ({ 1, gradient }), &c = push ({ 2, gradient });
  EXPECT_EQ (a.wait ().version, 2);
  EXPECT_EQ (again.wait ().version, 2);
  b.wait ();
  c.wait ();
  Answer &later = push (mine).wait ();
  EXPECT_EQ (later.code, 0) << later.message;
  EXPECT_EQ (later.version, 2);
  EXPECT_EQ (later.values, a.values);
  for (int round = 0; round < 2; round++) /* later updates replace the version of the first reply */
    {
      Answer *waiting[] = { &push ({ 0, gradient }), &push ({ 1, gradient }),
                            &push ({ 2, gradient }) };

      for (Answer *answer : waiting)
        EXPECT_EQ (answer->wait ().version, round + 3);
    }
  Answer &forgotten = push (mine).wait ();
  EXPECT_EQ (forgotten.code, TPS_ERROR_STALE);
  EXPECT_THAT (forgotten.message, HasSubstr ("answered with model version 2"));
}

/* A server with a quorum of 2 and a deadline that no test reaches. */
class ModelServerWithQuorum : public ModelServer
{
protected:
  void
  SetUp () override
  {
    options_.min_trainers = 2;
    options_.round_timeout_ns = G_GINT64_CONSTANT (3600) * 1000000000;
    start ();
    ASSERT_EQ (init (SMALL, values_), 0);
  }

  Answer &
  push_over (int trainer, int connection, const char *client = nullptr, gint64 sequence = 0)
  {
    return push ({ trainer, values_, client, sequence, 0, &connections_[connection] });
  }

  void
  close (int connection)
  {
    connections_[connection] = false;
    tps_model_server_connection_closed (server_, &connections_[connection]);
  }

  Values values_ = draw_values (SMALL, &random_);
  std::atomic<bool> connections_[5] = { true, true, true, true, true };
};

TEST_F (ModelServerWithQuorum, appliesItWhenTheOthersAreLost)
{
  thriftps_test::TraceCapture capture;

  push_over (0, 0);
  Answer &first = push_over (1, 1);
  push_over (2, 2);
  EXPECT_EQ (first.wait ().version, 2);
  /* Trainer 2 may use another connection for each call. */
  close (2);
  Answer &second = push_over (0, 0);
  push_over (1, 1);
  EXPECT_EQ (second.count (), 0);
  push_over (2, 3);
  EXPECT_EQ (second.wait ().version, 3);
  /* Trainer 1 has pushed twice over its connection. */
  push_over (2, 3);
  Answer &third = push_over (0, 0);
  EXPECT_EQ (third.count (), 0);
  close (1);
  EXPECT_EQ (third.wait ().version, 4);
  EXPECT_THAT (capture.Lines ("update_incomplete"),
               ElementsAre ("info update_incomplete version=3 trainers=3 arrived=2 lost=1"));
  close (3);
  push_over (1, 4);
  EXPECT_EQ (push_over (0, 0).wait ().version, 5);
  /* Trainer 1 waits for its reply when its connection closes. */
  push_over (1, 4);
  close (4);
  EXPECT_EQ (push_over (0, 0).wait ().version, 6);
}

TEST_F (ModelServerWithQuorum, findsALostTrainerByTheRepeatOfItsPush)
{
  push_over (1, 1, "c", 7);
  close (1);
  Answer &repeat = push_over (1, 3, "c", 7); /* the first call is still running */
  push_over (0, 0);
  Answer &first = push_over (2, 2);
  EXPECT_EQ (first.wait ().version, 2);
  EXPECT_EQ (repeat.wait ().version, 2);
  push_over (0, 0);
  Answer &second = push_over (2, 2);
  EXPECT_EQ (second.count (), 0) << "trainer 1 was not waited for";
  /* Trainer 1 is lost again. Its repeat of a push that was applied proves that it is back. */
  push_over (1, 3, "c", 8);
  EXPECT_EQ (second.wait ().version, 3);
  push_over (1, 3, "c", 9);
  close (3);
  push_over (0, 0);
  EXPECT_EQ (push_over (1, 4, "c", 8).wait ().version, 3);
  Answer &third = push_over (2, 2);
  EXPECT_EQ (third.wait ().version, 4);
  push_over (0, 0);
  Answer &fourth = push_over (2, 2);
  EXPECT_EQ (fourth.count (), 0) << "trainer 1 was not waited for";
  push_over (1, 4);
  EXPECT_EQ (fourth.wait ().version, 5);
}

TEST_F (ModelServerWithQuorum, doesNotLoseTrainersByPushesThatItRefuses)
{
  Values wrong = { { 1 } };

  shapes_ = { { 1 } };
  for (int i = 0; i < 3; i++)
    EXPECT_EQ (push ({ 1, wrong, nullptr, 0, 0, &connections_[1] }).wait ().code,
               TPS_ERROR_INVALID_ARGUMENT);
  shapes_ = SMALL;
  close (1); /* no trainer owns this connection */
  push_over (0, 0);
  Answer &first = push_over (2, 2);
  EXPECT_EQ (first.count (), 0);
  push_over (1, 3);
  EXPECT_EQ (first.wait ().version, 2);
}

TEST_F (ModelServerWithQuorum, losesATrainerWhoseConnectionClosedBeforeItsPush)
{
  close (1);
  push_over (1, 1); /* the connection closed while a worker decoded the push */
  push_over (2, 2);
  EXPECT_EQ (push_over (0, 0).wait ().version, 2) << "its contribution counts";
  push_over (2, 2);
  EXPECT_EQ (push_over (0, 0).wait ().version, 3);
}

TEST_F (ModelServer, resetsWhileTrainersPushEndEveryCallOnce)
{
  Values first = draw_values (LARGE, &random_);
  std::vector<std::thread> threads;

  start ();
  ASSERT_EQ (init (LARGE, first), 0);
  for (int i = 0; i < 3; i++)
    threads.emplace_back ([&, i] {
      for (gint64 n = 1; n <= 12; n++)
        push ({ i, first, i == 0 ? "c" : nullptr, n }).wait ();
    });
  threads.emplace_back ([&] {
    for (int n = 0; n < 10; n++)
      {
        tps_model_server_reset_state (server_, nullptr);
        init (LARGE, first);
      }
  });
  threads[3].join ();
  /* A trainer may now wait for another that is ahead of it. Further resets end such calls. */
  std::atomic<bool> over { false };
  std::thread resetter ([&] {
    while (!over)
      {
        tps_model_server_reset_state (server_, nullptr);
        std::this_thread::yield ();
      }
  });
  for (int i = 0; i < 3; i++)
    threads[static_cast<size_t> (i)].join ();
  over = true;
  resetter.join ();
  for (Answer &answer : answers_)
    EXPECT_EQ (answer.count (), 1);
}

} // namespace
} // namespace updating_test

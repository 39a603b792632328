/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests that one call of Node.describe per connection serves limits, chunks and shared memory. */

#include "tests/plugin/client/sharing/scripted_server.h"

namespace tps_test {
namespace {

constexpr gsize ASK_BYTES = 1000;

class Negotiation : public SharingTest
{
protected:
  Negotiation ()
  {
    g_clear_pointer (&client_, tps_client_free);
    options_.ask_bytes = ASK_BYTES;
    connect_to (server_.listener.address ());
    server_.serve["Node:describe"] = [this] (Connection &connection, const ReceivedCall &call) {
      connection.send (describe_reply (call));
    };
  }

  std::string
  describe_reply (const ReceivedCall &call)
  {
    return reply ("describe", call.seqid,
                  field (12, 0,
                         field (11, 1, binary ("scripted")) + field (11, 2, binary ("1"))
                             + field (10, 3, be64 (max_frame_bytes_))
                             + field (10, 8, be64 (server_.max_shared_bytes)) + '\0'));
  }

  void
  push_large (Outcome *outcome, gint64 deadline_ns = later ())
  {
    push (outcome, &large_, deadline_ns);
  }

  /* Reads the user's next call, which must be a push, and replies to it. */
  void
  answer_push (Connection &connection, Outcome *outcome)
  {
    ReceivedCall call = server_.read_call (connection);

    EXPECT_EQ (call.name, "Calculator:push");
    connection.send (reply ("push", call.seqid, ""));
    outcome->wait ();
    EXPECT_EQ (outcome->text (), "");
  }

  /* Makes a large call, which must travel as one frame on this connection. */
  void
  push_and_expect_frame (Connection &connection)
  {
    Outcome outcome;

    push_large (&outcome);
    answer_push (connection, &outcome);
  }

  void
  expect_closed (Connection &connection)
  {
    Outcome lost;

    call (&lost, 1, later ());
    server_.read_call (connection);
    connection.close ();
    lost.wait ();
    EXPECT_EQ (lost.code (), TPS_ERROR_CONNECTION_LOST);
  }

  int
  n_questions ()
  {
    return server_.n_calls["Node:describe"];
  }

  gint64 max_frame_bytes_ = 1 << 20;
  std::string large_ = std::string (2 * ASK_BYTES, 'x');
};

/* The tensor needs to know about shared memory, and the large message needs to know the limit. One
 * Node.describe must answer both. */
TEST_F (Negotiation, OneAnswerServesLimitsAndSharedMemory)
{
  for (int i = 1; i <= 3; i++)
    {
      TensorOutcome first;
      Outcome large;

      push_tensor (&first, &values_);
      push_large (&large);
      Connection connection = server_.listener.accept ();
      server_.serve["Calculator:push"] = [] (Connection &to, const ReceivedCall &call) {
        to.send (reply ("push", call.seqid, ""));
      };
      server_.serve_until (connection, "Calculator:push", 2 * i);
      server_.serve_until (connection, "Memory:open_segment", i);
      first.outcome.wait ();
      large.wait ();
      EXPECT_EQ (first.outcome.text () + large.text (), "");
      server_.serve.erase ("Calculator:push");
      settle (connection);
      TensorOutcome second;
      EXPECT_FALSE (is_inline (push_and_answer (connection, &second)));
      server_.n_calls["Calculator:push"] = 2 * i;
      EXPECT_EQ (n_questions (), i) << "one more for each connection";
      expect_closed (connection);
    }
}

TEST_F (Negotiation, PendingCallsShareOneDescribeCall)
{
  Outcome outcomes[3], after;

  for (Outcome &outcome : outcomes)
    push_large (&outcome);
  Connection connection = server_.listener.accept ();
  for (Outcome &outcome : outcomes)
    answer_push (connection, &outcome);
  push_and_expect_frame (connection);
  EXPECT_EQ (n_questions (), 1);
}

TEST_F (Negotiation, SmallCallsNeitherAskNorWait)
{
  Outcome small, large, behind;
  ReceivedCall question;

  server_.serve["Node:describe"] = [&] (Connection &, const ReceivedCall &call) {
    question = call;
  };
  call (&small, 1, later ());
  Connection connection = server_.listener.accept ();
  connection.send (reply_i64 ("square", server_.read_call (connection).seqid, 1));
  small.wait ();
  EXPECT_EQ (n_questions (), 0);
  push_large (&large);
  call (&behind, 2, later ());
  connection.send (reply_i64 ("square", server_.read_call (connection).seqid, 4));
  behind.wait ();
  EXPECT_EQ (behind.value (), 4);
  EXPECT_FALSE (large.is_done ());
  server_.serve_until (connection, "Node:describe", 1);
  connection.send (describe_reply (question));
  answer_push (connection, &large);
}

TEST_F (Negotiation, APeerMayChangeBetweenConnections)
{
  TensorOutcome first;

  push_tensor (&first, &values_);
  Connection shares = server_.listener.accept ();
  answer_until_opened (shares, &first);
  TensorOutcome shared;
  EXPECT_FALSE (is_inline (push_and_answer (shares, &shared)));
  expect_closed (shares);

  /* The next server neither shares memory nor accepts frames of this size. */
  TensorOutcome in_chunks;
  server_.max_shared_bytes = 0;
  max_frame_bytes_ = 2 * ASK_BYTES;
  push_tensor (&in_chunks, &values_);
  Connection cuts = server_.listener.accept ();
  ReceivedCall begin = server_.read_call (cuts);
  EXPECT_EQ (begin.name, "Chunks:begin_transfer");
  cuts.send (service_error ("begin_transfer", begin.seqid, 1, "enough seen"));
  in_chunks.outcome.wait ();
  EXPECT_EQ (in_chunks.outcome.code (), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 1);
  expect_closed (cuts);

  TensorOutcome again, shared_again;
  server_.max_shared_bytes = 64 * MIB;
  max_frame_bytes_ = 1 << 20;
  server_.n_calls.clear ();
  push_tensor (&again, &values_);
  Connection last = server_.listener.accept ();
  answer_until_opened (last, &again);
  EXPECT_FALSE (is_inline (push_and_answer (last, &shared_again)));
  EXPECT_EQ (n_questions (), 1);
}

/* The deadline expires while Node.describe is in flight. Its late reply still counts, so the next
 * call is sent at once. */
TEST_F (Negotiation, ADeadlineHoldsMeanwhile)
{
  Outcome late;
  ReceivedCall question;

  server_.serve["Node:describe"] = [&] (Connection &, const ReceivedCall &call) {
    question = call;
  };
  push_large (&late, in_ms (200));
  Connection connection = server_.listener.accept ();
  server_.serve_until (connection, "Node:describe", 1);
  late.wait ();
  EXPECT_EQ (late.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  EXPECT_NE (late.text ().find ("Calculator:push"), std::string::npos) << late.text ();
  connection.send (describe_reply (question));
  settle (connection);
  push_and_expect_frame (connection);
  EXPECT_EQ (n_questions (), 1);
}

/* The failures are errors and replies that cannot be decoded. */
TEST_F (Negotiation, AFailureIsNotRemembered)
{
  const std::pair<int, std::function<std::string (int seqid)>> failures[] = {
    { TPS_ERROR_UNAVAILABLE,
      [] (int seqid) { return service_error ("describe", seqid, 8, "starting"); } },
    { TPS_ERROR_INTERNAL, [] (int seqid) { return reply_i64 ("describe", seqid, 7); } },
  };
  auto describe = server_.serve["Node:describe"];

  for (const auto &failure : failures)
    {
      Outcome failed;

      server_.n_calls.clear ();
      server_.serve["Node:describe"] = [&] (Connection &connection, const ReceivedCall &call) {
        connection.send (failure.second (call.seqid));
      };
      push_large (&failed);
      Connection connection = server_.listener.accept ();
      server_.serve_until (connection, "Node:describe", 1);
      failed.wait ();
      EXPECT_EQ (failed.code (), failure.first) << failed.text ();
      server_.serve["Node:describe"] = describe;
      push_and_expect_frame (connection);
      EXPECT_EQ (n_questions (), 2);
      expect_closed (connection);
    }
}

TEST_F (Negotiation, SharedMemoryIsAskedForAgainAfterAFailure)
{
  auto describe = server_.serve["Node:describe"];
  TensorOutcome first;

  server_.serve["Node:describe"] = [] (Connection &connection, const ReceivedCall &call) {
    connection.send (service_error ("describe", call.seqid, 7, "busy"));
  };
  g_clear_pointer (&client_, tps_client_free);
  options_.ask_bytes = 0;
  connect_to (server_.listener.address ());
  push_tensor (&first, &values_);
  Connection connection = server_.listener.accept ();
  ReceivedCall pushed = server_.read_call (connection);
  server_.serve_until (connection, "Node:describe", 1);
  server_.serve["Node:describe"] = describe;
  connection.send (reply ("push", pushed.seqid, ""));
  first.outcome.wait ();
  settle (connection);
  for (int i = 0; i < 16; i++)
    {
      TensorOutcome outcome;

      EXPECT_TRUE (is_inline (push_and_answer (connection, &outcome)));
      EXPECT_EQ (n_questions (), 1);
    }
  TensorOutcome wanted, shared;
  push_tensor (&wanted, &values_);
  answer_until_opened (connection, &wanted);
  EXPECT_EQ (n_questions (), 2);
  EXPECT_FALSE (is_inline (push_and_answer (connection, &shared)));
}

/* Some servers close the connection if a call names an unknown service. The user's call must then
 * be sent on the next connection. */
TEST_F (Negotiation, APeerThatClosesOnDescribeIsNotAskedForAWhile)
{
  auto break_on_question = [this] (Connection &connection) {
    while (connection.read_call ().name != "Node:describe")
      ;
    connection.close ();
    connection = server_.listener.accept ();
  };
  Outcome first, second;

  push_large (&first);
  Connection connection = server_.listener.accept ();
  break_on_question (connection);
  answer_push (connection, &first);
  push_large (&second);
  break_on_question (connection);
  answer_push (connection, &second);
  for (int i = 0; i < 4; i++)
    {
      Outcome outcome;

      push_and_expect_frame (connection);
      EXPECT_EQ (n_questions (), 0) << "on connection " << i;
      expect_closed (connection);
      call (&outcome, 1, later ());
      connection = server_.listener.accept ();
      connection.send (reply_i64 ("square", server_.read_call (connection).seqid, 1));
      outcome.wait ();
    }
  push_and_expect_frame (connection);
  EXPECT_EQ (n_questions (), 1) << "it may be another server by now";
}

TEST_F (Negotiation, AServerThatIsNotYetUpIsAskedLater)
{
  std::string path = "not_yet_" + std::to_string (getpid ()) + ".sock";
  TensorOutcome first;

  g_clear_pointer (&client_, tps_client_free);
  connect_to ("unix:" + path);
  for (int i = 0; i < 5; i++)
    {
      TensorOutcome refused;

      push_tensor (&refused, &values_);
      refused.outcome.wait ();
      EXPECT_EQ (refused.outcome.code (), TPS_ERROR_CONNECTION_LOST);
    }
  Listener listener (path);
  push_tensor (&first, &values_);
  Connection connection = listener.accept ();
  answer_until_opened (connection, &first);
  EXPECT_EQ (n_questions (), 1);
}

} // namespace
} // namespace tps_test

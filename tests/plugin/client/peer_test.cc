/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/client/peer.h"

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

namespace {

/* NodeInfo with these limits, as the inside of a result. */
std::string
node_info (int64_t max_frame_bytes, int64_t max_shared_bytes)
{
  return field (12, 0,
                field (11, 1, binary ("server")) + field (11, 2, binary ("1"))
                    + field (10, 3, be64 (max_frame_bytes)) + field (10, 8, be64 (max_shared_bytes))
                    + '\0');
}

class Answer
{
public:
  static void
  known (gpointer user_data, const TpsPeerFacts *facts, const GError *error)
  {
    Answer *answer = static_cast<Answer *> (user_data);

    EXPECT_EQ (facts == nullptr, error != nullptr);
    if (facts != nullptr)
      answer->facts = *facts;
    Outcome::done (&answer->outcome, nullptr, TPS_WIRE_STOP, error);
  }

  TpsPeerFacts facts = { -1, -1 };
  Outcome outcome;
};

class Peer : public ClientTest
{
protected:
  Peer ()
  {
    connect_to (listener_.address ());
  }

  void
  ask (Answer *answer)
  {
    tps_client_ask_peer (client_, later (), Answer::known, answer);
  }

  Listener listener_;
};

TEST_F (Peer, IsAskedOnceAConnection)
{
  Answer first, second, third;

  ask (&first);
  Connection connection = listener_.accept ();
  ReceivedCall received = connection.read_call ();
  EXPECT_EQ (received.name, "Node:describe");
  connection.send (reply ("describe", received.seqid, node_info (1 << 20, 1 << 24)));
  first.outcome.wait ();
  EXPECT_EQ (first.facts.max_frame_bytes, 1 << 20) << first.outcome.text ();
  EXPECT_EQ (first.facts.max_shared_bytes, 1 << 24);

  ask (&second);
  second.outcome.wait ();
  EXPECT_EQ (second.facts.max_frame_bytes, 1 << 20);

  Outcome lost;
  call (&lost, 1, later ());
  connection.read_call ();
  connection.close ();
  lost.wait ();
  EXPECT_EQ (lost.code (), TPS_ERROR_CONNECTION_LOST);

  ask (&third);
  Connection again = listener_.accept ();
  received = again.read_call ();
  EXPECT_EQ (received.name, "Node:describe");
  again.send (reply ("describe", received.seqid, node_info (5, 0)));
  third.outcome.wait ();
  EXPECT_EQ (third.facts.max_frame_bytes, 5);
  EXPECT_EQ (third.facts.max_shared_bytes, 0);
}

TEST_F (Peer, ThatDoesNotKnowTheQuestionSaysNothing)
{
  Answer answer, again;

  ask (&answer);
  Connection connection = listener_.accept ();
  connection.send (
      application_exception ("describe", connection.read_call ().seqid, 1, "no such method"));
  answer.outcome.wait ();
  EXPECT_EQ (answer.outcome.code (), 0) << answer.outcome.text ();
  EXPECT_EQ (answer.facts.max_frame_bytes, 0);
  ask (&again);
  again.outcome.wait ();
  EXPECT_EQ (again.facts.max_frame_bytes, 0);
}

TEST_F (Peer, ThatAnswersSomethingElseIsAnError)
{
  Answer answer;

  ask (&answer);
  Connection connection = listener_.accept ();
  connection.send (reply_i64 ("describe", connection.read_call ().seqid, 7));
  answer.outcome.wait ();
  EXPECT_EQ (answer.outcome.code (), TPS_ERROR_INTERNAL);
}

TEST_F (Peer, ThatGoesAwayIsAnError)
{
  Answer answer;

  ask (&answer);
  {
    Connection connection = listener_.accept ();
    connection.read_call ();
  }
  answer.outcome.wait ();
  EXPECT_EQ (answer.outcome.code (), TPS_ERROR_CONNECTION_LOST);
}

}

}

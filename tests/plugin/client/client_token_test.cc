/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Clients with a token. */

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

class ClientToken : public ClientTest
{
protected:
  ClientToken ()
  {
    options_.token = "tps_secret";
  }

  static void
  expect_token (Connection *connection)
  {
    ReceivedCall first = connection->read_call ();

    EXPECT_EQ (first.name, "Session:authenticate");
    EXPECT_EQ (first.seqid, 0);
    EXPECT_EQ (first.inside, field (11, 1, binary ("tps_secret")));
  }
};

/* The client sends the first call without waiting for the reply to the token. */
TEST_F (ClientToken, IsTheFirstCallOfEachConnection)
{
  Listener listener;

  connect_to (listener.address ());
  for (int i = 1; i <= 2; i++)
    {
      Outcome outcome;

      call (&outcome, 7, later ());
      Connection connection = listener.accept ();
      expect_token (&connection);
      ReceivedCall second = connection.read_call ();
      EXPECT_EQ (second.name, "Calculator:square");
      connection.send (reply ("authenticate", 0, "") + reply_i64 ("square", second.seqid, 49));
      outcome.wait ();
      EXPECT_EQ (outcome.value (), 49) << outcome.text ();
      if (i == 1)
        {
          Outcome lost;

          call (&lost, 7, later ());
          connection.read_call ();
          connection.close ();
          lost.wait ();
        }
    }
}

TEST_F (ClientToken, IfItIsRefusedCallsFailWithTheReason)
{
  Outcome outcome;
  Listener listener;

  connect_to (listener.address ());
  call (&outcome, 7, later ());
  Connection connection = listener.accept ();
  expect_token (&connection);
  ReceivedCall second = connection.read_call ();
  connection.send (service_error ("authenticate", 0, 10, "unknown")
                   + service_error ("square", second.seqid, 10, "anonymous"));
  outcome.wait ();
  EXPECT_EQ (outcome.code (), TPS_ERROR_UNAUTHENTICATED);
  EXPECT_NE (outcome.text ().find ("Session.authenticate: "), std::string::npos) << outcome.text ();
  EXPECT_EQ (outcome.text ().find ("tps_secret"), std::string::npos);
  EXPECT_TRUE (connection.is_closed_by_peer ());
}

} // namespace tps_test

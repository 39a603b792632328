/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests peers that are gone, that refuse, or that violate the protocol, and tests cancelled
 * calls. */

#include <string>
#include <unistd.h>

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

class ClientFailures : public ClientTest
{
protected:
  /* Makes calls 2 and 3, and sends `bytes` after call 2 has arrived. Both calls must fail with
   * `why` in their message, and the next call must succeed. */
  void
  expect_lost (const std::string &bytes, const std::string &why, bool close_after = false)
  {
    Outcome answered, bystander, next;
    Listener listener;

    connect_to (listener.address ());
    Connection connection = accept_after_a_call (listener);
    call (&answered, 7, later ());
    call (&bystander, 8, later ());
    EXPECT_EQ (connection.read_call ().seqid, 2);
    EXPECT_EQ (connection.read_call ().seqid, 3);
    connection.send (bytes);
    if (close_after)
      connection.close ();
    for (Outcome *outcome : { &answered, &bystander })
      {
        outcome->wait ();
        EXPECT_EQ (outcome->code (), TPS_ERROR_CONNECTION_LOST);
        EXPECT_NE (outcome->text ().find (why), std::string::npos) << outcome->text ();
      }
    EXPECT_TRUE (close_after || connection.is_closed_by_peer ());

    call (&next, 3, later ());
    Connection fresh = listener.accept ();
    fresh.send (reply_i64 ("square", fresh.read_call ().seqid, 9));
    next.wait ();
    EXPECT_EQ (next.value (), 9) << next.text ();
  }
};

TEST_F (ClientFailures, RepliesThatAreNoneAreLostConnections)
{
  const std::string body = reply ("square", 2, field (11, 0, binary (std::string (100000, 'x'))));
  const struct
  {
    std::string bytes;
    const char *why;
    bool close_after;
  } cases[] = {
    { "", "the peer closed", true },
    { reply_i64 ("square", 2, 49).substr (0, 20), "in the middle of a message", true },
    { body.substr (0, 50000), "in the middle of a message", true },
    { "HTTP/1.1 400 Bad Request\r\n\r\n", "", false },
    { reply_i64 ("square", 1000, 49), "never made", false },
    { reply_i64 ("squar", 2, 49), "another name", false },
    { message (1, "square", 2, ""), "sent a call, expected a reply", false },
  };

  for (const auto &each : cases)
    {
      SCOPED_TRACE (each.why);
      expect_lost (each.bytes, each.why, each.close_after);
      g_clear_pointer (&client_, tps_client_free);
    }
}

TEST_F (ClientFailures, AnswerBeyondTheLimitIsALostConnection)
{
  options_.max_message_bytes = 1 << 20;
  expect_lost (be32 (2 << 20) + be32 (0x80010002), "");
}

TEST_F (ClientFailures, CallsFailWithoutAListenerAndSucceedOnceThereIsOne)
{
  /* The test uses a path and not a port, because another process may take a port that is free at
   * this moment. */
  const std::string path = "nobody_" + std::to_string (getpid ()) + ".sock";
  Outcome refused, next;

  connect_to ("unix:" + path);
  call (&refused, 7, later ());
  refused.wait ();
  EXPECT_EQ (refused.code (), TPS_ERROR_CONNECTION_LOST);

  Listener listener (path);
  call (&next, 3, later ());
  Connection connection = listener.accept ();
  connection.send (reply_i64 ("square", connection.read_call ().seqid, 9));
  next.wait ();
  EXPECT_EQ (next.value (), 9) << next.text ();
}

TEST_F (ClientFailures, HostNameIsLookedUpWithoutBlockingTheLoop)
{
  Outcome unknown;

  /* The top-level domain ".invalid" is reserved, so no resolver can know the name. */
  connect_to ("no-such-host.invalid:1");
  call (&unknown, 7, later ());
  unknown.wait ();
  EXPECT_NE (unknown.code (), 0);
}

TEST_F (ClientFailures, FreeWhileANameIsLookedUp)
{
  Outcome outcome;

  connect_to ("no-such-host.invalid:1");
  call (&outcome, 7, later ());
  g_clear_pointer (&client_, tps_client_free);
  EXPECT_EQ (outcome.n_done (), 1);
}

TEST_F (ClientFailures, TooManyCallsAreRefusedAndTheOthersGoOn)
{
  Outcome first, second, refused, next;
  Listener listener;

  options_.max_in_flight = 2;
  connect_to (listener.address ());
  call (&first, 1, later ());
  call (&second, 2, later ());
  call (&refused, 3, later ());
  refused.wait ();
  EXPECT_EQ (refused.code (), TPS_ERROR_RESOURCE_EXHAUSTED);
  Connection connection = listener.accept ();
  for (int i = 0; i < 2; i++)
    connection.send (reply_i64 ("square", connection.read_call ().seqid, 5));
  for (Outcome *outcome : { &first, &second })
    {
      outcome->wait ();
      EXPECT_EQ (outcome->value (), 5) << outcome->text ();
    }
  call (&next, 4, later ());
  connection.send (reply_i64 ("square", connection.read_call ().seqid, 16));
  next.wait ();
  EXPECT_EQ (next.value (), 16) << next.text ();
}

TEST_F (ClientFailures, CancelAbortsCallsInFlightAndLaterOnes)
{
  Outcome waiting, after;
  Listener listener;

  connect_to (listener.address ());
  call (&waiting, 7, later ());
  Connection connection = listener.accept ();
  connection.read_call ();
  tps_client_cancel (client_);
  waiting.wait ();
  EXPECT_EQ (waiting.code (), TPS_ERROR_ABORTED);
  call (&after, 7, later ());
  after.wait ();
  EXPECT_EQ (after.code (), TPS_ERROR_ABORTED);
  EXPECT_TRUE (connection.is_closed_by_peer ());
}

TEST_F (ClientFailures, CancelMayComeFromACallback)
{
  Outcome other;
  Listener listener;
  TpsClientDone cancel = [] (gpointer user_data, TpsReader *, TpsWireType, const GError *) {
    tps_client_cancel (static_cast<TpsClient *> (user_data));
  };

  connect_to (listener.address ());
  Connection connection = accept_after_a_call (listener);
  tps_client_call (client_, "Calculator", "square", nullptr, nullptr, later (), cancel, client_);
  call (&other, 7, later ());
  connection.send (reply_i64 ("square", connection.read_call ().seqid, 1));
  other.wait ();
  EXPECT_EQ (other.code (), TPS_ERROR_ABORTED);
}

TEST_F (ClientFailures, FreeEndsCallsInFlightFirst)
{
  std::string large (64 << 20, 'x');
  Outcome answered[3], unsent;
  Listener listener;

  connect_to (listener.address ());
  for (Outcome &outcome : answered)
    call (&outcome, 7, later ());
  Connection connection = listener.accept ();
  connection.read_call ();
  push (&unsent, &large, later ());
  g_clear_pointer (&client_, tps_client_free);
  for (Outcome &outcome : answered)
    {
      EXPECT_EQ (outcome.n_done (), 1);
      EXPECT_EQ (outcome.code (), TPS_ERROR_ABORTED);
    }
  EXPECT_EQ (unsent.n_done (), 1);
  EXPECT_EQ (unsent.code (), TPS_ERROR_ABORTED);
}

TEST_F (ClientFailures, FreeWithoutAnyCall)
{
  connect_to ("127.0.0.1:1");
}

}

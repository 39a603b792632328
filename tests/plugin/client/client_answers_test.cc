/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests replies with values, with errors of the contract, and with exceptions. */

#include <functional>
#include <memory>

#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

class ClientAnswers : public ClientTest
{
protected:
  ClientAnswers ()
  {
    connect_to (listener_.address ());
  }

  Listener listener_;
};

TEST_F (ClientAnswers, ReplyMayHaveTheFullNameAndArriveByteByByte)
{
  Outcome outcome;

  call (&outcome, 7, later ());
  Connection connection = listener_.accept ();
  for (char byte : reply_i64 ("Calculator:square", connection.read_call ().seqid, 49))
    connection.send (std::string (1, byte));
  outcome.wait ();
  EXPECT_EQ (outcome.value (), 49) << outcome.text ();
}

TEST_F (ClientAnswers, ServiceErrorKeepsCodeTextAndRetryTime)
{
  static const int codes[] = { TPS_ERROR_INVALID_ARGUMENT,
                               TPS_ERROR_NOT_FOUND,
                               TPS_ERROR_ALREADY_EXISTS,
                               TPS_ERROR_STALE,
                               TPS_ERROR_DUPLICATE,
                               TPS_ERROR_DEADLINE_EXCEEDED,
                               TPS_ERROR_RESOURCE_EXHAUSTED,
                               TPS_ERROR_UNAVAILABLE,
                               TPS_ERROR_ABORTED,
                               TPS_ERROR_UNAUTHENTICATED,
                               TPS_ERROR_PERMISSION_DENIED,
                               TPS_ERROR_INTERNAL };
  Outcome first;

  call (&first, 7, later ());
  Connection connection = listener_.accept ();
  connection.send (service_error ("square", connection.read_call ().seqid, 7, "full", 250));
  first.wait ();
  EXPECT_EQ (first.code (), TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (first.text (), "full");
  EXPECT_EQ (tps_error_get_retry_after_ms (first.error ()), 250);

  for (int wire_code = 1; wire_code <= 12; wire_code++)
    {
      Outcome outcome;

      call (&outcome, 7, later ());
      connection.send (service_error ("square", connection.read_call ().seqid, wire_code, "why"));
      outcome.wait ();
      EXPECT_EQ (outcome.code (), codes[wire_code - 1]);
      EXPECT_EQ (outcome.text (), "why");
      EXPECT_EQ (tps_error_get_retry_after_ms (outcome.error ()), -1);
    }
}

TEST_F (ClientAnswers, OtherRepliesHaveTheNearestCode)
{
  const struct
  {
    std::function<std::string (int seqid)> reply;
    int code;
    const char *text;
  } cases[] = {
    { [] (int id) { return service_error ("square", id, 77, "later"); }, TPS_ERROR_INTERNAL,
      "later" },
    { [] (int id) { return application_exception ("square", id, 1, "what?"); }, TPS_ERROR_NOT_FOUND,
      "what?" },
    { [] (int id) { return application_exception ("square", id, 6, "oops"); }, TPS_ERROR_INTERNAL,
      "oops" },
    { [] (int id) { return reply ("square", id, field (8, 5, be32 (1))); }, TPS_ERROR_INTERNAL,
      "" },
  };
  std::unique_ptr<Connection> connection;

  for (const auto &each : cases)
    {
      Outcome outcome;

      call (&outcome, 7, later ());
      if (connection == nullptr)
        connection = std::make_unique<Connection> (listener_.accept ());
      connection->send (each.reply (connection->read_call ().seqid));
      outcome.wait ();
      EXPECT_EQ (outcome.code (), each.code) << each.text;
      EXPECT_NE (outcome.text ().find (each.text), std::string::npos) << outcome.text ();
    }
}

TEST_F (ClientAnswers, TextThatIsNotUtf8IsMadeValid)
{
  Outcome outcome;

  call (&outcome, 7, later ());
  Connection connection = listener_.accept ();
  connection.send (
      service_error ("square", connection.read_call ().seqid, 1, std::string ("a\xff\0b", 4)));
  outcome.wait ();
  EXPECT_EQ (outcome.code (), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE (g_utf8_validate (outcome.error ()->message, -1, nullptr));
}

TEST_F (ClientAnswers, CallbackMayCallAgain)
{
  struct Chain
  {
    TpsClient *client;
    Outcome second;
  } chain = { client_, {} };
  TpsClientDone again = [] (gpointer user_data, TpsReader *, TpsWireType, const GError *error) {
    Chain *self = static_cast<Chain *> (user_data);

    EXPECT_EQ (error, nullptr);
    tps_client_call (self->client, "Calculator", "square", nullptr, nullptr, later (),
                     Outcome::done, &self->second);
  };

  tps_client_call (client_, "Calculator", "square", nullptr, nullptr, later (), again, &chain);
  Connection connection = listener_.accept ();
  connection.send (reply_i64 ("square", connection.read_call ().seqid, 1));
  connection.send (reply_i64 ("square", connection.read_call ().seqid, 2));
  chain.second.wait ();
  EXPECT_EQ (chain.second.value (), 2);
}

TEST (ClientOptions, CompactProtocolOnRequest)
{
  Listener listener;
  std::string address = listener.address ();
  TpsClientOptions options = {};
  Outcome outcome;

  options.address = address.c_str ();
  options.protocol = TPS_PROTOCOL_COMPACT;
  g_autoptr (TpsClient) client = tps_client_new (&options, nullptr);
  tps_client_call (client, "Calculator", "square", nullptr, nullptr, later (), Outcome::done,
                   &outcome);
  Connection connection = listener.accept ();
  /* The bytes are 0x82, CALL and version 1, sequence id 1, and the name with its length. */
  EXPECT_EQ (connection.read_call ().raw,
             std::string ("\x82\x21\x01\x11", 4) + "Calculator:square" + std::string (1, '\0'));
  connection.send (framed (std::string ("\x82\x41\x01\x06square\x06\x00\x62\x00", 14)));
  outcome.wait ();
  EXPECT_EQ (outcome.value (), 49) << outcome.text ();
}

}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the replies of a well-behaved peer: values, errors of the contract, and exceptions. */

#include <cstring>
#include <thread>

#include "runtime/base/buffer.h"
#include "tests/plugin/client/call_sync.h"
#include "tests/plugin/client/client_fixture.h"

namespace tps_test {

class ClientAnswers : public ClientTest
{
protected:
  ClientAnswers ()
  {
    connect_to (listener_.address ());
  }

  /* Makes one call and replies with the message that `answer` returns for the call's sequence
   * id. */
  template <typename Answer>
  void
  ask (Outcome *outcome, Answer answer)
  {
    call (outcome, 7, later ());
    Connection connection = listener_.accept ();
    connection.send (answer (connection.read_call ().seqid));
    outcome->wait ();
    EXPECT_EQ (outcome->n_done (), 1);
  }

  Listener listener_;
};

TEST_F (ClientAnswers, CallGoesOutFramedBinaryAndMultiplexed)
{
  Outcome outcome;

  call (&outcome, 7, later ());
  Connection connection = listener_.accept ();
  ReceivedCall received = connection.read_call ();

  EXPECT_EQ (received.name, "Calculator:square");
  EXPECT_EQ (received.kind, TPS_MESSAGE_CALL);
  EXPECT_NE (received.seqid, 0);
  EXPECT_EQ (received.inside, field (10, 1, be64 (7)));
  connection.send (reply_i64 ("square", received.seqid, 49));
  outcome.wait ();
  EXPECT_EQ (outcome.code (), 0) << outcome.text ();
  EXPECT_EQ (outcome.value (), 49);
}

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

TEST_F (ClientAnswers, EmptyResultIsVoid)
{
  Outcome outcome;

  ask (&outcome, [] (int seqid) { return reply ("square", seqid, ""); });
  EXPECT_EQ (outcome.code (), 0) << outcome.text ();
  EXPECT_EQ (outcome.type (), TPS_WIRE_STOP);
}

TEST_F (ClientAnswers, LargeBinaryMayBeKeptByReference)
{
  std::string bytes (1 << 20, '\0');
  Outcome outcome;

  for (size_t i = 0; i < bytes.size (); i++)
    bytes[i] = static_cast<char> (i * 2654435761u >> 13);
  ask (&outcome,
       [&] (int seqid) { return reply ("square", seqid, field (11, 0, binary (bytes))); });
  g_clear_pointer (&client_, tps_client_free);
  ASSERT_NE (outcome.body (), nullptr);
  ASSERT_EQ (tps_buffer_get_size (outcome.body ()), bytes.size ());
  EXPECT_EQ (memcmp (tps_buffer_get_data (outcome.body ()), bytes.data (), bytes.size ()), 0);
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

TEST_F (ClientAnswers, UnknownErrorCodeIsInternal)
{
  Outcome outcome;

  ask (&outcome, [] (int seqid) { return service_error ("square", seqid, 77, "from the future"); });
  EXPECT_EQ (outcome.code (), TPS_ERROR_INTERNAL);
  EXPECT_EQ (outcome.text (), "from the future");
}

TEST_F (ClientAnswers, TextThatIsNotUtf8IsMadeValid)
{
  Outcome outcome;

  ask (&outcome,
       [] (int seqid) { return service_error ("square", seqid, 1, std::string ("a\xff\0b", 4)); });
  EXPECT_EQ (outcome.code (), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_TRUE (g_utf8_validate (outcome.error ()->message, -1, nullptr));
}

TEST_F (ClientAnswers, UnknownMethodIsNotFound)
{
  Outcome outcome;

  ask (&outcome, [] (int seqid) { return application_exception ("square", seqid, 1, "what?"); });
  EXPECT_EQ (outcome.code (), TPS_ERROR_NOT_FOUND);
  EXPECT_NE (outcome.text ().find ("what?"), std::string::npos);
}

TEST_F (ClientAnswers, OtherApplicationExceptionsAreInternal)
{
  Outcome outcome;

  ask (&outcome, [] (int seqid) { return application_exception ("square", seqid, 6, "oops"); });
  EXPECT_EQ (outcome.code (), TPS_ERROR_INTERNAL);
  EXPECT_NE (outcome.text ().find ("oops"), std::string::npos);
}

TEST_F (ClientAnswers, UnknownResultFieldIsInternal)
{
  Outcome outcome;

  ask (&outcome, [] (int seqid) { return reply ("square", seqid, field (8, 5, be32 (1))); });
  EXPECT_EQ (outcome.code (), TPS_ERROR_INTERNAL);
}

TEST_F (ClientAnswers, SynchronousCallReturnsTheResultOfItsReader)
{
  const gint64 argument = 7;
  gint64 value = 0;
  GError *error = nullptr;
  TpsReadResult read = [] (TpsReader *result, TpsWireType type, gpointer user_data,
                           GError **) -> gboolean {
    *static_cast<gint64 *> (user_data) = type == TPS_WIRE_I64 ? tps_reader_i64 (result) : -1;
    return TRUE;
  };
  std::thread peer ([this] {
    Connection connection = listener_.accept ();
    connection.send (reply_i64 ("square", connection.read_call ().seqid, 49));
    connection.drain ();
  });

  EXPECT_TRUE (tps_client_call_sync (client_, "Calculator", "square", write_i64, &argument,
                                     later (), read, &value, &error));
  EXPECT_EQ (error, nullptr);
  EXPECT_EQ (value, 49);
  g_clear_pointer (&client_, tps_client_free);
  peer.join ();
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

TEST (ClientOptions, AddressThatCannotBeReadIsRefused)
{
  TpsClientOptions options = {};
  g_autoptr (GError) error = nullptr;

  options.address = "nowhere";
  EXPECT_EQ (tps_client_new (&options, &error), nullptr);
  EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
}

}

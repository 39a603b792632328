/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the messages of a client that shares memory with a well-behaved server. */

#include "tests/plugin/client/sharing/scripted_server.h"

namespace tps_test {
namespace {

using Sharing = SharingTest;

TEST_F (Sharing, TheSecondTensorIsASlice)
{
  Connection connection = connect_with_requests ();

  for (int i = 0; i < 3; i++)
    {
      TensorOutcome outcome;

      values_[0] = values_[24999] = static_cast<float> (i);
      ReceivedCall call = push_and_answer (connection, &outcome);
      EXPECT_LT (call.inside.size (), 100u);
      size_t at = call.inside.find (field (12, 4, slice (1, 0, 100000)));
      ASSERT_NE (at, std::string::npos); /* each reply frees the place for the next call */
      EXPECT_EQ (memcmp (server_.segments[1]->data, values_.data (), 100000), 0);
    }
  EXPECT_EQ (stats ().sent_shared.n_tensors, 3u);
  EXPECT_EQ (stats ().sent_inline.n_tensors, 1u);
  EXPECT_EQ (server_.n_calls["Node:describe"], 1);
}

TEST_F (Sharing, NotWhereItIsSwitchedOff)
{
  g_clear_pointer (&client_, tps_client_free);
  options_.no_shared_memory = TRUE;
  connect_to (server_.listener.address ());
  TensorOutcome outcome;

  push_tensor (&outcome, &values_);
  Connection connection = server_.listener.accept ();
  ReceivedCall call = connection.read_call ();
  EXPECT_EQ (call.name, "Calculator:push");
  EXPECT_TRUE (is_inline (call));
  g_clear_pointer (&client_, tps_client_free);
  EXPECT_TRUE (connection.is_closed_by_peer ());
  outcome.outcome.wait ();
}

TEST_F (Sharing, CallsInFlightHaveSegmentsOfTheirOwn)
{
  Connection connection = connect_with_requests ();
  TensorOutcome first, second, third;

  push_tensor (&first, &values_);
  push_tensor (&second, &values_);
  ReceivedCall one = server_.read_call (connection), two = server_.read_call (connection);
  EXPECT_FALSE (is_inline (one));
  EXPECT_TRUE (is_inline (two)); /* the first call still uses the segment */
  server_.serve_until (connection, "Memory:open_segment", 2);
  connection.send (reply ("push", two.seqid, "") + reply ("push", one.seqid, ""));
  first.outcome.wait ();
  second.outcome.wait ();
  settle (connection);
  push_and_answer (connection, &third);
  EXPECT_EQ (third.outcome.text (), "");
}

TEST_F (Sharing, ADeadlineClosesTheSegment)
{
  Connection connection = connect_with_requests ();
  TensorOutcome late, next;

  push_tensor (&late, &values_, in_ms (200));
  ReceivedCall call = server_.read_call (connection);
  EXPECT_FALSE (is_inline (call));
  late.outcome.wait ();
  EXPECT_EQ (late.outcome.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  server_.serve_until (connection, "Memory:close_segments", 1);
  connection.send (reply ("push", call.seqid, "")); /* the reply comes too late and has no effect */
  EXPECT_TRUE (is_inline (push_and_answer (connection, &next)));
}

TEST_F (Sharing, AnswersAreReadInPlaceAndReleased)
{
  Connection connection = connect_with_answers ();

  for (int i = 0; i < 3; i++)
    {
      TensorOutcome outcome;

      memset (server_.segments[1]->data, i, MIB);
      pull (connection, &outcome, shared_tensor (1, 64 * i));
      ASSERT_EQ (outcome.decode_error, nullptr) << outcome.decode_error->message;
      EXPECT_TRUE (tps_buffer_is_shared (outcome.tensor.buffer));
      EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&outcome.tensor))[99999], i);
      EXPECT_EQ (server_.n_calls["Memory:release_segments"], i);
      tps_tensor_clear (&outcome.tensor);
      server_.serve_until (connection, "Memory:release_segments", i + 1);
    }
  EXPECT_EQ (stats ().received_shared.n_tensors, 3u);
}

/* Calls that the client makes by itself do not count against the user's limit. */
TEST_F (Sharing, AnswersAreReleasedWhileAllCallsThatMayBeAreInFlight)
{
  g_clear_pointer (&client_, tps_client_free);
  options_.max_in_flight = 1;
  connect_to (server_.listener.address ());
  Connection connection = connect_with_answers ();
  TensorOutcome kept, waiting, refused;

  pull (connection, &kept, shared_tensor (1, 0));
  ASSERT_EQ (kept.decode_error, nullptr) << kept.decode_error->message;
  push_tensor (&waiting, &values_);
  ReceivedCall call = server_.read_call (connection);
  tps_tensor_clear (&kept.tensor);
  server_.serve_until (connection, "Memory:release_segments", 1);
  push_tensor (&refused, &values_);
  refused.outcome.wait ();
  EXPECT_EQ (refused.outcome.code (), TPS_ERROR_RESOURCE_EXHAUSTED);
  connection.send (reply ("push", call.seqid, ""));
  waiting.outcome.wait ();
  EXPECT_EQ (waiting.outcome.text (), "");
}

TEST_F (Sharing, ALateAnswerIsReleased)
{
  Connection connection = connect_with_answers ();
  TensorOutcome late;

  tps_client_call (client_, "Calculator", "pull", nullptr, nullptr, in_ms (200),
                   TensorOutcome::done, &late);
  ReceivedCall call = server_.read_call (connection);
  late.outcome.wait ();
  EXPECT_EQ (late.outcome.code (), TPS_ERROR_DEADLINE_EXCEEDED);
  connection.send (reply ("pull", call.seqid, field (12, 0, shared_tensor (1, 0))));
  server_.serve_until (connection, "Memory:release_segments", 1);
}

TEST_F (Sharing, AKeptAnswerSurvivesConnectionAndClient)
{
  Connection connection = connect_with_answers ();
  TensorOutcome outcome;

  memset (server_.segments[1]->data, 7, MIB);
  pull (connection, &outcome, shared_tensor (1, 128));
  connection.close ();
  g_clear_pointer (&client_, tps_client_free);
  EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&outcome.tensor))[99999], 7);
}

/* The server does not read a large push, so the client's own calls queue behind it. The server
 * replies to them nevertheless. */
TEST_F (Sharing, TheReplyAfterTheReplyToOpenSegmentMayBeASlice)
{
  std::string large (100000, 'x'), unread (16 * MIB, 'x');
  TensorOutcome first, second;
  Outcome squares[2], push_outcome;
  gint fd = -1;

  Connection connection = accept_after_a_call (server_.listener);
  for (TensorOutcome *outcome : { &first, &second })
    tps_client_call (client_, "Calculator", "pull", nullptr, nullptr, later (), TensorOutcome::done,
                     outcome);
  for (Outcome &square : squares)
    call (&square, 1, later ());
  for (int seqid = 2; seqid <= 5; seqid++)
    ASSERT_EQ (server_.read_call (connection).seqid, seqid);
  push (&push_outcome, &unread, later ()); /* sequence id 6 */
  connection.send (reply ("pull", 2, field (12, 0, tensor (25000, field (11, 3, binary (large))))));
  first.outcome.wait ();
  connection.send (reply_i64 ("square", 4, 1));
  squares[0].wait ();
  server_.serve["Node:describe"](connection, { "Node:describe", 1, 7, "", "" });
  connection.send (reply_i64 ("square", 5, 1));
  squares[1].wait ();
  server_.segments[1] = tps_segment_create (TPS_SEGMENT_ANSWERS, MIB, &fd, nullptr);
  memset (server_.segments[1]->data, 7, MIB);
  connection.send_with_descriptors (
      ScriptedServer::opened ({ "Memory:open_segment", 1, 8, "", "" }, 1, MIB)
          + reply ("pull", 3, field (12, 0, shared_tensor (1, 0))),
      { fd });
  close (fd);
  second.outcome.wait ();
  ASSERT_EQ (second.decode_error, nullptr) << second.decode_error->message;
  EXPECT_EQ (static_cast<guint8 *> (tps_tensor_data (&second.tensor))[99999], 7);
  tps_tensor_clear (&second.tensor);
  connection.close ();
  push_outcome.wait ();
}

/* The connection is lost while a call for it is being written. */
TEST_F (Sharing, ACallIsWrittenAgainForTheNextConnection)
{
  struct Writing
  {
    Connection *connection;
    TensorOutcome *waiting;
    std::vector<float> *values;
    int n_written;
  };
  Connection connection = connect_with_requests ();
  TensorOutcome waiting, outcome;
  Writing writing = { &connection, &waiting, &values_, 0 };
  std::vector<float> small (10);

  push_tensor (&waiting, &small);
  EXPECT_EQ (server_.read_call (connection).name, "Calculator:push");
  TpsWriteArguments write = [] (TpsWriter *out, gconstpointer data) {
    Writing *self = static_cast<Writing *> (const_cast<gpointer> (data));

    write_tensor (out, self->values);
    if (self->n_written++ > 0)
      return;
    self->connection->close ();
    self->waiting->outcome.wait ();
    EXPECT_EQ (self->waiting->outcome.code (), TPS_ERROR_CONNECTION_LOST);
  };
  tps_client_call (client_, "Calculator", "push", write, &writing, later (), TensorOutcome::done,
                   &outcome);
  EXPECT_EQ (writing.n_written, 2);
  Connection next = server_.listener.accept ();
  ReceivedCall call = server_.read_call (next);
  EXPECT_TRUE (is_inline (call)); /* this connection has no segment yet */
  next.send (reply ("push", call.seqid, ""));
  outcome.outcome.wait ();
  EXPECT_EQ (outcome.outcome.text (), "");
}

} // namespace
} // namespace tps_test

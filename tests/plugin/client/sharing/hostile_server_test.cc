/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests servers that offer shared memory and violate the protocol, or do not know it. Calls must
 * continue inline. */

#include <fcntl.h>

#include "tests/plugin/client/sharing/scripted_server.h"

namespace tps_test {
namespace {

class HostileServer : public SharingTest
{
protected:
  /* Makes some more pushes, which must all be inline. */
  void
  expect_inline (Connection &connection)
  {
    for (int i = 0; i < 5; i++)
      {
        TensorOutcome outcome;

        EXPECT_TRUE (is_inline (push_and_answer (connection, &outcome)));
      }
  }

  /* Returns a connection on which `open` answers the first open_segment. */
  Connection
  connect_with (ScriptedServer::Serve open)
  {
    server_.serve["Memory:open_segment"] = open;
    return connect_with_requests ();
  }
};

TEST_F (HostileServer, ThatDoesNotKnowDescribeGetsEverythingInline)
{
  TensorOutcome first;

  server_.serve["Node:describe"] = [] (Connection &connection, const ReceivedCall &call) {
    connection.send (application_exception ("describe", call.seqid, 1, "what?"));
  };
  push_tensor (&first, &values_);
  Connection connection = server_.listener.accept ();
  ReceivedCall call = server_.read_call (connection);
  server_.serve_until (connection, "Node:describe", 1);
  connection.send (reply ("push", call.seqid, ""));
  first.outcome.wait ();
  expect_inline (connection);
  EXPECT_EQ (server_.n_calls["Node:describe"], 1);
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 0);
}

TEST_F (HostileServer, ThatOffersNothingIsAskedForNothing)
{
  TensorOutcome first;

  server_.max_shared_bytes = 0;
  push_tensor (&first, &values_);
  Connection connection = server_.listener.accept ();
  ReceivedCall call = server_.read_call (connection);
  server_.serve_until (connection, "Node:describe", 1);
  connection.send (reply ("push", call.seqid, ""));
  first.outcome.wait ();
  expect_inline (connection);
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 0);
}

/* Some servers close the connection if a call names an unknown service. */
TEST_F (HostileServer, ThatClosesWhenAskedIsAskedTwiceAtMost)
{
  for (int i = 0; i < 2; i++)
    {
      TensorOutcome outcome;

      push_tensor (&outcome, &values_);
      Connection connection = server_.listener.accept ();
      while (connection.read_call ().name != "Node:describe")
        ;
      connection.close ();
      outcome.outcome.wait ();
      EXPECT_EQ (outcome.outcome.code (), TPS_ERROR_CONNECTION_LOST);
    }
  TensorOutcome outcome;
  push_tensor (&outcome, &values_);
  Connection connection = server_.listener.accept ();
  ReceivedCall call = connection.read_call ();
  EXPECT_EQ (call.name, "Calculator:push");
  connection.send (reply ("push", call.seqid, ""));
  outcome.outcome.wait ();
  expect_inline (connection);
  EXPECT_EQ (server_.n_calls["Node:describe"], 0);
}

TEST_F (HostileServer, ThatNeverOpensASegmentDelaysNoCall)
{
  Connection connection = connect_with ([] (Connection &, const ReceivedCall &) {});

  expect_inline (connection);
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 1);
}

TEST_F (HostileServer, ThatRefusesIsNotAskedAgain)
{
  Connection connection = connect_with ([] (Connection &to, const ReceivedCall &call) {
    to.send (service_error ("open_segment", call.seqid, 11, "another user"));
  });

  expect_inline (connection);
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 1);
}

TEST_F (HostileServer, ThatSendsNoDescriptor)
{
  Connection connection = connect_with ([] (Connection &to, const ReceivedCall &call) {
    to.send (ScriptedServer::opened (call, 5, MIB));
  });

  expect_inline (connection);
  server_.serve_until (connection, "Memory:close_segments", 1);
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 1);
}

class Warnings
{
public:
  Warnings () : before_ (g_log_set_default_handler (keep, this))
  {
  }
  ~Warnings ()
  {
    g_log_set_default_handler (before_, nullptr);
  }

  std::vector<std::string>
  get ()
  {
    std::lock_guard<std::mutex> lock (mutex_);

    return texts_;
  }

private:
  static void
  keep (const gchar *, GLogLevelFlags, const gchar *text, gpointer user_data)
  {
    Warnings *self = static_cast<Warnings *> (user_data);
    std::lock_guard<std::mutex> lock (self->mutex_);

    self->texts_.push_back (text);
  }

  std::mutex mutex_;
  std::vector<std::string> texts_;
  GLogFunc before_;
};

TEST_F (HostileServer, ThatCannotShareIsWarnedOfOnce)
{
  Warnings warnings;

  for (int i = 0; i < 2; i++)
    {
      server_.n_calls.clear ();
      Connection connection = connect_with ([] (Connection &to, const ReceivedCall &call) {
        to.send (ScriptedServer::opened (call, 5, MIB));
      });
      TensorOutcome lost;
      push_tensor (&lost, &values_);
      EXPECT_EQ (server_.read_call (connection).name, "Calculator:push");
      connection.close ();
      lost.outcome.wait ();
      EXPECT_EQ (lost.outcome.code (), TPS_ERROR_CONNECTION_LOST);
    }
  ASSERT_EQ (warnings.get ().size (), 1u);
  EXPECT_EQ (warnings.get ()[0],
             "memory cannot be shared with " + server_.listener.address ()
                 + "; large tensors are sent inline: the server opened a segment "
                   "but sent no file descriptor for it");
}

/* The server may have room later, so this is not worth a warning. */
TEST_F (HostileServer, ThatHasNoRoomIsNotWarnedOf)
{
  Warnings warnings;
  Connection connection = connect_with ([] (Connection &to, const ReceivedCall &call) {
    to.send (service_error ("open_segment", call.seqid, 7, "full"));
  });

  expect_inline (connection);
  EXPECT_EQ (warnings.get ().size (), 0u);
}

TEST_F (HostileServer, ThatSendsTooManyDescriptorsIsDisconnected)
{
  TensorOutcome first;

  server_.serve["Memory:open_segment"] = [] (Connection &to, const ReceivedCall &call) {
    int fd = open ("/dev/null", O_RDONLY | O_CLOEXEC);

    to.send_with_descriptors (ScriptedServer::opened (call, 5, MIB), { fd, fd, fd });
    close (fd);
  };
  push_tensor (&first, &values_);
  Connection connection = server_.listener.accept ();
  server_.serve["Calculator:push"] = [] (Connection &, const ReceivedCall &) {};
  server_.serve_until (connection, "Memory:open_segment", 1);
  connection.drain ();
  first.outcome.wait ();
  EXPECT_EQ (first.outcome.code (), TPS_ERROR_CONNECTION_LOST);
}

TEST_F (HostileServer, ThatSendsAnUnrequestedDescriptorIsDisconnected)
{
  TensorOutcome first;
  int fd = open ("/dev/null", O_RDONLY | O_CLOEXEC);

  push_tensor (&first, &values_);
  Connection connection = server_.listener.accept ();
  server_.serve["Node:describe"] = [] (Connection &, const ReceivedCall &) {};
  ReceivedCall call = server_.read_call (connection);
  connection.send_with_descriptors (reply ("push", call.seqid, ""), { fd });
  close (fd);
  first.outcome.wait ();
  EXPECT_EQ (first.outcome.code (), TPS_ERROR_CONNECTION_LOST);
  EXPECT_NE (first.outcome.text ().find ("descriptor"), std::string::npos);
}

/* A file that a server may send instead of a segment of 1 MiB. */
struct WrongFile
{
  const char *name;
  int (*make) ();
  gint64 n_bytes; /* the size that the reply names */
};

int
make_segment (gsize n_bytes)
{
  gint fd = -1;

  tps_segment_free (tps_segment_create (TPS_SEGMENT_REQUESTS, n_bytes, &fd, nullptr));
  return fd;
}

const WrongFile wrong_files[] = {
  { "CanShrink",
    [] {
      int fd = memfd_create ("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

      EXPECT_EQ (ftruncate (fd, MIB), 0);
      return fd;
    },
    MIB },
  { "IsTooShort", [] { return make_segment (4096); }, MIB },
  { "HasAnotherSizeThanWanted", [] { return make_segment (2 * MIB); }, 2 * MIB },
  { "IsNoFile", [] { return open ("/dev/null", O_RDONLY | O_CLOEXEC); }, MIB },
};

class WrongFiles : public HostileServer, public testing::WithParamInterface<WrongFile>
{
};

TEST_P (WrongFiles, GetEverythingInline)
{
  Connection connection = connect_with ([] (Connection &to, const ReceivedCall &call) {
    int fd = GetParam ().make ();

    to.send_with_descriptors (ScriptedServer::opened (call, 5, GetParam ().n_bytes), { fd });
    close (fd);
  });

  expect_inline (connection);
  server_.serve_until (connection, "Memory:close_segments", 1);
  EXPECT_EQ (server_.n_calls["Memory:open_segment"], 1);
}

INSTANTIATE_TEST_SUITE_P (HostileServer, WrongFiles, testing::ValuesIn (wrong_files),
                          [] (const auto &file) { return std::string (file.param.name); });

TEST_F (HostileServer, ThatNamesMissingSlicesInRepliesFailsThoseCallsOnly)
{
  const std::vector<std::string> slices = { slice (1, 0, 100000), slice (77, 0, 100000),
                                            slice (-1, -64, 100000),
                                            slice (1, G_MAXINT64 - 63, 100000) };
  Connection connection = connect_with_requests ();

  for (const std::string &bad : slices)
    {
      TensorOutcome outcome;

      push_and_answer (connection, &outcome, field (12, 0, tensor (25000, field (12, 4, bad))));
      ASSERT_NE (outcome.decode_error, nullptr); /* segment 1 is for requests only */
    }
  TensorOutcome outcome;
  EXPECT_FALSE (is_inline (push_and_answer (connection, &outcome)));
}

} // namespace
} // namespace tps_test

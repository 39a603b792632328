// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the Memory service over real sockets: its offers to each kind of client, opening, release,
// closing and limits.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/shared_client.h"

namespace thriftps_test {
namespace {

constexpr gsize kMiB = 1 << 20;

TEST (Offer, IsRefusedOverTcpByAllMethodsWithTheReason)
{
  PluginServer server;
  RawClient client (server.Tcp ());

  Message answer = client.Call ("Memory:open_segment", OpenFields (1, 1, 4096));
  EXPECT_EQ (ErrorCode (answer), 8);
  EXPECT_THAT (ErrorText (answer), testing::HasSubstr ("over Unix sockets only"));
  EXPECT_EQ (ErrorCode (client.Call ("Memory:release_segments", IdsFields ({ 1 }))), 8);
  EXPECT_EQ (ErrorCode (client.Call ("Memory:close_segments", IdsFields ({ 1 }))), 8);
}

TEST (Offer, IsNothingWhereItIsSwitchedOff)
{
  TpsServerOptions options = {};
  options.no_shared_memory = TRUE;
  PluginServer server (options);
  SharedClient client (server.Unix ());

  EXPECT_EQ (client.Offered (), 0);
  Message answer = client.raw ().Call ("Memory:open_segment", OpenFields (1, 1, 4096));
  EXPECT_EQ (ErrorCode (answer), 8);
  EXPECT_THAT (ErrorText (answer), testing::HasSubstr ("disabled"));
}

// Only root can change its user id, so other users skip this test.
TEST (Offer, IsNothingForAnotherUser)
{
  if (geteuid () != 0)
    GTEST_SKIP () << "needs root";
  PluginServer server;
  std::string path = server.Unix ().substr (strlen ("unix:"));
  ASSERT_EQ (chmod (path.c_str (), 0777), 0);
  ASSERT_EQ (chmod (path.substr (0, path.rfind ('/')).c_str (), 0755), 0);
  pid_t child = fork ();
  if (child == 0)
    {
      if (setuid (65534) != 0)
        _exit (77);
      SharedClient client (server.Unix ());
      bool offered = client.Offered () != 0;
      Message answer = client.raw ().Call ("Memory:open_segment", OpenFields (1, 1, 4096));
      _exit (offered ? 1 : ErrorCode (answer));
    }
  int status = 0;
  ASSERT_EQ (waitpid (child, &status, 0), child);
  if (WIFEXITED (status) && WEXITSTATUS (status) == 77)
    GTEST_SKIP () << "no other user here";
  EXPECT_TRUE (WIFEXITED (status));
  EXPECT_EQ (WEXITSTATUS (status), 11); // PERMISSION_DENIED
}

class Segments : public testing::TestWithParam<Wire>
{
};

TEST_P (Segments, ComeWithADescriptorInTheOrderOfTheAnswers)
{
  PluginServer server;
  SharedClient client (server.Unix (), GetParam ());
  RawClient &raw = client.raw ();

  for (int i = 0; i < 20; i++)
    raw.Send ("Memory:open_segment", GetParam ().framed ? i : 0,
              OpenFields (1, 1 + i % 2, 4096 * (i + 1)));
  for (int i = 0; i < 20; i++)
    {
      Message answer = raw.Receive ();
      struct stat status;
      int fd = raw.TakeDescriptor ();

      ASSERT_EQ (ErrorCode (answer), 0) << ErrorText (answer);
      ASSERT_EQ (fstat (fd, &status), 0);
      int number = GetParam ().framed ? answer->seqid : i;
      EXPECT_EQ (status.st_size, 4096 * (number + 1));
      close (fd);
    }
  EXPECT_EQ (raw.TakeDescriptor (), -1);
}

INSTANTIATE_TEST_SUITE_P (Wires, Segments,
                          testing::Values (Wire { TPS_PROTOCOL_BINARY, true },
                                           Wire { TPS_PROTOCOL_BINARY, false },
                                           Wire { TPS_PROTOCOL_COMPACT, true },
                                           Wire { TPS_PROTOCOL_COMPACT, false }));

TEST (SegmentFiles, AreSealedAsTheContractSays)
{
  PluginServer server;
  SharedClient client (server.Unix ());
  const Segment &requests = client.Open (TPS_SEGMENT_REQUESTS, 5000);
  const Segment &answers = client.Open (TPS_SEGMENT_ANSWERS, 5000);

  for (const Segment &segment : { requests, answers })
    {
      EXPECT_EQ (segment.size, 8192u);
      EXPECT_EQ (fcntl (segment.fd, F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
                 F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
      EXPECT_EQ (ftruncate (segment.fd, 0), -1);
      EXPECT_EQ (ftruncate (segment.fd, 1 << 20), -1);
    }
  EXPECT_EQ (mmap (nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, answers.fd, 0), MAP_FAILED);
  EXPECT_EQ (pwrite (answers.fd, "x", 1, 0), -1);
}

TEST (SegmentLimits, BoundOneConnectionAndNotTheNext)
{
  TpsServerOptions options = {};
  options.max_shared_bytes = 4 * kMiB;
  PluginServer server (options);
  SharedClient one (server.Unix ());
  SharedClient two (server.Unix ());
  gint64 id = one.Open (TPS_SEGMENT_REQUESTS, 3 * kMiB).id;

  Message answer = one.raw ().Call ("Memory:open_segment", OpenFields (1, 1, 2 * kMiB));
  EXPECT_EQ (ErrorCode (answer), 7);
  EXPECT_THAT (ErrorText (answer),
               testing::HasSubstr ("the connection shares 3145728 of at most 4194304 bytes"));
  two.Open (TPS_SEGMENT_REQUESTS, 4 * kMiB);
  EXPECT_EQ (ErrorCode (one.Close (id)), 0);
  one.Open (TPS_SEGMENT_ANSWERS, 4 * kMiB);
}

TEST (SegmentLimits, IncludeABudgetSharedByAllConnections)
{
  TpsServerOptions options = {};
  options.max_pending_bytes = 8 * kMiB;
  PluginServer server (options);
  SharedClient one (server.Unix ());
  SharedClient two (server.Unix ());

  one.Open (TPS_SEGMENT_REQUESTS, 3 * kMiB);
  EXPECT_EQ (server.BytesOut (), 3 * kMiB);
  Message answer = two.raw ().Call ("Memory:open_segment", OpenFields (1, 1, 2 * kMiB));
  EXPECT_EQ (ErrorCode (answer), 7);
  EXPECT_THAT (ErrorText (answer),
               testing::HasSubstr ("the budget of shared memory: no room for 2097152 bytes, "
                                   "3145728 of 4194304"));
  two.Open (TPS_SEGMENT_REQUESTS, kMiB);
}

TEST (SegmentLimits, BoundTheNumberOfSegments)
{
  PluginServer server;
  RawClient client (server.Unix ());
  int n_opened = 0;

  for (int i = 0; i < 3000; i++)
    {
      Message answer = client.Call ("Memory:open_segment", OpenFields (1, 1 + i % 2, 1));
      int fd = client.TakeDescriptor ();

      ASSERT_EQ (fd >= 0, ErrorCode (answer) == 0);
      if (fd >= 0)
        close (fd);
      else
        ASSERT_EQ (ErrorCode (answer), 7);
      n_opened += fd >= 0;
    }
  EXPECT_EQ (n_opened, 256);
  EXPECT_EQ (server.BytesOut (), 256u * 4096);
}

// Returns the number of descriptors of segments in this process. They belong to the server, or
// clients have received them.
int
CountDescriptors ()
{
  int n = 0;

  for (const auto &entry : std::filesystem::directory_iterator ("/proc/self/fd"))
    {
      std::error_code gone; // the folder's own descriptor is gone by now

      n += std::filesystem::read_symlink (entry, gone).string ().find ("thriftps-segment")
           != std::string::npos;
    }
  return n;
}

// A client opens and closes segments without reading replies. Each segment holds a descriptor until
// the descriptor has been sent.
TEST (SegmentLimits, CountDescriptorsThatHaveNotBeenSent)
{
  PluginServer server;
  SharedClient client (server.Unix ());
  RawClient &raw = client.raw ();
  gint64 first = client.Open (TPS_SEGMENT_REQUESTS, 1).id;
  int n_unread = 1;

  // Ids increase. If an open runs after the next close, one of the later closes names its segment.
  for (gint64 i = 0; i < 2000; i++)
    {
      std::vector<gint64> ids;

      for (gint64 back = 0; back < 128 && back <= i; back++)
        ids.push_back (first + i - back);
      ASSERT_TRUE (raw.Send ("Memory:open_segment", 0, OpenFields (1, 1, 1)));
      ASSERT_TRUE (raw.Send ("Memory:close_segments", 0, IdsFields (ids)));
    }
  WaitUntil ([&] {
    return ioctl (raw.fd (), SIOCOUTQ, &n_unread) == 0 && n_unread == 0
           && tps_server_get_n_calls (server.Get ()) == 0;
  });
  int n_unsent = CountDescriptors () - 1; // the client has received one descriptor
  EXPECT_LE (n_unsent, 256);
  EXPECT_GE (server.BytesOut (), gsize { 4096 } * n_unsent);
  for (int i = 0; i < 4000; i++)
    {
      ASSERT_NE (raw.Receive (), nullptr);
      close (raw.TakeDescriptor ());
    }
  SharedClient (server.Unix ()).Open (TPS_SEGMENT_REQUESTS, 1);
}

TEST (SegmentLimits, RefuseSizesThatAreNone)
{
  PluginServer server;
  RawClient client (server.Unix ());

  for (gint64 n_bytes : { gint64 { 0 }, gint64 { -1 }, gint64 { G_MININT64 } })
    EXPECT_EQ (ErrorCode (client.Call ("Memory:open_segment", OpenFields (1, 1, n_bytes))), 1);
  for (gint64 n_bytes : { gint64 { G_MAXINT64 }, gint64 { 1 } << 62, gint64 { 1 } << 31 })
    EXPECT_EQ (ErrorCode (client.Call ("Memory:open_segment", OpenFields (1, 1, n_bytes))), 7);
  EXPECT_EQ (ErrorCode (client.Call ("Memory:open_segment", OpenFields (3, 1, 1))), 1);
  EXPECT_EQ (ErrorCode (client.Call ("Memory:open_segment", OpenFields (2, 1, 1))), 8);
  EXPECT_EQ (ErrorCode (client.Call ("Memory:open_segment", OpenFields (1, 4, 1))), 1);
  EXPECT_EQ (client.TakeDescriptor (), -1);
  EXPECT_EQ (server.BytesOut (), 0u);
}

TEST (SegmentOwnership, OnlyLentSegmentsCanBeReleasedAndOnlyOwnOnesClosed)
{
  PluginServer server;
  SharedClient client (server.Unix ());
  SharedClient other (server.Unix ());
  gint64 requests = client.Open (TPS_SEGMENT_REQUESTS, 1).id;
  gint64 answers = client.Open (TPS_SEGMENT_ANSWERS, 1).id;
  gint64 foreign = other.Open (TPS_SEGMENT_ANSWERS, 1).id;

  for (gint64 id : { requests, answers, foreign, gint64 { 0 }, gint64 { -1 }, gint64 { 1 } << 40 })
    {
      Message answer = client.Release (id);
      EXPECT_EQ (ErrorCode (answer), 2);
      EXPECT_THAT (ErrorText (answer), testing::HasSubstr ("segment " + std::to_string (id)));
    }
  EXPECT_EQ (ErrorCode (client.Close (foreign)), 2);
  EXPECT_EQ (ErrorCode (client.Close (requests)), 0);
  EXPECT_EQ (ErrorCode (client.Close (requests)), 2);
  EXPECT_EQ (ErrorCode (other.Close (foreign)), 0);
}

TEST (SegmentEnd, ComesWithTheConnection)
{
  PluginServer server;
  {
    SharedClient client (server.Unix ());

    client.Open (TPS_SEGMENT_REQUESTS, 3 * kMiB);
    client.Open (TPS_SEGMENT_ANSWERS, kMiB);
    EXPECT_EQ (CountMappings (), 4); // of both sides
  }
  WaitUntil ([&] { return server.BytesOut () == 0; });
  EXPECT_EQ (CountMappings (), 0);
}

// A client opens segments and leaves before the replies arrive.
TEST (SegmentEnd, ComesToSegmentsThatNoClientHasReceived)
{
  PluginServer server;

  for (int i = 0; i < 50; i++)
    {
      RawClient client (server.Unix ());

      for (int seqid = 0; seqid < 8; seqid++)
        client.Send ("Memory:open_segment", seqid, OpenFields (1, 1, kMiB));
    }
  WaitUntil ([&] { return tps_server_get_n_connections (server.Get ()) == 0; });
  WaitUntil ([&] { return tps_server_get_n_calls (server.Get ()) == 0; });
  WaitUntil ([&] { return server.BytesOut () == 0; });
  EXPECT_EQ (CountMappings (), 0);
}

} // namespace
} // namespace thriftps_test

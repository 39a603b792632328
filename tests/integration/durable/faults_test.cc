/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Each kind of --fault must have the effect that OPERATING.md documents, and the server must keep
 * its guarantees. */

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "plugin/wire/wire_durability.h"
#include "tests/integration/durable/countable.h"

namespace thriftps_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int kUnavailable = 8, kResourceExhausted = 7, kInternal = 12;

/* A server with a table of four rows. */
class Faults : public testing::Test
{
protected:
  void
  start (const std::string &fault, const std::string &folder = new_folder ())
  {
    folder_ = folder;
    server_.reset (new DataServer (
        folder, { "--enable-faults", "--fault=" + fault, "--services=EmbeddingTable" }));
    ASSERT_TRUE (server_->serve ());
    RawClient connection (server_->address ());
    create_counts (connection, 4);
  }

  /* Restarts the server without faults on the same folder. Returns the counts of the rows. */
  std::vector<int>
  counts_after_restart ()
  {
    server_.reset (new DataServer (folder_));
    EXPECT_TRUE (server_->serve ());
    RawClient connection (server_->address ());
    return read_counts (connection, 4);
  }

  static constexpr const char *kPush = "on=apply_bag_gradients";

  std::string folder_;
  std::unique_ptr<DataServer> server_;
};

std::string
refusal (const std::vector<std::string> &flags)
{
  ServerProcess server (flags);

  EXPECT_EQ (server.Wait (), 2);
  return server.ReadErrors ();
}

} // namespace

TEST (FaultFlags, AreRefusedUnlessEnabled)
{
  EXPECT_THAT (refusal ({ "--fault=write:fail" }), HasSubstr ("--enable-faults"));
  EXPECT_THAT (refusal ({ "--enable-faults", "--fault=write:burn" }),
               HasSubstr ("fault \"write:burn\": this point has no such action"));
  EXPECT_THAT (refusal ({ "--enable-faults", "--fault=moon:fail" }), HasSubstr ("POINT:ACTION"));
}

TEST_F (Faults, ARequestIsDropped)
{
  start (std::string ("request:drop,count=1,") + kPush);
  RawClient connection (server_->address ());
  Count one ({ 1 }, "c", 1), other ({ 2 }, "c", 2);

  one.send (connection, 1);
  other.send (connection, 2);
  EXPECT_EQ (connection.Receive ()->seqid, 2) << "the first reply was dropped";
  EXPECT_THAT (read_counts (connection, 4), ElementsAre (0, 0, 1, 0));
  EXPECT_EQ (count (connection, { 1 }, "c", 1), 0);
  EXPECT_THAT (read_counts (connection, 4), ElementsAre (0, 1, 1, 0));
}

TEST_F (Faults, ARequestIsDuplicated)
{
  start (std::string ("request:duplicate,") + kPush);
  RawClient connection (server_->address ());

  EXPECT_EQ (count (connection, { 1 }), 0);
  EXPECT_EQ (count (connection, { 2 }, "c", 1), 0);
  EXPECT_THAT (counts_after_restart (), ElementsAre (0, 2, 1, 0)) << "with a push id once";
}

TEST_F (Faults, AReplyIsDropped)
{
  start (std::string ("reply:drop,count=3,") + kPush);
  RawClient connection (server_->address ());

  for (int seqid = 1; seqid <= 4; seqid++)
    Count ({ 3 }, "c", 1).send (connection, seqid);
  EXPECT_EQ (ErrorCode (connection.Receive ()), 0); /* three replies were dropped */
  EXPECT_THAT (read_counts (connection, 4), ElementsAre (0, 0, 0, 1));
}

TEST_F (Faults, AConnectionIsClosed)
{
  start (std::string ("request:disconnect,count=1,") + kPush);
  {
    RawClient connection (server_->address ());
    EXPECT_EQ (count (connection, { 1 }, "c", 1), -1);
  }
  RawClient connection (server_->address ());
  EXPECT_EQ (count (connection, { 1 }, "c", 1), 0);
  EXPECT_THAT (read_counts (connection, 4), ElementsAre (0, 1, 0, 0));
}

TEST_F (Faults, AReplyIsLostWithItsConnection)
{
  start (std::string ("reply:disconnect,p=0.3,") + kPush);
  int n_lost = 0;

  for (int sequence = 1; sequence <= 20; sequence++)
    for (int code = -1; code != 0; n_lost += code == -1)
      {
        RawClient connection (server_->address ());

        code = count (connection, { 2 }, "c", sequence);
      }
  EXPECT_GT (n_lost, 0);
  EXPECT_THAT (counts_after_restart (), ElementsAre (0, 0, 20, 0));
}

TEST_F (Faults, AReplyIsDelayed)
{
  start ("reply:delay=300,on=lookup");
  RawClient connection (server_->address ());
  auto begin = std::chrono::steady_clock::now ();

  read_counts (connection, 4);
  EXPECT_GE (std::chrono::steady_clock::now () - begin, std::chrono::milliseconds (300));
}

TEST_F (Faults, ADiskIsSlow)
{
  start ("sync:delay=300,on=.log");
  RawClient connection (server_->address ());
  auto begin = std::chrono::steady_clock::now ();

  EXPECT_EQ (count (connection, { 1 }), 0);
  EXPECT_GE (std::chrono::steady_clock::now () - begin, std::chrono::milliseconds (300));
}

/* After the failure the server is read-only. After a restart, an unacknowledged push must be
 * present as a whole or absent. */
TEST_F (Faults, ADiskFails)
{
  start ("write:fail,after=6,on=.log");
  RawClient connection (server_->address ());
  int n_counted = 0;

  while (count (connection, { 1 }, "c", n_counted + 1) == 0)
    n_counted++;
  EXPECT_EQ (count (connection, { 2 }), kUnavailable);
  g_auto (TpsNodeInfo) info = server_->describe ();
  EXPECT_EQ (info.durability.phase, 4);
  EXPECT_GE (read_counts (connection, 4)[1], n_counted) << "lookups are answered";
  EXPECT_THAT (counts_after_restart (), ElementsAre (0, n_counted, 0, 0));
}

/* FORMAT says how far the log must reach, so nothing may be acknowledged after a failure. */
TEST_F (Faults, TheMarkerCannotBeWritten)
{
  embedding_test::Spec spec ("counts", 4, kCountDim);

  folder_ = new_folder ();
  server_.reset (
      new DataServer (folder_, { "--enable-faults", "--fault=write:fail,on=FORMAT,after=1",
                                 "--services=EmbeddingTable" }));
  ASSERT_TRUE (server_->serve ());
  RawClient connection (server_->address ());
  for (int i = 0; i < 2; i++)
    {
      Message reply = create_table (connection, spec.value);
      EXPECT_EQ (ErrorCode (reply), kUnavailable);
      EXPECT_THAT (ErrorText (reply), HasSubstr (folder_ + "/FORMAT"));
    }
  g_auto (TpsNodeInfo) info = server_->describe ();
  EXPECT_EQ (info.durability.phase, 4);
  server_->kill ();
  EXPECT_THAT (server_->process ().ReadErrors (), HasSubstr (" format_failed "));
}

TEST_F (Faults, ThereIsNoRoomForTheMarkerForAWhile)
{
  start ("write:full,on=FORMAT,after=1,count=1");
  RawClient connection (server_->address ());

  EXPECT_EQ (count (connection, { 1 }), 0);
  server_->kill ();
  EXPECT_THAT (server_->process ().ReadErrors (), HasSubstr (" format_failed "));
  EXPECT_THAT (counts_after_restart (), ElementsAre (0, 1, 0, 0));
  server_->kill ();
  std::filesystem::remove (folder_ + "/log/00000000000000000001.log");
  std::filesystem::remove (folder_ + "/log/00000000000000000002.log");
  ASSERT_FALSE (server_->start ());
  EXPECT_EQ (server_->process ().Wait (), 1);
  EXPECT_THAT (server_->process ().ReadErrors (), HasSubstr ("had reached LSN 2"));
}

/* The log has no rows of an imported table, so the call fails if FORMAT cannot say so. */
TEST_F (Faults, AnImportFailsWithTheMarker)
{
  gchar *snapshots[] = { const_cast<gchar *> ("snapshots"), nullptr };
  TpsRestoreArguments arguments = { snapshots, {} };

  start ("write:delay=0,on=nothing");
  RawClient first (server_->address ());
  EXPECT_EQ (ErrorCode (take_snapshot (first)), 0);
  EXPECT_EQ (server_->stop (), 0);
  DataServer server (new_folder (), { "--enable-faults", "--fault=write:full,on=FORMAT,after=1",
                                      "--import-dir=" + folder_, "--services=EmbeddingTable" });
  ASSERT_TRUE (server.serve ());
  Message reply = RawClient (server.address ())
                      .Call ("Durability:restore", fields_of<tps_restore_rpc> (&arguments));
  EXPECT_EQ (ErrorCode (reply), kResourceExhausted);
  EXPECT_THAT (ErrorText (reply), HasSubstr ("/FORMAT"));
}

/* The last write of a server fails when the server exits. The pushes in it have been
 * acknowledged. */
TEST_F (Faults, ADiskFailsAtTheEnd)
{
  const std::string folder = new_folder ();
  DataServer server (folder, { "--enable-faults", "--fault=write:fail,after=2,on=.log",
                               "--services=EmbeddingTable", "--durability=interval:60000" });
  ASSERT_TRUE (server.serve ());
  {
    RawClient connection (server.address ());
    create_counts (connection, 4);
    EXPECT_EQ (count (connection, { 1 }), 0);
  }
  EXPECT_EQ (server.stop (), 1);
  const std::string errors = server.process ().ReadErrors ();
  EXPECT_THAT (errors, HasSubstr ("last_write_failed"));
  EXPECT_THAT (errors, HasSubstr ("thriftps_server: changes up to LSN 2 were answered, but only "
                                  "those up to LSN 1 are known to be on the disk: log: "));
}

/* The disk does not end the last sync before the server must end. The changes in it have been
 * acknowledged, and may be lost. */
TEST_F (Faults, ADiskHangsAtTheEnd)
{
  DataServer server (new_folder (), { "--enable-faults", "--fault=sync:delay=60000,after=2,on=.log",
                                      "--services=EmbeddingTable", "--durability=interval:60000" });
  ASSERT_TRUE (server.serve ());
  {
    RawClient connection (server.address ());
    create_counts (connection, 4);
    EXPECT_EQ (count (connection, { 1 }), 0);
  }
  EXPECT_EQ (server.stop (), 1);
  EXPECT_THAT (server.process ().ReadErrors (),
               HasSubstr ("thriftps_server: shutdown took longer than 4.7 s"));
}

/* Only reads of the file may fail, and only while the file is unreadable. */
TEST_F (Faults, AFileCannotBeRead)
{
  start ("read:fail,count=1,on=.log");
  TpsReadLogArguments arguments = { 1, 1 << 20, 0 };
  const WriteFields fields = fields_of<tps_read_log_rpc> (&arguments);
  RawClient connection (server_->address ());

  EXPECT_EQ (ErrorCode (connection.Call ("Durability:read_log", fields)), kInternal);
  EXPECT_EQ (count (connection, { 1 }), 0);
  EXPECT_EQ (ErrorCode (connection.Call ("Durability:read_log", fields)), 0);
  EXPECT_THAT (counts_after_restart (), ElementsAre (0, 1, 0, 0));
}

TEST_F (Faults, ADiskIsFullForAWhile)
{
  start ("reserve:full,after=1,count=2");
  RawClient connection (server_->address ());
  int n_counted = 0, code;
  bool was_full = false;

  while ((code = count (connection, { 0, 1, 2, 3 }, "c", n_counted + 1)) == 0
         || code == kResourceExhausted)
    {
      n_counted += code == 0;
      was_full = was_full || code == kResourceExhausted;
      if (was_full && code == 0)
        break;
    }
  EXPECT_EQ (code, 0) << "goes on by itself";
  EXPECT_TRUE (was_full);
  EXPECT_THAT (counts_after_restart (), ElementsAre (n_counted, n_counted, n_counted, n_counted));
}

/* A server that starts on a full disk answers lookups, and accepts changes when there is room. */
TEST_F (Faults, ADiskIsFullAtTheStart)
{
  start ("reserve:full,after=1000");
  {
    RawClient connection (server_->address ());
    EXPECT_EQ (count (connection, { 1 }), 0);
  }
  server_->kill ();
  server_.reset (new DataServer (
      folder_, { "--enable-faults", "--fault=reserve:full", "--services=EmbeddingTable" }));
  ASSERT_TRUE (server_->start ()) << server_->process ().ReadErrors ();
  for (int phase = 1; phase != 3;)
    {
      g_auto (TpsNodeInfo) info = server_->describe ();

      phase = info.durability.phase;
      ASSERT_TRUE (phase == 1 || phase == 3) << phase;
    }
  {
    RawClient connection (server_->address ());
    EXPECT_EQ (count (connection, { 2 }, "c", 1), kResourceExhausted);
    EXPECT_THAT (read_counts (connection, 4), ElementsAre (0, 1, 0, 0)) << "lookups are answered";
  }
  EXPECT_EQ (server_->stop (), 0);
  EXPECT_THAT (server_->process ().ReadErrors (), HasSubstr ("durability_changed phase=full"));

  server_.reset (new DataServer (
      folder_, { "--enable-faults", "--fault=reserve:full,count=2", "--services=EmbeddingTable" }));
  ASSERT_TRUE (server_->start ()) << server_->process ().ReadErrors ();
  RawClient connection (server_->address ());
  int code;
  while ((code = count (connection, { 2 }, "c", 1)) == kResourceExhausted || code == kUnavailable)
    std::this_thread::yield ();
  EXPECT_EQ (code, 0) << "there is room again";
  EXPECT_THAT (counts_after_restart (), ElementsAre (0, 1, 1, 0));
}

/* Kills the server before the write, after the write, after the sync, or before the reply. Every
 * acknowledged push must be present afterwards. */
TEST_F (Faults, TheServerIsKilledAtAPoint)
{
  for (const char *point : { "write", "sync", "synced", "reply" })
    {
      int n_counted = 0;

      start (std::string (point)
             + (std::string (point) == "reply" ? ":kill,after=20,on=apply"
                                               : ":kill,after=20,on=.log"));
      {
        RawClient connection (server_->address ());
        while (count (connection, { 2 }, "c", n_counted + 1) == 0)
          n_counted++;
      }
      EXPECT_EQ (server_->process ().Wait (), 128 + 9) << point;
      int there = counts_after_restart ()[2];
      EXPECT_GE (there, n_counted) << point;
      EXPECT_LE (there, n_counted + (std::string (point) == "write" ? 0 : 1)) << point;
      RawClient connection (server_->address ());
      EXPECT_EQ (count (connection, { 2 }, "c", n_counted + 1), 0);
      EXPECT_EQ (read_counts (connection, 4)[2], n_counted + 1) << point;
    }
}

/* The end of the server takes longer than its limit of 4.7 s, because a snapshot hangs. The log is
 * on the disk before that, so nothing is lost, and the exit status is that of a usual end. */
TEST_F (Faults, AStopThatHangsLosesNoAcknowledgedPush)
{
  folder_ = new_folder ();
  const std::string log = folder_ + ".events";

  server_.reset (
      new DataServer (folder_, { "--enable-faults", "--fault=write:delay=60000,on=snapshots",
                                 "--durability=interval:60000", "--log-file=" + log }));
  ASSERT_TRUE (server_->serve ());
  RawClient connection (server_->address ()), other (server_->address ());
  gboolean is_incremental = FALSE;
  std::string events;

  create_counts (connection, 4);
  other.Send ("Durability:snapshot", 1, fields_of<tps_snapshot_rpc> (&is_incremental));
  while (events.find (" fault_injected ") == std::string::npos)
    {
      g_autofree gchar *text = nullptr;

      ASSERT_TRUE (g_file_get_contents (log.c_str (), &text, nullptr, nullptr));
      events = text;
    }
  for (int i = 0; i < 100; i++)
    ASSERT_EQ (count (connection, { 1 }), 0);
  EXPECT_EQ (server_->stop (), 0) << server_->process ().ReadErrors ();
  EXPECT_THAT (counts_after_restart (), ElementsAre (0, 100, 0, 0));
}

} // namespace thriftps_test

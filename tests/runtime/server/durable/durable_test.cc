/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables over a data directory in this process, on a disk that can be full. */

#include "runtime/server/durable/durable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "runtime/base/error.h"
#include "tests/runtime/base/trace_capture.h"
#include "tests/runtime/server/durable/durable_fixture.h"

namespace thriftps {
namespace {

using testing::HasSubstr;

/* Files of the system that have no more room on request. The flag is static, so only one such disk
 * may exist at a time. */
class FullDisk
{
public:
  FullDisk ()
  {
    disk_ = tps_disk_new_posix ();
    preallocate_ = disk_->preallocate;
    disk_->preallocate = preallocate;
    is_full = false;
  }
  ~FullDisk ()
  {
    tps_disk_free (disk_);
  }

  TpsDisk *
  get ()
  {
    return disk_;
  }

  static std::atomic<bool> is_full;

private:
  static gboolean
  preallocate (TpsDiskFile *file, gint64 n_bytes, GError **error)
  {
    if (!is_full)
      return preallocate_ (file, n_bytes, error);
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED, "no room here");
    return FALSE;
  }

  static decltype (TpsDisk::preallocate) preallocate_;
  TpsDisk *disk_;
};

std::atomic<bool> FullDisk::is_full;
decltype (TpsDisk::preallocate) FullDisk::preallocate_;

class Durable : public testing::Test
{
protected:
  Durable ()
  {
    const char *tmp = getenv ("TEST_TMPDIR");

    folder = std::string (tmp != nullptr ? tmp : "/tmp") + "/durable-XXXXXX";
    EXPECT_NE (mkdtemp (&folder[0]), nullptr);
    start ();
  }

  void
  start (TpsDurability durability = TPS_DURABILITY_COMMIT, gsize max_row_bytes_of_call = 0)
  {
    server.reset ();
    server.reset (new Server (disk.get (), folder, durability, {}, max_row_bytes_of_call));
    EXPECT_EQ (server->recover (), "");
  }

  std::string folder;
  FullDisk disk;
  std::unique_ptr<Server> server;
};

} // namespace

TEST_F (Durable, aStopMayBePreparedDuringTheRecovery)
{
  std::promise<int> code;

  EXPECT_EQ (server->create ("emb"), 0);
  server.reset ();
  server.reset (new Server (disk.get (), folder, TPS_DURABILITY_INTERVAL));
  EXPECT_EQ (server->phase (), TPS_DURABLE_RECOVERING);
  tps_durable_prepare_stop (
      server->durable,
      [] (gpointer user_data, gint64, const GError *error) {
        static_cast<std::promise<int> *> (user_data)->set_value (error != nullptr ? error->code
                                                                                  : 0);
      },
      &code);
  EXPECT_EQ (code.get_future ().get (), 0);
  EXPECT_EQ (server->recover (), "");
  EXPECT_EQ (server->row ("emb"), all (0));
  EXPECT_EQ (server->create ("more"), 0);
}

/* The push was within the limit at the time of its call, so the recovery must not apply the new
 * limit. */
TEST_F (Durable, aLowerLimitOfCallsDoesNotStopTheRecovery)
{
  const Ids ids { 3, 3 }, offsets { 0 };
  const Floats gradient (kDim, -1.0f);
  TpsBagGradient bag = {};
  TpsTablePush push = {};
  std::promise<int> code;

  ASSERT_EQ (server->create ("a"), 0);
  bag.query.table = "a";
  bag.query.indices = view (ids);
  bag.query.offsets = view (offsets);
  bag.query.pooling = TPS_POOLING_SUM;
  bag.gradient = view (gradient, kDim);
  push.may_wait = TRUE;
  push.gradients = &bag;
  push.n_gradients = 1;
  tps_table_store_push (
      server->store, &push,
      [] (gpointer data, const GError *error) {
        static_cast<std::promise<int> *> (data)->set_value (error != nullptr ? error->code : 0);
      },
      &code);
  EXPECT_EQ (code.get_future ().get (), 0);
  start (TPS_DURABILITY_COMMIT, 1);
  EXPECT_EQ (server->row ("a"), all (2));
}

/* Otherwise each query of the status would leave the phase FULL, and each large push would enter
 * it. */
TEST_F (Durable, aDiskIsFullWhileShortCommandsStillFit)
{
  Pushes pushes ("emb");
  auto deadline = std::chrono::steady_clock::now () + std::chrono::seconds (60);

  EXPECT_EQ (server->create ("emb"), 0);
  disk.is_full = true;
  while (tps_sequencer_may_admit (server->sequencer, kSegmentBytes, nullptr)
         && std::chrono::steady_clock::now () < deadline)
    if (server->n_written () < kSegmentBytes * 5 / 8)
      {
        pushes.send (*server);
        pushes.wait ();
        server->phase ();
      }
    else
      /* The log needs its next segment. It may take time to find that there is no room for it. */
      std::this_thread::yield ();
  EXPECT_EQ (server->phase (), TPS_DURABLE_FULL);
  EXPECT_THAT (server->reason, HasSubstr ("no room here"));
  pushes.send (*server);
  pushes.wait ();
  EXPECT_EQ (pushes.n_failed, 0);
  EXPECT_EQ (server->phase (), TPS_DURABLE_FULL);
  disk.is_full = false;
  while (server->phase () != TPS_DURABLE_LIVE && std::chrono::steady_clock::now () < deadline)
    std::this_thread::yield ();
  EXPECT_TRUE (tps_sequencer_may_admit (server->sequencer, kSegmentBytes, nullptr));
}

/* The group of the last push has several sectors, and one of them is not on the disk. */
TEST_F (Durable, aTornTailIsLogged)
{
  Pushes pushes ("emb");
  thriftps_test::TraceCapture capture;

  g_autofree gchar *format = nullptr;

  EXPECT_EQ (server->create ("emb"), 0);
  ASSERT_TRUE (g_file_get_contents ((folder + "/FORMAT").c_str (), &format, nullptr, nullptr));
  pushes.send (*server);
  pushes.wait ();
  server.reset ();
  /* A server that ends without a shutdown does not note the end of its log. */
  ASSERT_TRUE (g_file_set_contents ((folder + "/FORMAT").c_str (), format, -1, nullptr));
  std::string path = folder + "/log/00000000000000000001.log";
  g_autofree gchar *contents = nullptr;
  gsize n_bytes;
  ASSERT_TRUE (g_file_get_contents (path.c_str (), &contents, &n_bytes, nullptr));
  std::string log (contents, n_bytes);
  size_t last = log.find_last_not_of ('\0') / 512 * 512;
  log.replace (last, 512, 512, '\0');
  ASSERT_TRUE (g_file_set_contents (path.c_str (), log.data (), (gssize) log.size (), nullptr));
  start ();
  EXPECT_THAT (capture.WaitFor ("log_torn"), testing::EndsWith (" last_lsn=1"));
  EXPECT_EQ (server->row ("emb"), all (0));
}

TEST_F (Durable, aTableOfNoDurabilityIsThereAsItBegan)
{
  Pushes pushes ("none"), later ("emb");

  EXPECT_EQ (server->create ("none", TPS_DURABILITY_NONE), 0);
  pushes.send (*server);
  pushes.send (*server);
  pushes.wait ();
  EXPECT_EQ (server->create ("emb"), 0);
  later.send (*server);
  later.wait ();
  pushes.send (*server);
  pushes.wait ();
  start ();
  EXPECT_EQ (server->row ("none"), all (0));
  EXPECT_EQ (server->row ("emb"), all (1));
  EXPECT_GE (tps_sequencer_get_lsn (server->sequencer), 5);
}

/* A table without its own durability must keep the mode that the server had at the table's
 * creation. */
TEST_F (Durable, aTableKeepsTheDurabilityThatItWasMadeWith)
{
  Pushes pushes ("emb");

  EXPECT_EQ (server->create ("emb"), 0);
  start (TPS_DURABILITY_NONE);
  EXPECT_EQ (server->create ("emb"), 0) << "it is there; nothing else was said";
  EXPECT_EQ (server->create ("emb", TPS_DURABILITY_NONE), TPS_ERROR_ALREADY_EXISTS);
  pushes.send (*server);
  pushes.wait ();
  start (TPS_DURABILITY_NONE);
  EXPECT_EQ (server->row ("emb"), all (1));
}

} // namespace thriftps

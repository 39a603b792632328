/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the C client's calls for followers: the stream of records, the LSNs of rows, and calls that
 * set rows. */

#include <gmock/gmock.h>

#include <unistd.h>

#include <functional>
#include <thread>

#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "tests/runtime/server/log/log_records.h"
#include "tests/integration/durable/countable.h"

namespace thriftps_test {
namespace {

using embedding_test::Floats;
using embedding_test::Ids;
using testing::ElementsAre;

class CFollower : public testing::Test
{
protected:
  CFollower ()
  {
    TpsClientOptions options = {};

    EXPECT_TRUE (server_.serve ());
    options.address = unix_.c_str ();
    client_ = tps_client_new (&options, nullptr);
    RawClient connection (server_.address ());
    create_counts (connection, 4);
    EXPECT_EQ (count (connection, { 1, 3 }, "c", 1), 0);
  }

  ~CFollower () override
  {
    tps_client_free (client_);
    g_clear_error (&error_);
    unlink ((std::string (folder_) + "/socket").c_str ());
    rmdir (folder_);
    g_free (folder_);
  }

  static gint64
  deadline ()
  {
    return tps_clock_now_ns () + 120 * G_GINT64_CONSTANT (1000000000);
  }

  bool
  assign (const Ids &ids, float value, gint64 lsn)
  {
    Floats values (ids.size () * kCountDim, value);
    TpsAssignRowsArguments arguments = {};

    g_clear_error (&error_);
    arguments.table = const_cast<gchar *> ("counts");
    tps_tensor_init_copy (&arguments.indices, embedding_test::view (ids));
    tps_tensor_init_copy (&arguments.values, embedding_test::view (values, kCountDim));
    arguments.lsn = lsn;
    bool ok = tps_remote_assign_rows (client_, &arguments, deadline (), &error_);
    tps_tensor_clear (&arguments.indices);
    tps_tensor_clear (&arguments.values);
    return ok;
  }

  /* Returns the LSNs of rows 0 to 3. */
  std::vector<gint64>
  read_lsns ()
  {
    g_auto (TpsRowsWithLsns) rows = {};
    TpsLookupRowsArguments arguments = {};

    arguments.table = const_cast<gchar *> ("counts");
    tps_tensor_init_copy (&arguments.indices, embedding_test::view (Ids { 0, 1, 2, 3 }));
    EXPECT_TRUE (
        tps_remote_lookup_rows_with_lsns (client_, &arguments, deadline (), &rows, &error_));
    tps_tensor_clear (&arguments.indices);
    const auto *lsns = static_cast<const gint64 *> (tps_tensor_data (&rows.lsns));
    return std::vector<gint64> (lsns, lsns + 4);
  }

  /* The address must survive restarts, so it is a path. */
  gchar *folder_ = g_dir_make_tmp ("thriftps-XXXXXX", nullptr);
  std::string unix_ = std::string ("unix:") + folder_ + "/socket";
  DataServer server_ { new_folder (), { "--listen=" + unix_ } };
  TpsClient *client_;
  GError *error_ = nullptr;
};

} // namespace

TEST_F (CFollower, rowsHaveLsnsAndMayBeSet)
{
  EXPECT_THAT (read_lsns (), ElementsAre (1, 2, 1, 2)); /* created at LSN 1, counted at LSN 2 */
  EXPECT_TRUE (assign ({ 0, 1 }, 7, 1)) << error_->message;
  EXPECT_THAT (read_lsns (), ElementsAre (3, 2, 1, 2)) << "row 1 is newer";
  EXPECT_TRUE (assign ({ 1, 3 }, 9, 2)) << error_->message;
  EXPECT_TRUE (assign ({ 2 }, 5, 0)) << error_->message;
  EXPECT_THAT (read_lsns (), ElementsAre (3, 4, 5, 4));
  RawClient connection (server_.address ());
  EXPECT_THAT (read_counts (connection, 4), ElementsAre (7, 9, 5, 9));
  EXPECT_FALSE (assign ({ 4 }, 1, 0));
  EXPECT_TRUE (g_error_matches (error_, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));

  server_.kill ();
  ASSERT_TRUE (server_.serve ());
  RawClient again (server_.address ());
  EXPECT_THAT (read_counts (again, 4), ElementsAre (7, 9, 5, 9));
}

TEST_F (CFollower, recordsAreCommands)
{
  TpsReadLogArguments arguments = { 1, 1 << 20, 60000 };
  std::vector<int> kinds;

  EXPECT_TRUE (assign ({ 2 }, 5, 0)) << error_->message;
  while (arguments.cursor <= 3)
    {
      g_auto (TpsWireLogBatch) batch = {};
      g_auto (TpsLogRecords) records = {};
      TpsLogRecord record = {};
      gsize n_bytes;

      ASSERT_TRUE (tps_remote_read_log (client_, &arguments, deadline (), &batch, &error_))
          << error_->message;
      gconstpointer data = g_bytes_get_data (batch.records, &n_bytes);
      tps_log_records_init (&records, data, n_bytes, arguments.cursor);
      while (tps_log_records_next (&records, &record, &error_) && record.lsn != 0)
        {
          kinds.push_back (record.command->kind);
          EXPECT_STREQ (record.command->kind == TPS_COMMAND_CREATE_TABLE
                            ? record.command->create->name
                            : record.command->tables[0].name,
                        "counts");
        }
      ASSERT_EQ (error_, nullptr) << error_->message;
      arguments.cursor = batch.next_lsn;
    }
  EXPECT_THAT (kinds, ElementsAre (TPS_COMMAND_CREATE_TABLE, TPS_COMMAND_APPLY_BAGS,
                                   TPS_COMMAND_ASSIGN_ROWS));
  gint64 lsn = 0;
  EXPECT_TRUE (tps_remote_flush (client_, deadline (), &lsn, &error_));
  EXPECT_EQ (lsn, 3);

  arguments.cursor = 9;
  TpsWireLogBatch none = {};
  EXPECT_FALSE (tps_remote_read_log (client_, &arguments, deadline (), &none, &error_));
  EXPECT_TRUE (g_error_matches (error_, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT));
}

/* The server is recovering, and the client waits for it. */
TEST_F (CFollower, callsAreRepeatedAfterARestart)
{
  TpsReadLogArguments arguments = { 1, 1 << 20, 60000 };
  g_auto (TpsWireLogBatch) batch = {};
  gint64 lsn = 0;
  auto restart = [this] (const std::function<void ()> &call) {
    server_.kill ();
    std::thread caller (call);
    EXPECT_TRUE (server_.start ()); /* on this thread, because the server exits with its creator */
    caller.join ();
  };

  restart ([&] { EXPECT_TRUE (assign ({ 0 }, 7, 1)) << error_->message; });
  restart ([&] { EXPECT_THAT (read_lsns (), ElementsAre (3, 2, 1, 2)); });
  restart ([&] { EXPECT_TRUE (tps_remote_flush (client_, deadline (), &lsn, &error_)); });
  EXPECT_EQ (lsn, 3);
  restart ([&] {
    EXPECT_TRUE (tps_remote_read_log (client_, &arguments, deadline (), &batch, &error_))
        << error_->message;
  });
  EXPECT_EQ (batch.next_lsn, 4);
}

} // namespace thriftps_test

// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Compares lookup results that stay in device memory between processes with results that pass
// through the host. The test uses any device called "cuda:0".

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "plugin/client/remote_tables.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_memory.h"
#include "runtime/base/error.h"
#include "runtime/device/backend.h"
#include "runtime/device/device_memory.h"
#include "tests/integration/server/server_process.h"
#include "tests/plugin/server/memory/plugin_server.h"
#include "tests/plugin/server/memory/shared_client.h"
#include "tests/plugin/wire/rpc_functions.h"

namespace thriftps_test {
namespace {

using namespace thriftps;

constexpr gint64 kRows = 3000;
constexpr gint32 kDim = 32; // 512 rows take 64 KiB

gint64
Later ()
{
  return 1000 * g_get_monotonic_time () + 100 * G_GINT64_CONSTANT (1000000000);
}

TpsTensorView
ViewOf (const std::vector<gint64> &values)
{
  TpsTensorView view = {};

  view.shape = { TPS_DTYPE_INT64, 1, { static_cast<gint64> (values.size ()) } };
  view.data = values.data ();
  return view;
}

// The ids of a call, and bags with two ids each.
struct Ids
{
  explicit Ids (size_t n, gint64 seed = 1)
  {
    for (size_t i = 0; i < n; i++)
      {
        indices.push_back ((seed * 7919 + static_cast<gint64> (i) * 31) % kRows);
        if (i % 2 == 0)
          offsets.push_back (static_cast<gint64> (i));
      }
  }

  TpsBagQuery
  Query (const char *table, TpsPooling pooling = TPS_POOLING_SUM) const
  {
    TpsBagQuery query = {};

    query.table = table;
    query.indices = ViewOf (indices);
    query.offsets = ViewOf (offsets);
    query.pooling = pooling;
    return query;
  }

  std::vector<gint64> indices, offsets;
};

struct Result
{
  bool was_there;
  std::string bytes;
};

Result
Take (TpsTensor *tensor)
{
  Result result = { tps_device_memory_of_tensor (tensor) != nullptr, "" };
  g_auto (TpsTensor) here = {};

  if (!result.was_there)
    tps_tensor_move (&here, tensor);
  else
    EXPECT_TRUE (tps_device_memory_download (&here, tensor, nullptr));
  result.bytes.assign (static_cast<const char *> (tps_tensor_data (&here)),
                       tps_shape_n_bytes (&here.shape));
  tps_tensor_clear (tensor);
  return result;
}

class DeviceLookups : public testing::Test
{
protected:
  void
  SetUp () override
  {
    g_autoptr (GError) error = nullptr;

    device_ = tps_device_find ("cuda:0", &error);
    if (device_ == nullptr && g_getenv ("DEVICE_MAY_BE_MISSING") != nullptr)
      GTEST_SKIP () << error->message;
    ASSERT_NE (device_, nullptr) << error->message;
  }

  ~DeviceLookups () override
  {
    g_clear_pointer (&tables_, tps_remote_tables_free);
    g_clear_pointer (&host_tables_, tps_remote_tables_free);
  }

  void
  Start (const std::string &table_device = "cuda:0")
  {
    const gchar *program = g_getenv ("THRIFTPS_SERVER");

    folders_.push_back (std::make_unique<SocketFolder> ());
    servers_.push_back (std::make_unique<ServerProcess> (
        std::vector<std::string> { "--listen=" + folders_.back ()->SocketAddress (),
                                   "--listen=127.0.0.1:0", "--table-device=" + table_device },
        program != nullptr ? program : "plugin/app/thriftps_server"));
    unix_.push_back (servers_.back ()->ReadAddress ());
    tcp_.push_back (servers_.back ()->ReadAddress ());
  }

  static TpsRemoteTables *
  NewTables (const std::vector<std::string> &addresses, TpsDevice *device)
  {
    std::vector<const gchar *> list;
    TpsRemoteTablesOptions options = {};

    for (const std::string &address : addresses)
      list.push_back (address.c_str ());
    options.addresses = list.data ();
    options.n_addresses = static_cast<guint> (list.size ());
    options.lookup_device = device;
    return tps_remote_tables_new (&options, nullptr);
  }

  // Connects both clients, and lets them discover the table.
  void
  Connect (const std::vector<std::string> &addresses, TpsDevice *device)
  {
    g_clear_pointer (&tables_, tps_remote_tables_free);
    g_clear_pointer (&host_tables_, tps_remote_tables_free);
    tables_ = NewTables (addresses, device);
    host_tables_ = NewTables (addresses, nullptr);
  }

  void
  Create (const char *name = "emb", const char *place = nullptr,
          TpsShardKind kind = TPS_SHARD_WHOLE)
  {
    g_auto (TpsTableSpec) spec = {};
    TpsTablePlacement placement = { kind, 0 };

    tps_table_spec_init (&spec, name, kRows, kDim);
    ASSERT_TRUE (place == nullptr || tps_table_place_parse (place, &spec.place));
    for (TpsRemoteTables *tables : { tables_, host_tables_ })
      {
        g_autoptr (GError) error = nullptr;

        ASSERT_TRUE (tps_remote_tables_create_spec (tables, &spec, &placement, Later (), &error))
            << error->message;
      }
  }

  static Result
  Bags (TpsRemoteTables *tables, const TpsBagQuery &query)
  {
    g_autoptr (GError) error = nullptr;
    TpsTensor output = {};

    if (!tps_remote_tables_lookup_bags_sync (tables, &query, 1, Later (), &output, &error))
      return { false, error->message };
    return Take (&output);
  }

  static Result
  Rows (TpsRemoteTables *tables, const char *table, const Ids &ids)
  {
    g_autoptr (GError) error = nullptr;
    TpsTensor rows = {};

    if (!tps_remote_tables_lookup_rows_sync (tables, table, ViewOf (ids.indices), Later (), &rows,
                                             &error))
      return { false, error->message };
    return Take (&rows);
  }

  // Looks up bags and rows, and compares the bits with results in host memory. Returns true if both
  // results were in device memory.
  bool
  Lookup (const Ids &ids, const char *table = "emb", TpsPooling pooling = TPS_POOLING_SUM)
  {
    TpsBagQuery query = ids.Query (table, pooling);
    Result bags = Bags (tables_, query), rows = Rows (tables_, table, ids);

    EXPECT_EQ (bags.bytes.size (), ids.offsets.size () * kDim * sizeof (float)) << bags.bytes;
    EXPECT_TRUE (bags.bytes == Bags (host_tables_, query).bytes);
    EXPECT_TRUE (rows.bytes == Rows (host_tables_, table, ids).bytes);
    return bags.was_there && rows.was_there;
  }

  void
  UntilShared (const Ids &ids, TpsPooling pooling = TPS_POOLING_SUM)
  {
    while (!Lookup (ids, "emb", pooling) && !HasFailure ())
      std::this_thread::yield ();
  }

  TpsDevice *device_ = nullptr;
  std::vector<std::unique_ptr<SocketFolder>> folders_;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  std::vector<std::string> unix_, tcp_;
  TpsRemoteTables *tables_ = nullptr;
  TpsRemoteTables *host_tables_ = nullptr;
};

TEST_F (DeviceLookups, StayThereWithTheSameBits)
{
  Start ();
  Connect (unix_, device_);
  Create ();
  for (size_t n : { 1024, 60000, 1026 })
    {
      UntilShared (Ids (n));
      for (TpsPooling pooling : { TPS_POOLING_SUM, TPS_POOLING_MEAN })
        UntilShared (Ids (n, 2), pooling); // the last segment may become free a little later
    }
  EXPECT_FALSE (Lookup (Ids (1022))) << "bags of less than 64 KiB travel inline";
}

TEST_F (DeviceLookups, ResultsThatAreKeptHaveMoreSegmentsOpened)
{
  std::vector<TpsTensor> kept (4);
  Ids ids (4096);
  TpsBagQuery query = ids.Query ("emb");
  size_t n_there = 0;

  Start ();
  Connect (unix_, device_);
  Create ();
  UntilShared (ids);
  std::string expected = Bags (host_tables_, query).bytes;
  while (n_there < kept.size () && !HasFailure ())
    {
      n_there = 0;
      for (TpsTensor &tensor : kept)
        {
          EXPECT_TRUE (
              tps_remote_tables_lookup_bags_sync (tables_, &query, 1, Later (), &tensor, nullptr));
          n_there += tps_device_memory_of_tensor (&tensor) != nullptr;
        }
      for (TpsTensor &tensor : kept)
        EXPECT_TRUE (Take (&tensor).bytes == expected);
    }
}

TEST_F (DeviceLookups, PushesAreSeenByLaterLookups)
{
  Ids ids (2048);
  std::vector<float> values (ids.offsets.size () * kDim, 0.25f);

  Start ();
  Connect (unix_, device_);
  Create ();
  UntilShared (ids);
  std::string before = Bags (host_tables_, ids.Query ("emb")).bytes;
  for (TpsPooling pooling : { TPS_POOLING_SUM, TPS_POOLING_MAX })
    {
      g_autoptr (GError) error = nullptr;
      TpsBagGradient gradient = { ids.Query ("emb", pooling), {} };

      gradient.gradient.shape = { TPS_DTYPE_FLOAT32,
                                  2,
                                  { static_cast<gint64> (ids.offsets.size ()), kDim } };
      gradient.gradient.data = values.data ();
      EXPECT_TRUE (tps_remote_tables_apply_bags_sync (tables_, &gradient, 1, Later (), &error))
          << error->message;
      UntilShared (ids); // results are inline while a segment is opened, here for the gradient
    }
  EXPECT_FALSE (before == Bags (tables_, ids.Query ("emb")).bytes);
}

TEST_F (DeviceLookups, OverTcpAndForOtherClientsTheyComeByWayOfTheHost)
{
  Start ();
  Connect (tcp_, device_);
  Create ();
  for (int i = 0; i < 6; i++)
    EXPECT_FALSE (Lookup (Ids (4096))) << "over TCP";
  Connect (unix_, nullptr);
  Create ();
  for (int i = 0; i < 6; i++)
    EXPECT_FALSE (Lookup (Ids (4096))) << "without the option";
}

TEST_F (DeviceLookups, TablesInHostMemoryComeByWayOfTheHost)
{
  Start ();
  Connect (unix_, device_);
  Create ();
  Create ("host", "cpu");
  for (int i = 0; i < 6; i++)
    EXPECT_FALSE (Lookup (Ids (4096), "host"));
  UntilShared (Ids (4096));
  EXPECT_FALSE (Lookup (Ids (4096), "host"));
}

// The caller's device differs from the tables' device. If the two devices are peers, the caller
// opens memory of the tables' device.
TEST_F (DeviceLookups, ACallerOnAnotherDeviceGetsTheSameBits)
{
  TpsDevice *other = tps_device_find ("cuda:1", nullptr);

  if (other == nullptr)
    GTEST_SKIP () << "there is one device";
  Start ();
  Connect (unix_, other);
  Create ();
  for (int i = 0; i < 6; i++)
    Lookup (Ids (4096));
}

TEST_F (DeviceLookups, AServerInHostMemorySendsThemByWayOfTheHost)
{
  Start ("cpu");
  Connect (unix_, device_);
  Create ();
  for (int i = 0; i < 6; i++)
    EXPECT_FALSE (Lookup (Ids (4096)));
}

TEST_F (DeviceLookups, ResultsOfSeveralServersAreMergedInHostMemory)
{
  Start ();
  Start ();
  Connect (unix_, device_);
  Create ("emb", nullptr, TPS_SHARD_HASH);
  for (int i = 0; i < 6; i++)
    EXPECT_FALSE (Lookup (Ids (8192)));
}

TEST_F (DeviceLookups, ATableThatIsDroppedMeanwhileCostsItsLookupsOnly)
{
  Ids ids (4096);

  Start ();
  Connect (unix_, device_);
  Create ();
  Create ("other");
  UntilShared (ids);
  std::string expected = Bags (host_tables_, ids.Query ("emb")).bytes;
  std::thread dropper ([&] { tps_remote_tables_drop (host_tables_, "emb", Later (), nullptr); });
  for (bool is_dropped = false; !is_dropped;)
    {
      Result result = Bags (tables_, ids.Query ("emb"));

      is_dropped = result.bytes != expected;
      EXPECT_TRUE (!is_dropped || result.bytes.find ("emb") != std::string::npos) << result.bytes;
    }
  dropper.join ();
  while (!Lookup (ids, "other") && !HasFailure ())
    std::this_thread::yield ();
}

TEST_F (DeviceLookups, ClientsThatGoMeanwhileLeaveTheServerAsItWas)
{
  Ids ids (60000);

  Start ();
  Connect (unix_, device_);
  Create ();
  for (int i = 0; i < 8; i++)
    {
      TpsBagQuery query = ids.Query ("emb");

      UntilShared (ids);
      for (int call = 0; call < 4; call++)
        tps_remote_tables_lookup_bags (
            tables_, &query, 1, Later (), [] (gpointer, TpsTensor *, const GError *) {}, nullptr);
      Connect (unix_, device_);
      Create ();
    }
  UntilShared (ids);
}

// These clients never open the memory.
TEST_F (DeviceLookups, SegmentsAndConnectionsThatCloseMeanwhileLeaveTheServerAsItWas)
{
  constexpr gint64 n_bytes = 8 << 20;
  Ids ids (60000);
  TpsTensorView view = ViewOf (ids.indices);
  g_auto (TpsLookupRowsArguments) arguments = {};

  Start ();
  Connect (unix_, device_);
  Create ();
  arguments.table = g_strdup ("emb");
  tps_tensor_init (&arguments.indices, &view.shape);
  memcpy (tps_tensor_data (&arguments.indices), view.data, tps_shape_n_bytes (&view.shape));
  for (int i = 0; i < 40; i++)
    {
      SharedClient client (unix_[0]);
      TpsSegmentInfo info = {};

      client.raw ().Send ("Memory:open_lookup_segment", 0,
                          [] (TpsWriter *out) { put_i64 (out, 1, n_bytes); });
      ASSERT_TRUE (client.Receive (ReadResultOf<tps_open_lookup_segment_rpc>, &info))
          << client.LastError ();
      EXPECT_TRUE (info.has_handle);
      EXPECT_EQ (info.n_bytes, n_bytes);
      client.raw ().Send ("EmbeddingTable:lookup_rows", 1, [&] (TpsWriter *out) {
        tps_rpc_write_arguments (&tps_lookup_rows_rpc, out, &arguments);
      });
      if (i % 2 == 0)
        client.raw ().Send ("Memory:close_segments", 2, IdsFields ({ info.id }));
      for (int reply = 0; i % 4 == 0 && reply < 2; reply++)
        EXPECT_EQ (ErrorCode (client.raw ().Receive ()), 0);
    }
  UntilShared (ids);
}

TEST_F (DeviceLookups, SegmentsForThemAreRefusedLikeOthers)
{
  auto open = [&] (const std::string &address, gint64 n_bytes) {
    SharedClient client (address);

    return ErrorCode (client.raw ().Call ("Memory:open_lookup_segment",
                                          [=] (TpsWriter *out) { put_i64 (out, 1, n_bytes); }));
  };

  Start ();
  Start ("cpu");
  EXPECT_EQ (open (unix_[0], 1), 0);
  EXPECT_EQ (open (unix_[0], 0), 1);
  EXPECT_EQ (open (unix_[0], gint64 { 1 } << 40), 7);
  EXPECT_EQ (open (tcp_[0], 1), 8);
  EXPECT_EQ (open (unix_[1], 1), 8) << "it has no device";
}

TEST_F (DeviceLookups, AServerThatIsKilledCostsTheCallsAndTheNextOneShares)
{
  Ids ids (4096);

  Start ();
  Connect (unix_, device_);
  Create ();
  UntilShared (ids);
  servers_[0]->Signal (SIGKILL);
  servers_[0]->Wait ();
  unlink (folders_[0]->SocketAddress ().c_str () + strlen ("unix:"));
  Start ();
  Connect ({ unix_[1] }, device_);
  Create ();
  UntilShared (ids);
}

} // namespace
} // namespace thriftps_test

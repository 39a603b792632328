/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests snapshots, copies and imports of a server process over sockets. */

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "plugin/wire/wire_durability.h"
#include "tests/integration/durable/data_server.h"
#include "tests/runtime/server/tables/tables.h"

namespace thriftps_test {
namespace {

using embedding_test::Floats;
using embedding_test::Ids;
using embedding_test::Spec;
using embedding_test::view;

constexpr int64_t kRows = 500;
constexpr int32_t kDim = 4;
constexpr int kPermissionDenied = 11;

Ids
all_rows ()
{
  Ids ids;

  for (int64_t row = 0; row < kRows; row++)
    ids.push_back (row);
  return ids;
}

class Caller
{
public:
  explicit Caller (DataServer &server) : Caller (server.address ())
  {
  }
  explicit Caller (const std::string &address) : connection_ (address)
  {
  }

  int
  create (const Spec &spec)
  {
    return ErrorCode (connection_.Call ("EmbeddingTable:create_table",
                                        fields_of<tps_create_table_rpc> (&spec.value)));
  }

  /* Pushes gradients that subtract 1 from each of the rows. */
  void
  push (const Ids &ids)
  {
    TpsApplyRowGradientsArguments arguments = {};
    Floats values (ids.size () * kDim, 1.0f);

    arguments.table = const_cast<gchar *> ("emb");
    arguments.gradient.kind = TPS_GRADIENT_SPARSE;
    arguments.gradient.rows = kRows;
    arguments.gradient.weight = 1;
    tps_tensor_init_copy (&arguments.gradient.indices, view (ids));
    tps_tensor_init_copy (&arguments.gradient.values, view (values, kDim));
    EXPECT_EQ (ErrorCode (connection_.Call ("EmbeddingTable:apply_row_gradients",
                                            fields_of<tps_apply_row_gradients_rpc> (&arguments))),
               0);
    tps_tensor_clear (&arguments.gradient.indices);
    tps_tensor_clear (&arguments.gradient.values);
  }

  /* Returns the first column of all rows. */
  Floats
  rows ()
  {
    g_auto (TpsTensor) rows = {}, indices = {};
    Ids ids = all_rows ();
    TpsLookupRowsArguments arguments = {};
    Floats column;

    tps_tensor_init_copy (&indices, view (ids));
    arguments.table = const_cast<gchar *> ("emb");
    arguments.indices = indices;
    EXPECT_TRUE (read_result<tps_lookup_rows_rpc> (
        connection_.Call ("EmbeddingTable:lookup_rows",
                          fields_of<tps_lookup_rows_rpc> (&arguments)),
        &rows));
    auto data = static_cast<const float *> (tps_tensor_data (&rows));
    for (int64_t row = 0; data != nullptr && row < kRows; row++)
      column.push_back (data[row * kDim]);
    return column;
  }

  /* Takes a snapshot. Returns the number of increments, or -1 if the snapshot fails. */
  int
  snapshot (gboolean is_incremental)
  {
    return read (
        connection_.Call ("Durability:snapshot", fields_of<tps_snapshot_rpc> (&is_incremental)));
  }

  int
  restore (const char *path)
  {
    gchar *snapshots[] = { const_cast<gchar *> (path), nullptr };
    TpsRestoreArguments arguments = { snapshots, {} };
    Message reply = connection_.Call ("Durability:restore",
                                      fields_of<tps_restore_rpc> (&arguments));

    code = ErrorCode (reply);
    return read (reply);
  }

  int
  import (const Spec &spec, const char *path)
  {
    gchar *files[] = { const_cast<gchar *> (path), nullptr };
    TpsImportTableArguments arguments = { spec.value, files, const_cast<gchar *> ("") };
    Message reply = connection_.Call ("Durability:import_table",
                                      fields_of<tps_import_table_rpc> (&arguments));

    code = ErrorCode (reply);
    return read (reply);
  }

  int code = 0;

private:
  static int
  read (const Message &reply)
  {
    g_auto (TpsWireSnapshotInfo) info = {};

    return read_result<tps_snapshot_rpc> (reply, &info) ? info.n_increments : -1;
  }

  RawClient connection_;
};

Spec
emb ()
{
  return Spec ("emb", kRows, kDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
}

} // namespace

TEST (Snapshots, areTakenCopiedAndRestored)
{
  const std::string folder = new_folder ();
  DataServer server (folder + "/first");
  Floats expected (kRows, -1);

  expected[7] = -2;
  ASSERT_TRUE (server.start ());
  server.wait_until_live ();
  {
    Caller caller (server);

    ASSERT_EQ (caller.create (emb ()), 0);
    caller.push (all_rows ());
    EXPECT_EQ (caller.snapshot (FALSE), 0);
    caller.push ({ 7 });
    EXPECT_EQ (caller.snapshot (TRUE), 1);
    EXPECT_EQ (caller.restore ("x"), -1);
    EXPECT_EQ (caller.code, kPermissionDenied);
  }
  server.kill ();

  DataServer copy (folder + "/second", { "--restore-from=" + folder + "/first" });
  ASSERT_TRUE (copy.start ());
  copy.wait_until_live ();
  EXPECT_EQ (Caller (copy).rows (), expected);
  EXPECT_EQ (copy.stop (), 0);

  ServerProcess without ({ "--listen=127.0.0.1:0", "--restore-from=" + folder + "/first" });
  EXPECT_EQ (Caller (without.ReadAddress ()).rows (), expected) << "there is no data directory";

  DataServer third (folder + "/third", { "--import-dir=" + folder });
  ASSERT_TRUE (third.start ());
  third.wait_until_live ();
  {
    Caller caller (third);

    EXPECT_EQ (caller.restore ("first"), 0);
    EXPECT_EQ (caller.rows (), expected);
    caller.push ({ 0 });
  }
  third.kill ();
  ASSERT_TRUE (third.start ());
  third.wait_until_live ();
  expected[0] = -2;
  EXPECT_EQ (Caller (third).rows (), expected);
}

TEST (Snapshots, areWrittenWhenTheLogGrows)
{
  const std::string folder = new_folder ();
  DataServer server (folder, { "--snapshot-log-mib=1", "--keep-snapshots=1" });
  auto deadline = std::chrono::steady_clock::now () + std::chrono::seconds (60);
  std::string manifest;

  ASSERT_TRUE (server.start ());
  server.wait_until_live ();
  Caller caller (server);
  ASSERT_EQ (caller.create (emb ()), 0);
  for (int i = 0; i < 100; i++) /* of 12 KB each */
    caller.push (all_rows ());
  do
    {
      g_autoptr (GDir) dir = g_dir_open ((folder + "/snapshots").c_str (), 0, nullptr);
      const gchar *name = dir != nullptr ? g_dir_read_name (dir) : nullptr;

      manifest = name != nullptr ? folder + "/snapshots/" + name + "/manifest.json" : "";
      std::this_thread::yield ();
    }
  while (!std::ifstream (manifest).good () && std::chrono::steady_clock::now () < deadline);
  EXPECT_TRUE (std::ifstream (manifest).good ());
}

TEST (Imports, areOfArraysOfNumPyToo)
{
  const std::string folder = new_folder ();
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (500, 4), }\n";
  std::ofstream file (folder + "/rows.npy", std::ios::binary);
  DataServer server (folder + "/data", { "--import-dir=" + folder });

  file << std::string ("\x93NUMPY\x01\x00", 8) << static_cast<char> (header.size ()) << '\0'
       << header;
  for (int i = 0; i < kRows * kDim; i++)
    {
      float value = static_cast<float> (i / kDim);

      file.write (reinterpret_cast<const char *> (&value), sizeof value);
    }
  file.close ();
  ASSERT_TRUE (server.start ());
  server.wait_until_live ();
  Caller caller (server);
  EXPECT_EQ (caller.import (emb (), "../rows.npy"), -1);
  EXPECT_EQ (caller.import (emb (), "rows.npy"), 0);
  Floats rows = caller.rows ();
  for (int64_t row = 0; row < kRows; row++)
    ASSERT_EQ (rows[static_cast<size_t> (row)], static_cast<float> (row));
}

} // namespace thriftps_test

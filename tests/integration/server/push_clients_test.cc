// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// A tenant that uses up its share of the memory of push ids: other tenants are not refused, neither
// before nor after a restart, and an administrator can clear the share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <memory>
#include <string>

#include "plugin/client/stubs.h"
#include "plugin/wire/wire_embedding_table.h"
#include "plugin/wire/wire_node.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "tests/integration/server/server_process.h"

namespace thriftps_test {
namespace {

using testing::HasSubstr;

gint64
Deadline ()
{
  return tps_clock_now_ns () + G_GINT64_CONSTANT (120) * 1000000000;
}

class Client
{
public:
  Client (const std::string &address, const std::string &token)
  {
    TpsClientOptions options = {};

    options.address = address.c_str ();
    options.token = token.c_str ();
    client_ = tps_client_new (&options, nullptr);
  }
  ~Client ()
  {
    tps_client_free (client_);
  }
  Client (const Client &) = delete;
  Client &operator= (const Client &) = delete;

  // Pushes one row of the table "emb". Returns the error; "" = none.
  std::string
  Push (const std::string &name, gint64 sequence)
  {
    const gint64 row = 0;
    const float gradient = 1;
    TpsTensorView index = { { TPS_DTYPE_INT64, 1, { 1 } }, &row };
    TpsTensorView value = { { TPS_DTYPE_FLOAT32, 2, { 1, 1 } }, &gradient };
    TpsApplyRowGradientsArguments arguments = {};
    g_autoptr (GError) error = nullptr;

    arguments.table = const_cast<gchar *> ("emb");
    arguments.gradient.kind = TPS_GRADIENT_SPARSE;
    tps_tensor_init_copy (&arguments.gradient.indices, index);
    tps_tensor_init_copy (&arguments.gradient.values, value);
    arguments.gradient.rows = 1;
    arguments.push = { const_cast<gchar *> (name.c_str ()), sequence };
    do // the server may still be recovering
      {
        g_clear_error (&error);
        tps_remote_apply_row_gradients (client_, &arguments, Deadline (), &error);
      }
    while (g_error_matches (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE));
    tps_tensor_clear (&arguments.gradient.indices);
    tps_tensor_clear (&arguments.gradient.values);
    return error != nullptr ? error->message : "";
  }

  gint64
  Forget (const char *tenant, gint64 idle_ms)
  {
    g_autoptr (GError) error = nullptr;
    gint64 n = -1;

    EXPECT_TRUE (tps_remote_forget_push_clients (client_, tenant, idle_ms, Deadline (), &n, &error))
        << error->message;
    return n;
  }

  TpsClient *
  get ()
  {
    return client_;
  }

private:
  TpsClient *client_;
};

class PushClients : public testing::Test
{
protected:
  PushClients ()
  {
    folder_ = TemporaryFolder ();
    std::ofstream (folder_ + "/rules.json")
        << R"({"rules": [{"principals": ["token:*"], "rights": ["read", "push", "admin"],)"
        << R"( "tables": ["*"]}]})";
    for (const char *tenant : { "ads", "news" })
      {
        ServerProcess maker ({ std::string ("--make-token=") + tenant + "," + tenant });

        tokens_[tenant] = maker.ReadLine ();
        std::ofstream (folder_ + "/tokens", std::ios::app) << maker.ReadLine () << "\n";
      }
    Start ();
  }

  // Kills the server, if one runs, and starts the next one.
  void
  Start ()
  {
    clients_.clear ();
    server_.reset ();
    server_.reset (new ServerProcess (
        { "--listen=127.0.0.1:0", "--access-file=" + folder_ + "/rules.json",
          "--token-file=" + folder_ + "/tokens", "--data-dir=" + folder_ + "/data",
          "--durability=interval:1000", "--max-memory-mib=64", "--push-clients=100",
          "--log-file=" + folder_ + "/log" }));
    std::string address = server_->ReadAddress ();
    for (const auto &[tenant, token] : tokens_)
      clients_[tenant].reset (new Client (address, token));
  }

  std::string
  Push (const char *tenant, const std::string &name, gint64 sequence = 1)
  {
    return clients_[tenant]->Push (name, sequence);
  }

  std::string folder_;
  std::map<std::string, std::string> tokens_;
  std::map<std::string, std::unique_ptr<Client>> clients_;
  std::unique_ptr<ServerProcess> server_;
};

TEST_F (PushClients, ATenantExhaustsOnlyItsOwnShare)
{
  g_auto (TpsTableSpec) spec = {};
  g_auto (TpsWireSnapshotInfo) info = {};
  std::string said;
  gint64 lsn;
  int n = 0;

  tps_table_spec_init (&spec, "emb", 1, 1);
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  while (said = Push ("news", "early"), said.find ("emb") != std::string::npos)
    tps_remote_create_table (clients_["news"]->get (), &spec, Deadline (), nullptr);
  ASSERT_EQ (said, "");

  while (said == "" && n < 400000)
    said = Push ("ads", "process:" + std::to_string (n++));
  EXPECT_THAT (said, HasSubstr ("no room to remember its pushes: tenant ads already used"));
  EXPECT_EQ (Push ("news", "new"), "") << "after " << n << " names of another tenant";
  EXPECT_EQ (Push ("news", "early", 2), "");
  EXPECT_EQ (Push ("ads", "process:0", 2), "") << "a known client without a window";

  for (bool is_snapshot : { false, true })
    {
      if (is_snapshot)
        EXPECT_TRUE (
            tps_remote_snapshot (clients_["news"]->get (), FALSE, Deadline (), &info, nullptr));
      else
        EXPECT_TRUE (tps_remote_flush (clients_["news"]->get (), Deadline (), &lsn, nullptr));
      Start ();
      std::string name = is_snapshot ? "after-a-snapshot" : "after-a-log";
      EXPECT_THAT (Push ("ads", name), HasSubstr ("tenant ads already used"));
      EXPECT_EQ (Push ("ads", "process:0", is_snapshot ? 4 : 3), "");
      EXPECT_EQ (Push ("news", name), "");
    }

  EXPECT_EQ (clients_["news"]->Forget ("ads", 3600000), 0);
  EXPECT_EQ (clients_["news"]->Forget ("ads", 0), n - 1);
  EXPECT_EQ (Push ("ads", "at-last"), "");

  tps_wire_snapshot_info_clear (&info);
  EXPECT_TRUE (tps_remote_snapshot (clients_["news"]->get (), FALSE, Deadline (), &info, nullptr));
  Start ();
  EXPECT_EQ (Push ("ads", "after-a-restart"), "");
}

} // namespace
} // namespace thriftps_test

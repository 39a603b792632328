/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The services must return the same bits for calls in frames and in chunks. */

#include <gtest/gtest.h>

#include "plugin/client/stubs.h"
#include "plugin/plugin.h"
#include "tests/integration/shared_memory/sharing_client.h"

namespace thriftps {
namespace {

using tps_test::later;
using tps_test::make_values;
using tps_test::SharingClient;
using tps_test::Values;

/* A server with all services. Its clients send all messages either in chunks or in frames. */
class Server
{
public:
  explicit Server (bool in_chunks) : ask_bytes_ (in_chunks ? 1 : 0)
  {
    TpsPluginOptions plugin_options = {};
    TpsServerOptions options = {};

    plugin_options.n_workers = 2;
    plugin_options.n_trainers = 1;
    options.n_io_threads = 2;
    options.max_frame_bytes = in_chunks ? 1024 : 0;
    plugin_ = tps_plugin_new (&plugin_options, nullptr);
    server_ = tps_plugin_new_server (plugin_, &options);
    EXPECT_TRUE (tps_server_listen (server_, "127.0.0.1:0", nullptr));
    EXPECT_TRUE (tps_server_start (server_, nullptr));
  }
  ~Server ()
  {
    tps_server_stop (server_);
    g_object_unref (server_);
    tps_plugin_free (plugin_);
  }

  TpsClientOptions
  client_options ()
  {
    TpsClientOptions options = {};

    options.address = tps_server_get_addresses (server_)[0];
    options.ask_bytes = ask_bytes_;
    return options;
  }

private:
  gsize ask_bytes_;
  TpsPlugin *plugin_;
  TpsServer *server_;
};

/* Returns all results that a client of the services sees. */
std::string
train (bool in_chunks)
{
  Server server (in_chunks);
  SharingClient client (server.client_options ());
  std::vector<gint64> ids = { 3, 1, 4, 1, 5, 9, 2, 6, 5, 0 };
  std::string seen;

  for (gsize n_elems : { 1, 200, 256, 257, 5000, 100000 })
    seen += client.average (0, static_cast<gint64> (n_elems), make_values (n_elems, 7)) + "|";
  EXPECT_EQ (client.error (), "");
  EXPECT_TRUE (client.init_model ({ make_values (50000, 1), make_values (3, 2) }))
      << client.error ();
  for (gint64 push = 1; push <= 3; push++)
    seen += client.update (0, push, { make_values (50000, 3), make_values (3, 4) }) + "|";
  EXPECT_TRUE (client.create_table ("table", 10, 600)) << client.error ();
  seen += client.look_up ("table", ids) + "|";
  EXPECT_TRUE (client.apply ("table", ids, 600, make_values (ids.size () * 600, 5)))
      << client.error ();
  seen += client.look_up ("table", ids);
  EXPECT_EQ (client.error (), "");
  return seen;
}

TEST (ChunkedServices, giveTheSameBits)
{
  std::string in_frames = train (false);

  EXPECT_GT (in_frames.size (), 1000000u);
  EXPECT_TRUE (train (true) == in_frames);
}

TEST (ChunkedServices, keepAValueAndForgetIt)
{
  Server server (true);
  TpsClientOptions options = server.client_options ();
  g_autoptr (TpsClient) client = tps_client_new (&options, nullptr);
  std::string bytes (40000, 'v');
  g_autoptr (GBytes) value = g_bytes_new (bytes.data (), bytes.size ());
  g_autoptr (GError) error = nullptr;

  ASSERT_TRUE (tps_remote_put (client, "key", value, later (), &error)) << error->message;
  g_autoptr (GBytes) got = tps_remote_get (client, "key", 0, later (), &error);
  ASSERT_NE (got, nullptr) << error->message;
  EXPECT_TRUE (g_bytes_equal (got, value));
}

/* A call in chunks must return the same error as a call in a frame. */
TEST (ChunkedServices, refuseWithTheSameError)
{
  std::string said[2];

  for (bool in_chunks : { false, true })
    {
      Server server (in_chunks);
      SharingClient client (server.client_options ());

      EXPECT_FALSE (client.apply ("no-such-table", { 1 }, 2000, make_values (2000, 1)));
      said[in_chunks ? 1 : 0] = client.error ();
    }
  EXPECT_NE (said[0], "");
  EXPECT_EQ (said[0], said[1]);
}

} // namespace
} // namespace thriftps

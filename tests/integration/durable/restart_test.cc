/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A server is killed or stopped, and then restarted, while the C client pushes to its table. */

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "plugin/client/remote_tables.h"
#include "runtime/base/sync.h"
#include "tests/integration/durable/data_server.h"
#include "tests/runtime/server/tables/tables.h"

namespace thriftps_test {

using embedding_test::Floats;
using embedding_test::Ids;
using embedding_test::Spec;
using embedding_test::view;

constexpr int64_t kRows = 200;
constexpr int32_t kDim = 8;

/* To the client, a restart of the server must look like a slow call. */
TEST (Restart, theClientGoesOn)
{
  /* The socket's name must be short, but the path of the test's folder is long. */
  char place[] = "/tmp/thriftps-restart-XXXXXX";
  ASSERT_NE (mkdtemp (place), nullptr);
  const std::string folder = new_folder (), address = std::string ("unix:") + place + "/sock";
  const char *addresses[] = { address.c_str () };
  const gint64 deadline_ns = tps_clock_now_ns () + 120 * G_GINT64_CONSTANT (1000000000);
  DataServer server (folder, { "--listen=" + address });
  TpsRemoteTablesOptions options = {};
  TpsTablePlacement placement = {};
  Spec spec = Spec ("emb", kRows, kDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
  Ids ids = { 3 };
  Floats values (kDim, -1);
  g_autoptr (GError) error = nullptr;
  std::atomic<int> n_pushes { 0 };
  std::atomic<bool> is_over { false };

  options.addresses = addresses;
  options.n_addresses = 1;
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, nullptr);
  placement.kind = TPS_SHARD_WHOLE;
  ASSERT_TRUE (server.start ());
  ASSERT_TRUE (tps_remote_tables_create_spec (tables, &spec.value, &placement, deadline_ns, &error))
      << error->message;
  std::thread pusher ([&] {
    while (!is_over)
      {
        g_autoptr (GError) why = nullptr;

        if (tps_remote_tables_apply_rows_sync (tables, "emb", view (ids), view (values, kDim),
                                               deadline_ns, &why))
          n_pushes++;
        else
          {
            ADD_FAILURE () << why->message;
            is_over = true;
          }
      }
  });
  for (int i = 0; i < 4; i++)
    {
      for (int n = n_pushes; n_pushes < n + 10 && !is_over;)
        std::this_thread::yield ();
      if (i % 2 == 0)
        server.kill ();
      else
        server.stop ();
      ASSERT_TRUE (server.start ()) << server.process ().ReadErrors ();
    }
  is_over = true;
  pusher.join ();
  g_auto (TpsTensor) rows = {};
  ASSERT_TRUE (
      tps_remote_tables_lookup_rows_sync (tables, "emb", view (ids), deadline_ns, &rows, &error));
  EXPECT_EQ (static_cast<float *> (tps_tensor_data (&rows))[0], static_cast<float> (n_pushes));
  unlink ((std::string (place) + "/sock").c_str ());
  rmdir (place);
}

} // namespace thriftps_test

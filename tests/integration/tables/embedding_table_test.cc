// Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0

// Tests the embedding tables of the standalone server over its sockets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <thread>

#include "tests/integration/durable/countable.h"
#include "tests/integration/server/server_process.h"

namespace thriftps_test {
namespace {

class EmbeddingTables : public testing::Test
{
protected:
  EmbeddingTables ()
  {
    RawClient client (address);
    create_counts (client, 4);
  }

  ServerProcess server { { "--listen=127.0.0.1:0", "--max-table-mib=16", "--push-window=8",
                           "--push-clients=2" } };
  std::string address = server.ReadAddress ();
};

TEST_F (EmbeddingTables, RememberPushesUpToTheLimitsOfTheFlags)
{
  RawClient client (address);
  auto push = [&] (const char *name, gint64 sequence) {
    return count (client, { 1 }, name, sequence);
  };
  EXPECT_EQ (push ("a", 100), 0);
  EXPECT_EQ (push ("a", 93), 0);
  EXPECT_EQ (push ("a", 92), 4); // older than the window of 8
  EXPECT_EQ (push ("a", 100), 0);
  EXPECT_EQ (read_counts (client, 2), (std::vector<int> { 0, 2 }));
  EXPECT_EQ (push ("b", 1), 0);
  EXPECT_EQ (push ("c", 1), 0);   // the window of client a shrinks to its floor
  EXPECT_EQ (push ("a", 100), 4); // no push is applied twice
  EXPECT_EQ (push ("a", 101), 0);
  EXPECT_EQ (read_counts (client, 2), (std::vector<int> { 0, 5 }));
}

TEST_F (EmbeddingTables, EndOnSigtermWithEveryCallAnsweredOrClosed)
{
  std::vector<std::thread> threads;
  std::atomic<int> n_ready { 0 }, n_odd { 0 };
  for (int t = 0; t < 4; t++)
    threads.emplace_back ([&, t] {
      RawClient client (address);
      std::string name = "client" + std::to_string (t);
      embedding_test::Ids rows (t % 2 == 0 ? 4 : 20000, 3);
      for (gint64 sequence = 0;; sequence++)
        {
          int code = count (client, rows, name, sequence);
          if (code == -1)
            return;
          // 7: the flags leave room for the push ids of two clients
          n_odd += code != 0 && code != 8 && code != 7;
          n_ready += sequence == 0;
        }
    });
  while (n_ready < 4)
    std::this_thread::yield ();
  server.Signal (SIGTERM);
  EXPECT_EQ (server.Wait (), 0);
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (n_odd, 0);
  EXPECT_THAT (server.ReadErrors (), testing::HasSubstr (" table_created table=counts rows="));
}

} // namespace
} // namespace thriftps_test

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* With --durability=interval:MS, a killed server may lose only the latest acknowledged pushes.
 * Every push counts in its own row, so the table shows which pushes survived. No mode may lose an
 * acknowledged creation or deletion of a table. */

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "tests/integration/durable/countable.h"

namespace thriftps_test {
namespace {

constexpr size_t kClients = 3;
constexpr int kPushes = 60; /* maximum for each client and round */
constexpr int64_t kRows = static_cast<int64_t> (kClients) * kPushes;

struct Sent
{
  int64_t row;
  size_t began;            /* number of acknowledged pushes when it started */
  size_t ended = SIZE_MAX; /* the same at its acknowledgement; SIZE_MAX = none */
};

class Interval : public testing::Test
{
protected:
  static std::string
  name_of (int64_t client)
  {
    return "client" + std::to_string (client);
  }

  void
  push_until_killed (RawClient &connection, size_t client)
  {
    for (int i = 0; i < kPushes; i++)
      {
        Sent push = { static_cast<int64_t> (client) * kPushes + i, 0 };
        {
          std::lock_guard<std::mutex> guard (lock_);
          push.began = n_acknowledged_;
        }
        int code = count (connection, { push.row }, name_of (static_cast<int64_t> (client)),
                          first_sequence_ + i);
        std::lock_guard<std::mutex> guard (lock_);
        if (code == 0)
          push.ended = n_acknowledged_++;
        sent_.push_back (push);
        changed_.notify_all ();
        if (code != 0)
          return;
      }
  }

  void
  wait_for_acknowledged (size_t n)
  {
    std::unique_lock<std::mutex> guard (lock_);

    changed_.wait (guard, [&] {
      return n_acknowledged_ >= n || sent_.size () > n_acknowledged_; /* a push has failed */
    });
  }

  /* If a push is present, every push that was acknowledged before its start must also be present.
   * Returns the number of lost acknowledged pushes. */
  int
  check_lost (const std::vector<int> &before, const std::vector<int> &after)
  {
    size_t first_lost = SIZE_MAX;
    int n_lost = 0;

    for (const Sent &push : sent_)
      if (after[push.row] == before[push.row] && push.ended != SIZE_MAX)
        {
          n_lost++;
          first_lost = std::min (first_lost, push.ended);
        }
    for (const Sent &push : sent_)
      {
        int added = after[push.row] - before[push.row];

        EXPECT_TRUE (added == 0 || added == 1)
            << added << ": a flushed push is present exactly once";
        if (added == 1)
          {
            EXPECT_LE (push.began, first_lost) << "a push is lost from the middle";
          }
      }
    return n_lost;
  }

  std::mutex lock_;
  std::condition_variable changed_;
  size_t n_acknowledged_ = 0;
  std::vector<Sent> sent_;
  int64_t first_sequence_ = 1;
};

} // namespace

TEST_F (Interval, LosesOnlyTheEnd)
{
  const std::string folder = new_folder ();
  std::vector<int> expected (kRows);
  int n_lost = 0;

  for (const char *mode : { "interval:60000", "interval:1", "interval:20", "interval:60000" })
    {
      DataServer server (folder, { std::string ("--durability=") + mode });
      std::vector<std::unique_ptr<RawClient>> connections;
      std::vector<std::thread> threads;

      ASSERT_TRUE (server.serve ());
      {
        RawClient connection (server.address ());

        create_counts (connection, kRows);
        ASSERT_EQ (read_counts (connection, kRows), expected);
        for (int64_t row = 0; row < 9; row++)
          {
            EXPECT_EQ (count (connection, { row }), 0);
            expected[static_cast<size_t> (row)]++;
          }
        ASSERT_EQ (ErrorCode (connection.Call ("Durability:flush")), 0);
        ASSERT_EQ (read_counts (connection, kRows), expected);
      }
      sent_.clear ();
      n_acknowledged_ = 0;
      /* All clients are created before the first push, because the server may be killed before the
       * last thread has started. */
      for (size_t client = 0; client < kClients; client++)
        connections.push_back (std::make_unique<RawClient> (server.address ()));
      for (size_t client = 0; client < kClients; client++)
        threads.emplace_back ([&, client] { push_until_killed (*connections[client], client); });
      wait_for_acknowledged (40);
      server.kill ();
      for (std::thread &thread : threads)
        thread.join ();

      ASSERT_TRUE (server.serve ());
      RawClient connection (server.address ());
      n_lost += check_lost (expected, read_counts (connection, kRows));
      /* A repeated push is applied only if it was lost. */
      for (const Sent &push : sent_)
        {
          EXPECT_EQ (count (connection, { push.row }, name_of (push.row / kPushes),
                            first_sequence_ + push.row % kPushes),
                     0);
          expected[static_cast<size_t> (push.row)]++;
        }
      EXPECT_EQ (read_counts (connection, kRows), expected);
      ASSERT_FALSE (HasFailure ()) << mode;
      first_sequence_ += kPushes;
      EXPECT_EQ (server.stop (), 0);
    }
  EXPECT_GT (n_lost, 0) << "pushes of the last minute were never promised";
}

/* The modes of the server and of the table; 0 = the table has no mode. */
class Catalogue : public testing::TestWithParam<std::tuple<const char *, int>>
{
protected:
  /* Sends SIGKILL and restarts the server. Returns the number of its tables. */
  guint
  count_tables_after_crash ()
  {
    g_auto (TpsTableSpecs) tables = {};

    server_.kill ();
    EXPECT_TRUE (server_.serve ());
    EXPECT_TRUE (read_result<tps_list_tables_rpc> (
        RawClient (server_.address ()).Call ("EmbeddingTable:list_tables"), &tables));
    return tables.n_specs;
  }

  DataServer server_ { new_folder (),
                       { std::string ("--durability=") + std::get<0> (GetParam ()) } };
};

TEST_P (Catalogue, SurvivesACrash)
{
  embedding_test::Spec spec ("t", 8, 4);

  spec.value.durability = static_cast<TpsDurability> (std::get<1> (GetParam ()));
  ASSERT_TRUE (server_.serve ());
  RawClient creator (server_.address ());
  ASSERT_EQ (ErrorCode (create_table (creator, spec.value)), 0);
  EXPECT_EQ (count_tables_after_crash (), 1u) << "an acknowledged creation";
  RawClient dropper (server_.address ());
  ASSERT_EQ (ErrorCode (drop_table (dropper, spec.value.name)), 0);
  EXPECT_EQ (count_tables_after_crash (), 0u) << "an acknowledged deletion";
}

INSTANTIATE_TEST_SUITE_P (
    Modes, Catalogue,
    testing::Combine (testing::Values ("none", "interval", "interval:60000", "commit"),
                      testing::Values (0, TPS_DURABILITY_NONE, TPS_DURABILITY_INTERVAL,
                                       TPS_DURABILITY_COMMIT)));

} // namespace thriftps_test

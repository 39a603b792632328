/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server is killed while clients push, and then restarted. Every acknowledged push must be
 * present, no push may be applied twice, and no push may be applied in part. The environment
 * variable ROUNDS sets the number of rounds (default 5), and SEED chooses another random
 * sequence. */

#include <gtest/gtest.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "plugin/client/remote_tables.h"
#include "plugin/wire/wire_durability.h"
#include "runtime/base/sync.h"
#include "runtime/server/tables/table_store.h"
#include "tests/integration/durable/data_server.h"
#include "tests/runtime/server/tables/tables.h"

namespace thriftps_test {
namespace {

using embedding_test::Floats;
using embedding_test::Ids;
using embedding_test::Query;
using embedding_test::Spec;
using embedding_test::view;

constexpr int64_t kRows = 200;
constexpr int32_t kDim = 8;
constexpr size_t kClients = 6;
constexpr size_t kSentAgain = 64;

unsigned
from_environment (const char *name, unsigned otherwise)
{
  const char *text = getenv (name);

  return text != nullptr ? static_cast<unsigned> (atoi (text)) : otherwise;
}

Ids
all_rows ()
{
  Ids ids;

  for (int64_t row = 0; row < kRows; row++)
    ids.push_back (row);
  return ids;
}

/* A push of bag gradients into several tables. */
struct Push
{
  std::string client;
  int64_t sequence = 0;
  bool is_kept = true; /* the server guarantees the push's result */
  std::vector<Query> queries;
  std::vector<Floats> gradients;

  std::vector<TpsBagGradient>
  views () const
  {
    std::vector<TpsBagGradient> list;

    for (size_t i = 0; i < queries.size (); i++)
      list.push_back ({ queries[i].get (), view (gradients[i], kDim) });
    return list;
  }

  /* Sends the push. Returns the code of the error; -1 = the connection was lost. */
  int
  send (RawClient &connection) const
  {
    std::vector<TpsBagGradient> list = views ();
    TpsApplyBagGradientsArguments arguments = { static_cast<guint> (list.size ()),
                                                list.data (),
                                                { const_cast<gchar *> (client.c_str ()), sequence },
                                                nullptr };
    Message reply = connection.Call ("EmbeddingTable:apply_bag_gradients",
                                     fields_of<tps_apply_bag_gradients_rpc> (&arguments));

    return reply == nullptr ? -1 : ErrorCode (reply);
  }
};

/* The pushes of a client. It pushes small integers, whose sum is exact in any order, into `shared`
 * and into its own table, and 1 into its row of `marks`. Alternatively it pushes into `none`, a
 * table without guarantees. */
class Client
{
public:
  Client (size_t number, unsigned seed)
      : row (static_cast<int64_t> (number)), random_ (seed * 100 + number)
  {
    name = "client" + std::to_string (number);
    own = "own" + std::to_string (number);
  }

  Push
  next ()
  {
    Push push;

    size_t max_bags = random_ () % 20 == 0 ? 4000 : 12; /* some pushes need a worker */

    push.client = name;
    push.sequence = ++sequence_;
    push.is_kept = random_ () % 5 != 0;
    if (!push.is_kept || random_ () % 3 == 0)
      add (&push, "none", 4, TPS_POOLING_SUM);
    if (!push.is_kept)
      return push;
    add (&push, "shared", max_bags, TPS_POOLING_SUM);
    add (&push, own, max_bags, random_ () % 4 == 0 ? TPS_POOLING_SUM : TPS_POOLING_MEAN);
    push.queries.push_back ({ "marks", { row }, { 0 } });
    push.gradients.push_back (Floats (kDim, -1));
    return push;
  }

  int64_t row;
  std::string name, own;
  std::deque<Push> sent; /* the newest pushes; the last may be unacknowledged */
  bool is_last_acknowledged = true;

private:
  void
  add (Push *push, const std::string &table, size_t max_bags, TpsPooling pooling)
  {
    Query query = embedding_test::random_query (random_, table, kRows, max_bags, 3, pooling, false);
    Floats gradient (query.n_bags () * static_cast<size_t> (kDim));

    for (float &value : gradient)
      value = static_cast<float> (static_cast<int> (random_ () % 9) - 4);
    push->queries.push_back (query);
    push->gradients.push_back (gradient);
  }

  std::mt19937_64 random_;
  int64_t sequence_ = 0;
};

/* The same tables in this process. Each push is applied to them once. */
class Reference
{
public:
  Reference ()
  {
    TpsTableStoreOptions options = {};

    options.max_bytes = 64 << 20;
    store_ = tps_table_store_new (&options);
  }
  ~Reference ()
  {
    tps_table_store_free (store_);
  }

  void
  create (const Spec &spec)
  {
    ASSERT_TRUE (tps_table_store_create (store_, &spec.value, nullptr));
  }

  void
  apply (const Push &push)
  {
    std::vector<TpsBagGradient> list = push.views ();

    if (!push.is_kept)
      return;
    ASSERT_TRUE (tps_table_store_apply_bags (store_, list.data (),
                                             static_cast<guint> (list.size ()), nullptr));
  }

  std::string
  rows (const std::string &table)
  {
    g_auto (TpsTensor) rows = {};
    Ids ids = all_rows ();

    EXPECT_TRUE (tps_table_store_lookup_rows (store_, table.c_str (), view (ids), &rows, nullptr));
    return { static_cast<const char *> (tps_tensor_data (&rows)), tps_shape_n_bytes (&rows.shape) };
  }

private:
  TpsTableStore *store_;
};

std::string
rows_of (RawClient &connection, const std::string &table)
{
  g_auto (TpsTensor) rows = {}, indices = {};
  Ids ids = all_rows ();
  TpsLookupRowsArguments arguments = {};

  tps_tensor_init_copy (&indices, view (ids));
  arguments.table = const_cast<gchar *> (table.c_str ());
  arguments.indices = indices;
  EXPECT_TRUE (read_result<tps_lookup_rows_rpc> (
      connection.Call ("EmbeddingTable:lookup_rows", fields_of<tps_lookup_rows_rpc> (&arguments)),
      &rows))
      << table;
  return { static_cast<const char *> (tps_tensor_data (&rows)), tps_shape_n_bytes (&rows.shape) };
}

/* The parameter is the location of the tables. */
class Crash : public testing::TestWithParam<const char *>
{
protected:
  static void
  create (RawClient &connection, const Spec &spec)
  {
    EXPECT_EQ (ErrorCode (create_table (connection, spec.value)), 0);
  }

  void
  create_tables ()
  {
    RawClient connection (server.address ());
    Spec shared = Spec ("shared", kRows, kDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
    Spec marks = Spec ("marks", kRows, kDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);
    Spec none = Spec ("none", kRows, kDim).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1);

    none.value.durability = TPS_DURABILITY_NONE;
    create (connection, shared);
    create (connection, none);
    create (connection, marks);
    reference.create (shared);
    reference.create (marks);
    none.value.durability = {};
    reference.create (none);
    for (const Client &client : clients)
      {
        Spec own = Spec (client.own, kRows, kDim).normal (7).optimizer (TPS_OPTIMIZER_ADAM, 0.1);

        create (connection, own);
        reference.create (own);
      }
  }

  static void
  remember (Client *client, const Push &push)
  {
    client->sent.push_back (push);
    if (client->sent.size () > kSentAgain)
      client->sent.pop_front ();
  }

  /* Records the end of a push. Returns `is_acknowledged`. */
  bool
  note (Client *client, bool is_acknowledged, bool *has_begun)
  {
    std::lock_guard<std::mutex> guard (lock);

    client->is_last_acknowledged = is_acknowledged;
    if (is_acknowledged)
      {
        reference.apply (client->sent.back ());
        n_acknowledged++;
      }
    n_begun += *has_begun ? 0 : 1;
    *has_begun = true;
    changed.notify_all ();
    return is_acknowledged;
  }

  /* Pushes until the server has exited. */
  void
  push_until_killed (Client *client, RawClient &connection)
  {
    bool has_begun = false;
    int code;

    do
      {
        remember (client, client->next ());
        code = client->sent.back ().send (connection);
        ASSERT_TRUE (code == 0 || code == -1) << code;
      }
    while (note (client, code == 0, &has_begun));
  }

  void
  push_and_kill (unsigned n_pushes)
  {
    std::vector<std::unique_ptr<RawClient>> connections;
    std::vector<std::thread> threads;

    n_acknowledged = n_begun = 0;
    for (Client &client : clients)
      {
        connections.emplace_back (new RawClient (server.address ()));
        threads.emplace_back ([this, &client, &connection = *connections.back ()] {
          push_until_killed (&client, connection);
        });
      }
    {
      std::unique_lock<std::mutex> guard (lock);
      changed.wait (guard,
                    [&] { return n_acknowledged >= n_pushes && n_begun == clients.size (); });
    }
    RawClient operating (server.address ());
    const gboolean is_incremental = n_pushes % 2 == 0;

    if (n_pushes % 3 == 0)
      {
        EXPECT_EQ (ErrorCode (take_snapshot (operating, is_incremental)), 0);
      }
    if (n_pushes % 3 == 1) /* killed during the snapshot */
      operating.Send ("Durability:snapshot", 1, fields_of<tps_snapshot_rpc> (&is_incremental));
    server.kill ();
    for (std::thread &thread : threads)
      thread.join ();
  }

  static float
  mark_of (const std::string &marks, const Client &client)
  {
    float value;

    memcpy (&value, &marks[static_cast<size_t> (client.row * kDim) * sizeof value], sizeof value);
    return value;
  }

  /* An unacknowledged push must be present either in all of its tables or in none. */
  void
  look_for_last_pushes (RawClient &connection)
  {
    for (Client &client : clients)
      {
        if (client.is_last_acknowledged)
          continue;
        if (mark_of (rows_of (connection, "marks"), client)
            == mark_of (reference.rows ("marks"), client))
          unapplied.push_back (client.sent.back ());
        else
          reference.apply (client.sent.back ());
        client.is_last_acknowledged = true;
      }
  }

  void
  expect_equal (RawClient &connection)
  {
    EXPECT_EQ (rows_of (connection, "marks"), reference.rows ("marks"));
    EXPECT_EQ (rows_of (connection, "shared"), reference.rows ("shared"));
    for (const Client &client : clients)
      EXPECT_EQ (rows_of (connection, client.own), reference.rows (client.own)) << client.own;
  }

  void
  send_again (RawClient &connection)
  {
    for (const Client &client : clients)
      for (const Push &push : client.sent)
        ASSERT_EQ (push.send (connection), 0) << push.client << " " << push.sequence;
    for (const Push &push : unapplied)
      reference.apply (push);
    unapplied.clear ();
  }

  std::mutex lock;
  std::condition_variable changed;
  unsigned n_acknowledged = 0;
  size_t n_begun = 0; /* clients that have pushed in this round */
  unsigned seed = from_environment ("SEED", 1);
  std::vector<Client> clients;
  std::vector<Push> unapplied;
  Reference reference;
  DataServer server { new_folder (), { std::string ("--table-device=") + GetParam () } };
};

INSTANTIATE_TEST_SUITE_P (All, Crash, testing::Values ("cpu", "cuda:0"));

} // namespace

TEST_P (Crash, tablesKeepAcknowledgedPushes)
{
  std::mt19937 random (seed);

  for (size_t i = 0; i < kClients; i++)
    clients.emplace_back (i, seed);
  ASSERT_TRUE (server.serve ());
  create_tables ();
  for (unsigned round = 0; round < from_environment ("ROUNDS", 5); round++)
    {
      push_and_kill (1 + random () % 200);
      ASSERT_TRUE (server.serve ()) << "round " << round << ": " << server.process ().ReadErrors ();
      RawClient connection (server.address ());
      EXPECT_EQ (ErrorCode (connection.Call ("Durability:flush")), 0);
      look_for_last_pushes (connection);
      expect_equal (connection);
      send_again (connection);
      expect_equal (connection);
      ASSERT_FALSE (HasFailure ()) << "round " << round << " of SEED=" << seed;
    }
}

/* ---- the C client ---------------------------------------------------------------------------- */

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

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests failures between client and servers: lost replies, and servers that are killed, stopped or
 * silent. */

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "tests/integration/chunks/cutting_proxy.h"
#include "tests/integration/server/server_process.h"
#include "tests/integration/tables/tables_fixture.h"

namespace tps_test {

/* -- lost answers -- */

/* Two servers, with a proxy in front of each. */
class LostAnswers : public TablesTest
{
protected:
  LostAnswers ()
  {
    start (2, "tcp");
    for (std::string &address : addresses_)
      {
        proxies_.push_back (std::make_unique<thriftps::CuttingProxy> (address));
        address = proxies_.back ()->address ();
      }
    connect ();
  }

  Bags
  random_push (Random &random, const TpsTableSpec &spec)
  {
    Bags bags;

    do
      bags = random_bags (random, spec);
    while (bags.indices.size () < 20); /* so both servers have some */
    return bags;
  }

  std::vector<std::unique_ptr<thriftps::CuttingProxy>> proxies_;
};

TEST_F (LostAnswers, PushesAreAppliedOnce)
{
  static const TpsOptimizerKind kinds[] = { TPS_OPTIMIZER_SGD, TPS_OPTIMIZER_ADAM };

  for (TpsOptimizerKind kind : kinds)
    {
      Random random (kind);
      TpsTableSpec spec;

      tps_table_spec_init (&spec, tps_optimizer_kind_name (kind), 100, 4);
      spec.optimizer = tps_optimizer_spec (kind, 0.1);
      const TpsTableSpec &made = create (spec, TPS_SHARD_HASH);
      for (int step = 0; step < 20; step++)
        {
          Bags bags = random_push (random, made);
          std::vector<gint64> rows = random_rows (random, 100, 20);
          std::vector<float> values = random_values (random, 80);

          if (bags.pooling == TPS_POOLING_MAX)
            bags.pooling = TPS_POOLING_MEAN; /* with MAX, the lookup would be lost */
          proxies_[static_cast<size_t> (step) % 2]->lose_answers (1);
          ASSERT_TRUE (push (made, bags, later ())) << text ();
          push_to_reference (made, bags);
          proxies_[static_cast<size_t> (step + 1) % 2]->lose_answers (1);
          ASSERT_TRUE (tps_remote_tables_apply_rows_sync (tables_, made.name, view_of (rows),
                                                          view_of (values, 4), later (), &error_))
              << text ();
          ASSERT_TRUE (tps_table_store_apply_rows (reference_, made.name, view_of (rows),
                                                   view_of (values, 4), nullptr));
          ASSERT_EQ (rows_here (made), rows_of_reference (made)) << "step " << step;
        }
    }
  EXPECT_EQ (proxies_[0]->n_lost (), 40);
  EXPECT_EQ (proxies_[1]->n_lost (), 40);
}

TEST_F (LostAnswers, LookupsAreAskedAgain)
{
  Random random (1);
  const TpsTableSpec &spec = create ("emb", 100, 4, TPS_SHARD_RANGE);
  std::string expected = rows_of_reference (spec);

  for (int i = 0; i < 10; i++)
    {
      g_auto (TpsTensor) pooled = {};

      proxies_[0]->lose_answers (1);
      EXPECT_EQ (rows_here (spec), expected);
      proxies_[1]->lose_answers (1);
      EXPECT_TRUE (look_up (random_push (random, spec), later (), &pooled)) << text ();
    }
}

TEST_F (LostAnswers, MaximaThatLoseTheirLookupOrTheirPushAreAppliedOnce)
{
  Random random (2);
  const TpsTableSpec &spec = create ("emb", 100, 4, TPS_SHARD_HASH);

  for (int step = 0; step < 10; step++)
    {
      Bags bags = random_push (random, spec);

      bags.pooling = TPS_POOLING_MAX;
      bags.has_weights = false;
      proxies_[0]->lose_answers (1);
      proxies_[1]->lose_answers (1);
      ASSERT_TRUE (push (spec, bags, later ())) << text ();
      push_to_reference (spec, bags);
      ASSERT_EQ (rows_here (spec), rows_of_reference (spec)) << "step " << step;
    }
}

TEST_F (LostAnswers, AnswersLostManyTimesApplyAPushOnce)
{
  Random random (4);
  const TpsTableSpec &spec = create ("emb", 100, 4, TPS_SHARD_RANGE);
  Bags bags = random_push (random, spec);

  bags.pooling = TPS_POOLING_SUM;
  proxies_[1]->lose_answers (5);
  ASSERT_TRUE (push (spec, bags, later ())) << text ();
  EXPECT_EQ (proxies_[1]->n_lost (), 5);
  push_to_reference (spec, bags);
  EXPECT_EQ (rows_here (spec), rows_of_reference (spec));
}

TEST_F (LostAnswers, RepliesLostUntilTheDeadlineFailThePushAndCountTheAppliedParts)
{
  Random random (3);
  const TpsTableSpec &spec = create ("emb", 100, 4, TPS_SHARD_RANGE);
  Bags bags = random_push (random, spec);

  bags.pooling = TPS_POOLING_SUM;
  proxies_[1]->lose_answers (1000000);
  EXPECT_FALSE (push (spec, bags, in_ms (2000)));
  EXPECT_TRUE (code () == TPS_ERROR_CONNECTION_LOST || code () == TPS_ERROR_DEADLINE_EXCEEDED);
  EXPECT_EQ (text ().find ("server 1 (" + addresses_[1] + "): "), 0u) << text ();
  EXPECT_NE (text ().find ("; applied on 1 of 2 servers"), std::string::npos) << text ();
  EXPECT_GT (proxies_[1]->n_lost (), 2);
}

TEST_F (LostAnswers, TablesAreMadeAndDroppedOnce)
{
  for (int i = 0; i < 5; i++)
    {
      TpsTablePlacement placement = { TPS_SHARD_HASH, 0 };
      g_auto (TpsTableSpec) spec = {};

      tps_table_spec_init (&spec, "emb", 100, 4);
      proxies_[0]->lose_answers (1);
      ASSERT_TRUE (tps_remote_tables_create_spec (tables_, &spec, &placement, later (), &error_))
          << text ();
      proxies_[1]->lose_answers (1);
      ASSERT_TRUE (tps_remote_tables_drop (tables_, "emb", later (), &error_)) << text ();
    }
  EXPECT_EQ (tps_budget_get_held ((servers_[0]->store ())->budget), 0u);
  EXPECT_EQ (tps_budget_get_held ((servers_[1]->store ())->budget), 0u);
}

/* -- killed servers -- */

/* Repeats a call until it has failed a few times after the kill. */
class Caller
{
public:
  static constexpr gint64 PATIENCE_MS = 4000;
  /* The call is retried for this time. The other server must reply within it. */
  static constexpr gint64 PATIENCE_WITHOUT_SERVER_MS = 2000;
  static constexpr int N_FAILURES = 3;

  Caller (const std::vector<std::string> &addresses, bool pushes, std::atomic<int> &n_calls)
      : tables_ (new_tables (addresses)), pushes_ (pushes), n_calls_ (n_calls)
  {
    g_autoptr (GError) error = nullptr;

    EXPECT_TRUE (tps_remote_tables_discover (tables_, later (), &error)) << error->message;
    thread_ = std::thread (&Caller::run, this);
  }

  void
  join ()
  {
    thread_.join ();
    tps_remote_tables_free (tables_);
  }

  std::vector<std::string> errors;
  gint64 longest_ns = 0; /* of all calls, beyond their deadlines */
  gint64 shortest_failure_ns = G_MAXINT64;
  static std::atomic<bool> is_killed;

private:
  bool
  call (const Bags &bags, gint64 deadline_ns, GError **error)
  {
    TpsBagGradient gradient = bags.bag_gradient (4);
    g_auto (TpsTensor) pooled = {};

    if (pushes_)
      return tps_remote_tables_apply_bags_sync (tables_, &gradient, 1, deadline_ns, error);
    return tps_remote_tables_lookup_bags_sync (tables_, &gradient.query, 1, deadline_ns, &pooled,
                                               error);
  }

  void
  run ()
  {
    Random random (pushes_);
    Bags bags;

    bags.table = "emb";
    bags.indices = random_rows (random, 1000, 500);
    bags.offsets = { 0, 100, 200 };
    bags.gradient = random_values (random, 12);
    while (errors.size () < N_FAILURES)
      {
        gint64 deadline_ns = in_ms (is_killed ? PATIENCE_WITHOUT_SERVER_MS : PATIENCE_MS);
        g_autoptr (GError) error = nullptr;

        if (!call (bags, deadline_ns, &error))
          {
            errors.push_back (error->message);
            shortest_failure_ns = std::min (shortest_failure_ns, in_ms (0) - deadline_ns);
          }
        longest_ns = std::max (longest_ns, in_ms (0) - deadline_ns);
        n_calls_++;
      }
  }

  TpsRemoteTables *tables_;
  bool pushes_;
  std::atomic<int> &n_calls_;
  std::thread thread_;
};

std::atomic<bool> Caller::is_killed { false };

TEST_F (TablesTest, ServerKilledUnderLoadIsNamedToEveryCallerInTime)
{
  std::atomic<int> n_calls { 0 };
  std::vector<std::unique_ptr<thriftps_test::ServerProcess>> processes;
  std::vector<std::unique_ptr<Caller>> callers;

  for (int i = 0; i < 2; i++)
    {
      processes.push_back (std::make_unique<thriftps_test::ServerProcess> (
          std::vector<std::string> { "--listen=unix:" + new_socket_path (), "--log-level=error" }));
      addresses_.push_back (processes.back ()->ReadAddress ());
      ASSERT_NE (addresses_.back (), "");
    }
  connect ();
  create ("emb", 1000, 4, TPS_SHARD_HASH);
  for (int i = 0; i < 6; i++)
    callers.push_back (std::make_unique<Caller> (addresses_, i % 2 == 0, n_calls));
  while (n_calls < 100)
    std::this_thread::yield ();
  processes[1]->Signal (SIGKILL);
  Caller::is_killed = true;
  for (auto &caller : callers)
    {
      caller->join ();
      for (const std::string &error : caller->errors)
        EXPECT_EQ (error.find ("server 1 (" + addresses_[1] + "): "), 0u) << error;
      /* A busy machine delays single calls, but not each call of a caller. */
      EXPECT_LE (caller->shortest_failure_ns, 2 * G_GINT64_CONSTANT (1000000000));
      EXPECT_LE (caller->longest_ns, 7 * G_GINT64_CONSTANT (1000000000));
    }
}

TEST_F (TablesTest, StoppedServerIsNamed)
{
  start (3);
  connect ();
  const TpsTableSpec &spec = create ("emb", 100, 4, TPS_SHARD_HASH);
  Bags bags;
  g_auto (TpsTensor) pooled = {};
  bags.table = "emb";
  bags.indices = all_rows (spec);
  bags.offsets = { 0 };
  bags.gradient.resize (4);
  servers_[2]->stop ();
  /* The other servers must reply before these deadlines. */
  EXPECT_FALSE (look_up (bags, in_ms (2000), &pooled));
  EXPECT_EQ (text ().find ("server 2 (" + addresses_[2] + "): "), 0u) << text ();
  EXPECT_FALSE (push (spec, bags, in_ms (2000)));
  EXPECT_NE (text ().find ("; applied on 2 of 3 servers"), std::string::npos) << text ();
  /* Bags without rows of the killed server must be served. */
  bags.indices.clear ();
  for (gint64 row = 0; row < 100; row++)
    if (tps_shard_permute (row, 100) % 3 != 2)
      bags.indices.push_back (row);
  EXPECT_TRUE (look_up (bags, later (), &pooled)) << text ();
  EXPECT_TRUE (push (spec, bags, later ())) << text ();
}

/* -- silent servers -- */

TEST_F (TablesTest, SilentServerIsNamedAtTheDeadline)
{
  sockaddr_un address = {};
  std::string path = new_socket_path ();
  int listener = socket (AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

  address.sun_family = AF_UNIX;
  path.copy (address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ (bind (listener, reinterpret_cast<sockaddr *> (&address), sizeof address), 0);
  ASSERT_EQ (listen (listener, 16), 0);
  start (1);
  addresses_.push_back ("unix:" + path);
  connect ();
  gint64 deadline_ns = in_ms (2000); /* the other server must reply before this time */
  EXPECT_FALSE (tps_remote_tables_discover (tables_, deadline_ns, &error_));
  EXPECT_GE (in_ms (0), deadline_ns);
  EXPECT_EQ (code (), TPS_ERROR_DEADLINE_EXCEEDED);
  EXPECT_EQ (text ().find ("server 1 (unix:" + path + "): "), 0u) << text ();
  close (listener);
}

TEST_F (TablesTest, DeadlineThatHasPassedSendsNothing)
{
  Bags bags;

  start (2);
  connect ();
  const TpsTableSpec &spec = create ("emb", 100, 4, TPS_SHARD_HASH);
  bags.table = "emb";
  bags.indices = all_rows (spec);
  bags.offsets = { 0 };
  bags.gradient.assign (4, 1);
  EXPECT_FALSE (push (spec, bags, in_ms (-1)));
  EXPECT_EQ (code (), TPS_ERROR_DEADLINE_EXCEEDED);
  EXPECT_EQ (rows_here (spec), rows_of_reference (spec));
}

}

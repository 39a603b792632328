/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The model is a function of its commands in LSN order. The test records random pushes and resets
 * from many threads. Another server that applies the records one by one must have the same bits.
 * Run this test with --config=tsan too.
 *
 *   SEEDS=1000 FIRST_SEED=1     number of histories, and the first seed (--test_env) */

#include "tests/runtime/server/model/model_histories.h"

namespace updating_test {
namespace {

void
replay (const Server &from, Server &to)
{
  gint64 lsn = 0;

  for (const auto &record : from.records)
    {
      ASSERT_EQ (record->command.lsn, ++lsn);
      ASSERT_TRUE (tps_model_server_replay (to.server, &record->command, nullptr)) << lsn;
      ASSERT_EQ (tps_sequencer_get_lsn (to.sequencer), lsn);
    }
}

void
run_history (uint32_t seed)
{
  std::mt19937 random (seed);
  guint n_trainers = 1 + random () % 4;
  Server server (n_trainers), other (n_trainers);
  std::vector<std::thread> threads;

  server.init (&random);
  for (guint i = 0; i < n_trainers; i++)
    threads.emplace_back (train, &server, static_cast<gint32> (i), seed * 10 + i);
  for (std::thread &thread : threads)
    thread.join ();
  replay (server, other);
  ASSERT_TRUE (server.model () == other.model ());
  for (int i = 0; i < 2; i++) /* the result depends on the optimizer's state */
    {
      Values probe = draw_values (kShapes, &random);

      ASSERT_EQ (server.push (0, probe, nullptr, 0), other.push (0, probe, nullptr, 0));
      ASSERT_TRUE (server.model () == other.model ()) << "state, probe " << i;
    }
}

} // namespace

TEST (ModelReplay, HasTheSameBits)
{
  unsigned long first = number_of ("FIRST_SEED", 1);

  for (unsigned long seed = first; seed < first + number_of ("SEEDS", 40); seed++)
    {
      run_history (static_cast<uint32_t> (seed));
      ASSERT_FALSE (testing::Test::HasFailure ()) << "FIRST_SEED=" << seed;
    }
}

/* A push that has already been applied must not be applied again after a replay. */
TEST (ModelReplay, RemembersPushIds)
{
  Server server (1), other (1);
  std::mt19937 random (1);
  Values gradients = draw_values (kShapes, &random);
  gint64 version = 0;

  server.init (&random);
  ASSERT_EQ (server.push (0, gradients, "c", 7), 0);
  replay (server, other);
  EXPECT_EQ (other.push (0, gradients, "c", 7, &version), 0);
  EXPECT_EQ (version, 2);
  EXPECT_EQ (other.push (0, draw_values (kShapes, &random), "c", 7), TPS_ERROR_DUPLICATE);
  EXPECT_EQ (other.model ().first, 2);
}

/* Push ids belong to a model, so a new model starts without any. */
TEST (ModelReplay, ANewModelHasItsOwnIds)
{
  Server server (1);
  std::mt19937 random (1);
  Values gradients = draw_values (kShapes, &random);
  gint64 version = 0;

  server.init (&random);
  ASSERT_EQ (server.push (0, gradients, "c", 7), 0);
  tps_model_server_reset_state (server.server, nullptr);
  EXPECT_EQ (server.push (0, gradients, "c", 7), TPS_ERROR_NOT_FOUND);
  server.init (&random);
  EXPECT_EQ (server.push (0, gradients, "c", 7, &version), 0);
  EXPECT_EQ (version, 2);
  EXPECT_EQ (server.push (0, gradients, "c", 7, &version), 0);
  EXPECT_EQ (server.model ().first, 2) << "once";
}

} // namespace updating_test

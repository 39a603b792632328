/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Push ids of a model after a replay and after a reset. mixed_replay_test replays random
 * histories. */

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

} // namespace

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

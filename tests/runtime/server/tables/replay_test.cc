/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Records of pushes during which a device fails, and their replay. mixed_replay_test replays random
 * histories. */

#include "tests/runtime/server/tables/histories.h"

using namespace embedding_test;

/* Device 1 is lost after the table on device 0 has taken its step. A repeat must not take a second
 * step, neither from a running server nor after a replay. */
TEST (Replay, ARepeatTakesNoSecondStepIfADeviceWasLostHalfway)
{
  TpsDevice *device = tps_fake_device_get (0);
  static const TpsDeviceOps *real = device->ops;
  static int n_waits;
  TpsDeviceOps losing = *real;
  Server server (0), other (0);
  Query good { "good", { 1 }, { 0 } }, bad { "bad", { 1 }, { 0 } }, host { "host", { 1 }, { 0 } };
  Floats gradient { 1, 1 };
  TpsBagGradient push[] = { { host.get (), view (gradient, 2) },
                            { good.get (), view (gradient, 2) },
                            { good.get (), view (gradient, 2) },
                            { bad.get (), view (gradient, 2) } };
  Spec specs[] = { spec_of ("host", 2, 2, TPS_OPTIMIZER_SGD),
                   spec_of ("good", 2, 2, TPS_OPTIMIZER_SGD).on ("fake:0"),
                   spec_of ("bad", 2, 2, TPS_OPTIMIZER_SGD).on ("fake:1") };
  TpsTablePush request {};
  const gchar *said =
      "push 1 of client c: a device was lost while the tables changed; of the tables "
      "that the push names, only these took their step: good; the push must not be "
      "repeated";

  n_waits = 0;
  losing.event_sync = [] (TpsEvent *event, GError **error) {
    gboolean ok = real->event_sync (event, error);

    if (n_waits++ == 0) /* the wait for the step */
      tps_fake_device_set_lost (tps_fake_device_get (1), TRUE);
    return ok;
  };
  request.client = "c";
  request.sequence = 1;
  request.may_wait = TRUE;
  request.gradients = push;
  request.n_gradients = G_N_ELEMENTS (push);
  for (Spec &spec : specs)
    ASSERT_TRUE (tps_table_store_create (server.store, &spec.value, nullptr));
  device->ops = &losing;
  for (int i = 0; i < 3; i++)
    {
      g_autoptr (GError) error = nullptr;

      EXPECT_FALSE (tps_table_store_push_and_wait (server.store, &request, &error));
      EXPECT_TRUE (g_error_matches (error, TPS_ERROR, TPS_ERROR_DEVICE_LOST));
      EXPECT_STREQ (error->message, said);
      device->ops = real;
      tps_fake_device_set_lost (tps_fake_device_get (1), FALSE);
    }
  EXPECT_EQ (server.records.size (), 4u) << "the repeats are no commands";
  EXPECT_TRUE (server.records[3]->command.has_failed);
  replay (server, other);
  g_autoptr (GError) error = nullptr;
  EXPECT_FALSE (tps_table_store_push_and_wait (other.store, &request, &error));
  EXPECT_STREQ (error->message, said);
  request.sequence = 2;
  EXPECT_TRUE (tps_table_store_push_and_wait (other.store, &request, nullptr));
}

/* A push whose device fails still has an LSN. Its record must list the omitted parts. */
TEST (Replay, OmitsThePartsThatAFailedDeviceOmitted)
{
  Server server (0), other (0);
  Query host_query { "host", { 1 }, { 0 } }, device_query { "dev", { 1 }, { 0 } };
  Floats gradient { 1, 1 };
  TpsBagGradient push[] = { { host_query.get (), view (gradient, 2) },
                            { device_query.get (), view (gradient, 2) } };
  Spec host = spec_of ("host", 2, 2, TPS_OPTIMIZER_ADAM);
  Spec device = spec_of ("dev", 2, 2, TPS_OPTIMIZER_ADAM).on ("fake:0");
  TpsTablePush request {};
  Random random (1);
  Plan plan (random);

  plan.dims = { { "host", 2 }, { "dev", 2 } };
  plan.rows = { { "host", { 0, 1 } }, { "dev", { 0, 1 } } };
  request.client = "c";
  request.sequence = 1;
  request.may_wait = TRUE;
  request.gradients = push;
  request.n_gradients = 2;
  ASSERT_TRUE (tps_table_store_create (server.store, &host.value, nullptr));
  ASSERT_TRUE (tps_table_store_create (server.store, &device.value, nullptr));
  ASSERT_TRUE (tps_table_store_apply_bags (server.store, push, 2, nullptr));
  tps_fake_device_set_lost (tps_fake_device_get (0), TRUE);
  EXPECT_FALSE (tps_table_store_push_and_wait (server.store, &request, nullptr));
  tps_fake_device_set_lost (tps_fake_device_get (0), FALSE);
  tps_table_store_push_and_wait (server.store, &request, nullptr); /* may use the failed stream */
  EXPECT_TRUE (tps_table_store_push_and_wait (server.store, &request, nullptr));
  check_lsns (server);
  ASSERT_GE (server.records.size (), 5u);
  EXPECT_TRUE (server.records[3]->command.has_failed);
  EXPECT_TRUE (server.records[3]->command.tables[0].is_skipped);
  EXPECT_TRUE (server.records[3]->command.tables[1].is_skipped);
  EXPECT_FALSE (server.records.back ()->command.has_failed);
  replay (server, other);
  compare (server, other, plan);
}

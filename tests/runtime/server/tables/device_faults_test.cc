/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables on devices that run out of memory, fail once, or are lost. */

#include <memory>
#include <string>

#include "tests/runtime/server/tables/tables.h"
#include "tests/runtime/fake_device/fake_device.h"

using namespace embedding_test;

namespace {

TpsDevice *
find_device (const gchar *name, GError **error)
{
  return tps_fake_device_get (g_str_equal (name, "fake:1") ? 1 : 0);
}

Spec
flat_table (const std::string &name, int64_t rows, int32_t dim)
{
  Spec spec (name, rows, dim);

  return spec.zeros ().optimizer (TPS_OPTIMIZER_SGD, 1).on ("fake:0");
}

class DeviceFaults : public ::testing::Test
{
protected:
  DeviceFaults () : before_ (tps_fake_device_get_n_bytes (device))
  {
  }

  ~DeviceFaults () override
  {
    tps_fake_device_fail_alloc (device, 0);
    tps_fake_device_set_lost (device, FALSE);
    store.reset ();
    EXPECT_EQ (tps_fake_device_get_n_bytes (device), before_) << "all memory goes back";
  }

  TpsDevice *device = tps_fake_device_get (0);

private:
  gsize before_;

protected:
  std::unique_ptr<Store> store { new Store (1, Devices { find_device }) };
};

} // namespace

TEST_F (DeviceFaults, NothingIsLeftOfATableThatCannotBeMade)
{
  Spec adam = Spec ("emb", 1000, 8).normal (1).optimizer (TPS_OPTIMIZER_ADAM, 0.1);
  guint n = 1;

  adam.on ("fake:0");
  for (std::string said = "?"; said != ""; n++)
    {
      gsize held = tps_fake_device_get_n_bytes (device);

      tps_fake_device_fail_alloc (device, n);
      said = store->create (adam);
      tps_fake_device_fail_alloc (device, 0);
      ASSERT_LT (n, 10u);
      if (said == "")
        continue;
      EXPECT_EQ (said.find ("RESOURCE_EXHAUSTED table emb: "), 0u) << said;
      EXPECT_EQ (tps_fake_device_get_n_bytes (device), held);
      EXPECT_EQ (tps_budget_get_held ((store->get ())->device_budget), 0u);
      EXPECT_EQ (store->rows ("emb", { 0 }, nullptr), "NOT_FOUND table: there is no table emb");
    }
  EXPECT_EQ (n - 2, 3u) << "rows, state, staged rows";
}

TEST_F (DeviceFaults, WithoutMemoryForACallNothingChangesAndTheNextOneWorks)
{
  Query query { "emb", { 1, 2 }, { 0, 1 }, TPS_POOLING_MEAN };
  std::string said;

  ASSERT_EQ (store->create (flat_table ("emb", 10, 4)), "");
  for (guint n : { 1, 2 })
    {
      tps_fake_device_fail_alloc (device, n);
      said = store->apply_bags ({ query }, { Floats (8, 1.0f) }, 4);
      EXPECT_EQ (said.find ("RESOURCE_EXHAUSTED table emb: "), 0u) << said;
    }
  EXPECT_EQ (store->pooled (query), Floats (8, 0.0f));
  EXPECT_EQ (store->apply_bags ({ query }, { Floats (8, 1.0f) }, 4), "");
  EXPECT_EQ (store->pooled (query), Floats (8, -1.0f));
}

TEST_F (DeviceFaults, CallsOfTheSameSizeAllocateOnce)
{
  Query query { "emb", { 1, 2, 1 }, { 0, 1 }, TPS_POOLING_MEAN };
  guint n_before;

  ASSERT_EQ (store->create (flat_table ("emb", 10, 4)), "");
  store->pooled (query);
  store->apply_bags ({ query, query }, { Floats (8, 1.0f), Floats (8, 1.0f) }, 4);
  n_before = tps_fake_device_get_n_allocs (device);
  for (int i = 0; i < 10; i++)
    {
      store->pooled (query);
      store->apply_bags ({ query, query }, { Floats (8, 1.0f), Floats (8, 1.0f) }, 4);
    }
  EXPECT_EQ (tps_fake_device_get_n_allocs (device), n_before);
}

TEST_F (DeviceFaults, ALostDeviceTakesItsTablesAndNoOthers)
{
  Query lost { "emb", { 1 }, { 0 } }, other { "other", { 1 }, { 0 } },
      host { "host", { 1 }, { 0 } };
  Spec on_other = flat_table ("other", 10, 4), on_host = flat_table ("host", 10, 4);

  ASSERT_EQ (store->create (flat_table ("emb", 10, 4)), "");
  ASSERT_EQ (store->create (on_other.on ("fake:1")), "");
  ASSERT_EQ (store->create (on_host.on ("cpu")), "");
  EXPECT_EQ (store->pooled (lost), Floats (4, 0.0f)); /* allocates the memory for later calls */
  tps_fake_device_set_lost (device, TRUE);
  for (int i = 0; i < 3; i++)
    {
      std::string said[] = { store->lookup ({ lost }, nullptr),
                             store->lookup ({ other, host, lost }, nullptr),
                             store->rows ("emb", { 1 }, nullptr),
                             store->apply_rows ("emb", { 1 }, Floats (4, 1.0f), 4),
                             store->apply_bags (
                                 { host, other, lost },
                                 { Floats (4, 1.0f), Floats (4, 1.0f), Floats (4, 1.0f) }, 4),
                             store->create (flat_table ("new", 10, 4)) };

      for (const std::string &text : said)
        EXPECT_EQ (text.find ("DEVICE_LOST "), 0u) << text;
    }
  EXPECT_EQ (store->pooled (host), Floats (4, 0.0f)) << "nothing was changed";
  EXPECT_EQ (store->pooled (other), Floats (4, 0.0f));
  EXPECT_EQ (store->apply_bags ({ host, other }, { Floats (4, 1.0f), Floats (4, 1.0f) }, 4), "");
  EXPECT_EQ (store->pooled (host), Floats (4, -1.0f));
  EXPECT_EQ (store->pooled (other), Floats (4, -1.0f));
  EXPECT_EQ (store->drop ("emb"), "");
}

/* Like a failure from which CUDA recovers. */
TEST_F (DeviceFaults, WhereTheDeviceLivesOnTheTableDoesToo)
{
  Query query { "emb", { 1 }, { 0 } };

  ASSERT_EQ (store->create (flat_table ("emb", 10, 4)), "");
  ASSERT_EQ (store->apply_rows ("emb", { 1 }, Floats (4, 1.0f), 4), "");
  for (int i = 0; i < 3; i++)
    {
      tps_fake_device_set_lost (device, TRUE);
      EXPECT_NE (store->lookup ({ query, query }, nullptr), "");
      EXPECT_NE (store->apply_bags ({ query }, { Floats (4, 1.0f) }, 4), "");
      tps_fake_device_set_lost (device, FALSE);
      store->lookup ({ query }, nullptr); /* may still use the failed stream */
      EXPECT_EQ (store->pooled (query), Floats (4, -1.0f));
    }
  EXPECT_EQ (store->apply_bags ({ query }, { Floats (4, 1.0f) }, 4), "");
  EXPECT_EQ (store->pooled (query), Floats (4, -2.0f));
}

/* The failure of a device has left a failed stream behind, which one of two tables uses. */
TEST_F (DeviceFaults, AStreamThatIsBadIsFoundBeforeAnyTableChanges)
{
  Query good { "good", { 1 }, { 0 } }, bad { "bad", { 1 }, { 0 } };
  Spec on_other = flat_table ("bad", 10, 4);
  std::vector<Floats> ones (2, Floats (4, 1.0f));

  ASSERT_EQ (store->create (flat_table ("good", 10, 4)), "");
  ASSERT_EQ (store->create (on_other.on ("fake:1")), "");
  EXPECT_EQ (store->pooled (bad), Floats (4, 0.0f)); /* allocates the memory for later calls */
  tps_fake_device_set_lost (tps_fake_device_get (1), TRUE);
  EXPECT_NE (store->lookup ({ bad }, nullptr), "");
  tps_fake_device_set_lost (tps_fake_device_get (1), FALSE);
  EXPECT_EQ (store->apply_bags ({ good, bad }, ones, 4).find ("DEVICE_LOST table bad: "), 0u);
  EXPECT_EQ (store->pooled (good), Floats (4, 0.0f));
  EXPECT_EQ (store->apply_bags ({ good, bad }, ones, 4), "");
  EXPECT_EQ (store->pooled (good), Floats (4, -1.0f));
  EXPECT_EQ (store->pooled (bad), Floats (4, -1.0f));
}

/* Device 1 is lost after the host has checked it and before its work is done. */
TEST_F (DeviceFaults, ADeviceLostWhileItAddsUpLeavesTheTablesOfOthersUnchanged)
{
  static const TpsDeviceOps *real = device->ops;
  TpsDeviceOps losing = *real;
  Query good { "good", { 1 }, { 0 } }, bad { "bad", { 1 }, { 0 } };
  Spec on_other = flat_table ("bad", 10, 4);
  std::vector<Floats> ones (2, Floats (4, 1.0f));

  losing.update_rows = [] (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
                           const TpsRowUpdate *update) {
    tps_fake_device_set_lost (tps_fake_device_get (1), TRUE);
    real->update_rows (stream, spec, step, update);
  };
  ASSERT_EQ (store->create (flat_table ("good", 10, 4)), "");
  ASSERT_EQ (store->create (on_other.on ("fake:1")), "");
  device->ops = &losing;
  EXPECT_EQ (store->apply_bags ({ good, bad }, ones, 4).find ("DEVICE_LOST "), 0u);
  device->ops = real;
  tps_fake_device_set_lost (tps_fake_device_get (1), FALSE);
  EXPECT_EQ (store->pooled (good), Floats (4, 0.0f));
  store->lookup ({ bad }, nullptr); /* may still use the failed stream */
  EXPECT_EQ (store->apply_bags ({ good, bad }, ones, 4), "");
  EXPECT_EQ (store->pooled (good), Floats (4, -1.0f));
  EXPECT_EQ (store->pooled (bad), Floats (4, -1.0f));
}

/* Records the calls as letters: c = copy, p = pool, b = sum of gradients, u = optimizer, w = wait
 * for an event, s = wait for a stream. */
TEST_F (DeviceFaults, APushWaitsForEachTableOnceAtItsEnd)
{
  static const TpsDeviceOps *real = device->ops;
  static std::string calls;
  TpsDeviceOps noting = *real;
  Query sum { "emb", { 1, 2, 1 }, { 0, 1 } }, other { "other", { 3 }, { 0 } };
  Floats two_rows (8, 1.0f);
  const struct
  {
    std::vector<Query> queries;
    std::vector<Floats> gradients;
    std::string calls;
  } cases[] = {
    { { sum }, { two_rows }, "ccbuws" },
    { { sum, sum }, { two_rows, two_rows }, "ccccpcpbuws" },
    { { sum, other }, { two_rows, Floats (4, 1.0f) }, "ccccbbuuwwss" },
  };

  noting.copy = [] (TpsStream *stream, gpointer to, gconstpointer from, gsize n_bytes) {
    calls += 'c';
    real->copy (stream, to, from, n_bytes);
  };
  noting.embedding_pool = [] (TpsStream *stream, const TpsBags *bags, TpsDType dtype,
                              gconstpointer table, gfloat *output) {
    calls += 'p';
    real->embedding_pool (stream, bags, dtype, table, output);
  };
  noting.embedding_backward_rows = [] (TpsStream *stream, const TpsBags *bags,
                                       const gfloat *output_gradient, gint64 *unique_indices,
                                       gfloat *row_gradients, gint64 *n_unique) {
    calls += 'b';
    real->embedding_backward_rows (stream, bags, output_gradient, unique_indices, row_gradients,
                                   n_unique);
  };
  noting.update_rows = [] (TpsStream *stream, const TpsOptimizerSpec *spec, gint64 step,
                           const TpsRowUpdate *update) {
    calls += 'u';
    real->update_rows (stream, spec, step, update);
  };
  noting.event_sync = [] (TpsEvent *event, GError **error) {
    calls += 'w';
    return real->event_sync (event, error);
  };
  noting.stream_sync = [] (TpsStream *stream, GError **error) {
    calls += 's';
    return real->stream_sync (stream, error);
  };
  ASSERT_EQ (store->create (flat_table ("emb", 10, 4)), "");
  ASSERT_EQ (store->create (flat_table ("other", 10, 4)), "");
  for (const auto &push : cases)
    {
      calls.clear ();
      device->ops = &noting;
      EXPECT_EQ (store->apply_bags (push.queries, push.gradients, 4), "");
      device->ops = real;
      EXPECT_EQ (calls, push.calls);
    }
}

/* The stream of the table runs ahead of all others whenever it need not wait for them. */
TEST_F (DeviceFaults, ATableWaitsForTheIdsOfALookup)
{
  static const TpsDeviceOps *real = device->ops;
  TpsDeviceOps hasty = *real;
  Spec spec = Spec ("emb", 300, 4).uniform (1, 2, 1);
  Store host;
  std::vector<Query> queries { { "emb", { 7, 250, 7 }, { 0, 1 } }, { "emb", { 299 }, { 0 } } };
  std::vector<Floats> expected, got;

  hasty.embedding_pool = [] (TpsStream *stream, const TpsBags *bags, TpsDType dtype,
                             gconstpointer table, gfloat *output) {
    real->embedding_pool (stream, bags, dtype, table, output);
    real->stream_sync (stream, nullptr);
  };
  ASSERT_EQ (host.create (spec), "");
  ASSERT_EQ (store->create (spec.on ("fake:0")), "");
  device->ops = &hasty;
  EXPECT_EQ (host.lookup (queries, &expected), "");
  EXPECT_EQ (store->lookup (queries, &got), "");
  device->ops = real;
  EXPECT_EQ (got, expected);
}

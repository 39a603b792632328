/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/table_steps/table_steps.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/fake_device/fake_device.h"
#include "tests/runtime/trainer/table_steps/random_steps.h"
#include "tests/runtime/trainer/table_steps/store_client.h"

namespace {

using tps_test::StoreClient;
using Mode = StoreClient::Mode;

constexpr gint64 ROWS = 40;
constexpr gint64 TIMEOUT_NS = G_GINT64_CONSTANT (60000000000);

struct FreeStore
{
  void
  operator() (TpsTableStore *store) const
  {
    tps_table_store_free (store);
  }
};
using Store = std::unique_ptr<TpsTableStore, FreeStore>;

Store
make_store (const std::vector<gsize> &dims, TpsInitializerKind initializer,
            const TpsOptimizerSpec &optimizer)
{
  TpsTableStoreOptions options {};
  Store store (tps_table_store_new (&options));

  tps_test::create_tables (store.get (), ROWS, dims, initializer, optimizer);
  return store;
}

TpsTableSteps *
make_steps (StoreClient *client, const std::vector<gsize> &dims, guint max_staleness,
            GError **error = nullptr)
{
  static const gchar *const names[] = { "t0", "t1", "t2" };
  TpsTableStepsOptions options {};

  options.client = client->get ();
  options.tables = names;
  options.dims = dims.data ();
  options.n_tables = static_cast<guint> (dims.size ());
  options.max_staleness = max_staleness;
  options.timeout_ns = TIMEOUT_NS;
  return tps_table_steps_new (&options, error);
}

/* -- one table whose rows count their pushes -- */

class Counting : public testing::Test
{
protected:
  void
  start (Mode mode, guint max_staleness)
  {
    store = make_store ({ 1 }, TPS_INITIALIZER_ZEROS, tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1));
    client = std::make_unique<StoreClient> (store.get (), mode);
    steps = make_steps (client.get (), { 1 }, max_staleness);
  }

  void
  TearDown () override
  {
    g_clear_pointer (&steps, tps_table_steps_free);
  }

  /* Prefetches bags of one id each. */
  bool
  prefetch (const std::vector<gint64> &ids, GError **error = nullptr)
  {
    /* The arrays must live until the push of the step has ended. */
    all_ids.push_back (std::make_unique<std::vector<gint64>> (ids));
    offsets.push_back (std::make_unique<std::vector<gint64>> ());
    for (size_t i = 0; i < ids.size (); i++)
      offsets.back ()->push_back (static_cast<gint64> (i));
    TpsStepBags bags = { all_ids.back ()->data (), ids.size (), offsets.back ()->data (),
                         ids.size () };
    n_bags.push_back (ids.size ());
    return tps_table_steps_prefetch (steps, &bags, error);
  }

  std::vector<float>
  take ()
  {
    g_autoptr (GError) error = nullptr;
    std::vector<float> values (n_bags.front ());
    TpsStepVectors vectors = { values.data (), 1 };

    n_taken_bags = n_bags.front ();
    n_bags.pop_front ();
    EXPECT_TRUE (tps_table_steps_take (steps, &vectors, &error)) << error->message;
    return values;
  }

  void
  push ()
  {
    std::vector<float> minus_ones (n_taken_bags, -1);
    TpsStepVectors gradients = { minus_ones.data (), 1 };

    EXPECT_TRUE (tps_table_steps_push (steps, &gradients, nullptr));
  }

  using Values = std::vector<float>;

  Store store;
  std::unique_ptr<StoreClient> client;
  TpsTableSteps *steps = nullptr;
  std::vector<std::unique_ptr<std::vector<gint64>>> all_ids, offsets;
  std::deque<size_t> n_bags;
  size_t n_taken_bags = 0;
};

TEST_F (Counting, OnlyRowsThatAPushChangedAreFetchedAgain)
{
  start (Mode::AT_ONCE, 0);
  prefetch ({ 1, 2, 3 });
  EXPECT_EQ (take (), Values ({ 0, 0, 0 }));
  prefetch ({ 5, 3, 9, 3 }); // before the push that changes row 3
  push ();
  EXPECT_EQ (take (), Values ({ 0, 1, 0, 1 }));
  EXPECT_EQ (tps_table_steps_get_counts (steps).n_refreshed, 1u);
  prefetch ({ 7, 8 });
  push ();
  EXPECT_EQ (take (), Values ({ 0, 0 }));
  EXPECT_EQ (tps_table_steps_get_counts (steps).n_refreshed, 1u);
  EXPECT_EQ (client->lookups.size (), 4u); // three steps and a refresh
}

TEST_F (Counting, AnIdTravelsOnceInACall)
{
  start (Mode::AT_ONCE, 0);
  prefetch ({ 4, 4, 4, 6, 4 });
  take ();
  push ();
  EXPECT_EQ (client->lookups, std::vector<guint> ({ 1 }));
  EXPECT_EQ (client->pushes, std::vector<guint> ({ 1 }));
  EXPECT_EQ (client->n_ids_looked_up, 2u);
  EXPECT_EQ (client->n_ids_pushed, 2u);
  prefetch ({ 4, 6 });
  EXPECT_EQ (take (), Values ({ 4, 1 })); // the push added up the gradients of each id
  EXPECT_EQ (tps_table_steps_get_counts (steps).n_ids, 7u);
  EXPECT_EQ (tps_table_steps_get_counts (steps).n_fetched, 4u);
}

TEST_F (Counting, RowsLackAtMostTheBoundOfPushes)
{
  constexpr size_t BOUND = 2, N_STEPS = 8;

  start (Mode::HELD, BOUND);
  prefetch ({ 1 });
  for (size_t k = 0; k < N_STEPS; k++)
    {
      if (k > BOUND) // otherwise take() would wait for this push for ever
        client->release_push ();
      EXPECT_EQ (take (), Values ({ static_cast<float> (k > BOUND ? k - BOUND : 0) })) << k;
      prefetch ({ 1 });
      push ();
    }
  for (size_t i = 0; i < BOUND + 1; i++)
    client->release_push ();
  EXPECT_TRUE (tps_table_steps_settle (steps, nullptr));
}

TEST_F (Counting, StepsOnThreadsKeepTheBound)
{
  for (guint bound : { 0u, 1u, 3u })
    {
      TearDown ();
      n_bags.clear ();
      start (Mode::THREADS, bound);
      prefetch ({ 1, 1 });
      for (int k = 0; k < 100; k++)
        {
          std::vector<float> values = take ();

          EXPECT_LE (values[0], static_cast<float> (2 * k));
          EXPECT_GE (values[0], static_cast<float> (2 * (k - static_cast<int> (bound))));
          prefetch ({ 1, 1 });
          push ();
        }
      EXPECT_TRUE (tps_table_steps_settle (steps, nullptr));
    }
}

TEST_F (Counting, ChangesOfOthersAreFetchedAgain)
{
  const gint64 changed[] = { 0, 2, 8 }, ids[] = { 2 };
  const gfloat gradient[] = { -1 };
  TpsTensorView indices = { { TPS_DTYPE_INT64, 1, { 1 } }, ids };
  TpsTensorView values = { { TPS_DTYPE_FLOAT32, 2, { 1, 1 } }, gradient };

  start (Mode::AT_ONCE, 0);
  tps_table_steps_note_changes (steps, 0, changed, 3); // no effect, because no step is prefetched
  prefetch ({ 2, 3 });
  ASSERT_TRUE (tps_table_store_apply_rows (store.get (), "t0", indices, values, nullptr));
  tps_table_steps_note_changes (steps, 0, changed, 3);
  tps_table_steps_note_changes (steps, 0, changed, 3); // no further effect
  EXPECT_EQ (take (), Values ({ 1, 0 }));
  EXPECT_EQ (tps_table_steps_get_counts (steps).n_refreshed, 1u);
}

TEST_F (Counting, ThePushedIdsAreAscendingAndDifferent)
{
  gsize n;

  start (Mode::AT_ONCE, 1);
  EXPECT_EQ (tps_table_steps_get_pushed (steps, 0, &n), nullptr);
  prefetch ({ 9, 2, 9, 4 });
  take ();
  push ();
  const gint64 *ids = tps_table_steps_get_pushed (steps, 0, &n);
  EXPECT_EQ (std::vector<gint64> (ids, ids + n), std::vector<gint64> ({ 2, 4, 9 }));
}

/* -- errors -- */

TEST_F (Counting, CallsOutOfOrderAreRefused)
{
  float value;
  TpsStepVectors vectors = { &value, 1 };

  start (Mode::AT_ONCE, 0);
  auto expect = [] (gboolean ok, GError *error, const char *message) {
    EXPECT_FALSE (ok);
    EXPECT_STREQ (error->message, message);
    EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
    g_error_free (error);
  };
  GError *error = nullptr;

  gboolean ok = tps_table_steps_take (steps, &vectors, &error);
  expect (ok, error, "table steps: take: no step is prefetched");
  error = nullptr;
  ok = tps_table_steps_push (steps, &vectors, &error);
  expect (ok, error, "table steps: push: no step has been taken since the last push");
  error = nullptr;
  ok = prefetch ({ 1, -1 }, &error);
  expect (ok, error, "table steps: an id is negative");
  for (const std::vector<gint64> &wrong :
       std::vector<std::vector<gint64>> { {}, { 1 }, { 0, 3 }, { 0, 2, 1 }, { -1 } })
    {
      const gint64 ids[] = { 5, 6 };
      TpsStepBags bags = { ids, 2, wrong.data (), wrong.size () };

      error = nullptr;
      ok = tps_table_steps_prefetch (steps, &bags, &error);
      expect (ok, error,
              wrong.empty ()
                  ? "table steps: there are ids but no bags"
                  : "table steps: offsets do not ascend from 0 to at most the number of ids");
    }
  n_bags.clear ();
  prefetch ({ 1 });
  error = nullptr;
  ok = prefetch ({ 1 }, &error);
  expect (ok, error, "table steps: two steps ahead: the prefetched step must be taken first");
  n_bags.pop_back ();
  take ();
  prefetch ({ 1 });
  error = nullptr;
  ok = tps_table_steps_take (steps, &vectors, &error);
  expect (ok, error, "table steps: take: the step before was not pushed");
}

TEST_F (Counting, AFailedPushIsReportedByTheCallThatWaitsForIt)
{
  g_autoptr (GError) error = nullptr;
  float value;
  TpsStepVectors vectors = { &value, 1 };

  start (Mode::AT_ONCE, 0);
  client->push_error = "no such server";
  prefetch ({ 1 });
  take ();
  prefetch ({ 1 });
  push ();
  EXPECT_FALSE (tps_table_steps_take (steps, &vectors, &error));
  EXPECT_STREQ (error->message, "push of step 0: no such server");
  EXPECT_EQ (error->code, TPS_ERROR_UNAVAILABLE);
}

TEST_F (Counting, AnUnknownRowIsReportedByTheLookup)
{
  g_autoptr (GError) error = nullptr;
  float value;
  TpsStepVectors vectors = { &value, 1 };

  start (Mode::AT_ONCE, 0);
  prefetch ({ ROWS });
  EXPECT_FALSE (tps_table_steps_take (steps, &vectors, &error));
  EXPECT_NE (std::string (error->message).find ("40 is not in [0, 40)"), std::string::npos)
      << error->message;
}

TEST_F (Counting, RowsOnADeviceAreRefused)
{
  g_autoptr (GError) error = nullptr;
  float value;
  TpsStepVectors vectors = { &value, 1 };

  start (Mode::AT_ONCE, 0);
  client->device = tps_fake_device_get (0);
  prefetch ({ 3 });
  EXPECT_FALSE (tps_table_steps_take (steps, &vectors, &error));
  EXPECT_EQ (error->code, TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_STREQ (error->message, "table t0: its rows are in memory of cuda:0, and are pooled in "
                                "host memory: the client must have no device for lookups");
}

TEST (TableSteps, TheReleaseWaitsForPushesInFlight)
{
  Store store = make_store ({ 1 }, TPS_INITIALIZER_ZEROS,
                            tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1));
  StoreClient client (store.get (), Mode::THREADS);
  TpsTableSteps *steps = make_steps (&client, { 1 }, 1);
  const gint64 ids[] = { 3 }, offsets[] = { 0 };
  float value;
  TpsStepBags bags = { ids, 1, offsets, 1 };
  TpsStepVectors vectors = { &value, 1 };
  TpsBagQuery query = { "t0",
                        { { TPS_DTYPE_INT64, 1, { 1 } }, ids },
                        { { TPS_DTYPE_INT64, 1, { 1 } }, offsets },
                        TPS_POOLING_SUM,
                        {} };
  g_auto (TpsTensor) row = {};

  /* The push takes effect after tps_table_steps_free() has probably begun. */
  std::atomic<bool> is_freeing { false };
  client.before_push = [&] {
    while (!is_freeing)
      std::this_thread::yield ();
    for (int i = 0; i < 1000; i++)
      std::this_thread::yield ();
  };
  ASSERT_TRUE (tps_table_steps_prefetch (steps, &bags, nullptr));
  ASSERT_TRUE (tps_table_steps_take (steps, &vectors, nullptr));
  value = -1;
  ASSERT_TRUE (tps_table_steps_push (steps, &vectors, nullptr));
  is_freeing = true;
  tps_table_steps_free (steps);
  ASSERT_TRUE (tps_table_store_lookup_bags (store.get (), nullptr, &query, 1, &row, nullptr));
  EXPECT_EQ (*static_cast<float *> (tps_tensor_data (&row)), 1);
}

}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables used by several threads, in host memory and on a device. Run these tests under the thread
 * sanitizer too. */

#include <atomic>
#include <thread>

#include "tests/runtime/fake_device/fake_device.h"
#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

const TpsDType dtypes[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 };

TpsDevice *
find_device (const gchar *, GError **)
{
  return tps_fake_device_get (0);
}

/* The parameter is the device of the tables. */
class TableThreads : public testing::TestWithParam<const char *>
{
protected:
  /* Returns the specification of a table in which all values of a row are equal. Every update
   * preserves this. */
  static Spec
  flat_table (int64_t rows, int32_t dim, TpsDType dtype)
  {
    Spec spec ("emb", rows, dim);

    return spec.zeros ().dtype (dtype).optimizer (TPS_OPTIMIZER_SGD, 1).on (GetParam ());
  }

  const bool is_on_device_ = !g_str_equal (GetParam (), "cpu");
};

INSTANTIATE_TEST_SUITE_P (Devices, TableThreads, testing::Values ("cpu", "fake:0"),
                          [] (const auto &place) {
                            return g_str_equal (place.param, "cpu") ? "cpu" : "device";
                          });

bool
is_flat (const Floats &values, size_t dim)
{
  for (size_t i = 0; i < values.size (); i++)
    if (values[i] != values[i / dim * dim])
      return false;
  return true;
}

} // namespace

/* The table has few rows, so that readers and writers collide. The rows consist of words of 8, 4
 * and 2 bytes. Some are so long that updates are often interrupted. */
TEST_P (TableThreads, ReadersNeverSeeHalfAnUpdate)
{
  for (TpsDType dtype : dtypes)
    for (int32_t dim : { 13, 32, is_on_device_ ? 64 : 6000 })
      {
        constexpr int64_t rows = 5;
        constexpr int n_writers = 2, n_readers = 3;
        Store store (is_on_device_ ? 1 : 0, Devices { find_device });
        std::atomic<int> n_reading { n_readers };
        std::atomic<int> n_torn { 0 };
        std::vector<std::thread> threads;
        size_t columns = static_cast<size_t> (dim);

        ASSERT_EQ (store.create (flat_table (rows, dim, dtype)), "");
        for (int writer = 0; writer < n_writers; writer++)
          threads.emplace_back ([&, writer] {
            for (int step = 0; n_reading > 0; step++)
              {
                float amount = static_cast<float> ((step + writer) % 7 - 3);

                store.apply_rows ("emb", { 0, 1, 2, 3, 4 }, Floats (5 * columns, amount), dim);
              }
          });
        for (int reader = 0; reader < n_readers; reader++)
          threads.emplace_back ([&, reader] {
            Query query { "emb", { 0, 4, 1, 3, 2, 2, 0 }, { 0, 1, 3 } };
            std::string bytes;

            query.pooling = static_cast<TpsPooling> (1 + reader % 2);
            for (int i = 0; i < (is_on_device_ ? 60 : 120); i++)
              {
                n_torn += !is_flat (store.pooled (query), columns);
                store.rows ("emb", { 4, 0, 2 }, &bytes);
                n_torn += !is_flat (to_floats (bytes, dtype), columns);
              }
            n_reading--;
          });
        for (std::thread &thread : threads)
          thread.join ();
        EXPECT_EQ (n_torn, 0) << tps_dtype_name (dtype) << " dim " << dim;
      }
}

/* Pooling uses another path if there is a concurrent writer. The bits must be the same. */
TEST (TableThreadsOnTheHost, LookupsBesideAWriterOfOtherRowsHaveTheSameBits)
{
  constexpr int64_t rows = 200;
  constexpr size_t dim = 24;

  for (TpsDType dtype : dtypes)
    {
      Store store (2);
      std::atomic<bool> is_done { false };
      std::mt19937_64 random (1);
      Spec spec ("emb", rows, dim);

      ASSERT_EQ (store.create (spec.dtype (dtype).normal (4)), "");
      std::vector<Query> queries;
      std::vector<Floats> expected;
      for (int i = 0; i < 30; i++)
        {
          auto pooling = static_cast<TpsPooling> (1 + i % 2);

          queries.push_back (random_query (random, "emb", rows / 2, 60, 90, pooling,
                                           i % 6 == 0 && pooling == TPS_POOLING_SUM));
          expected.push_back (store.pooled (queries.back ()));
        }
      std::thread writer ([&] {
        Ids ids (500);

        for (size_t i = 0; i < ids.size (); i++)
          ids[i] = rows / 2 + static_cast<int64_t> (i) % (rows / 2);
        while (!is_done)
          store.apply_rows ("emb", ids, Floats (ids.size () * dim, 0.5f), dim);
      });
      for (int round = 0; round < 5; round++)
        for (size_t i = 0; i < queries.size (); i++)
          EXPECT_EQ (store.pooled (queries[i]), expected[i]) << tps_dtype_name (dtype);
      is_done = true;
      writer.join ();
    }
}

TEST_P (TableThreads, DroppedTablesLiveAsLongAsTheyAreUsed)
{
  constexpr int n_users = 3;
  Store store (2, Devices { find_device });
  std::atomic<int> n_left { n_users };
  std::atomic<int> n_wrong { 0 };
  std::vector<std::thread> threads;
  Spec spec = flat_table (50, 16, TPS_DTYPE_FLOAT32);

  for (int user = 0; user < n_users; user++)
    threads.emplace_back ([&] {
      for (int i = 0; i < (is_on_device_ ? 60 : 300); i++)
        {
          std::vector<Floats> outputs;
          Query query { "emb", { 1, 2, 3, 49 }, { 0, 2 } };
          std::string said = store.lookup ({ query, query }, &outputs);

          n_wrong += said != "" && said.find ("NOT_FOUND") != 0;
          said = store.apply_bags ({ query }, { Floats (32, 1.0f) }, 16);
          n_wrong += said != "" && said.find ("NOT_FOUND") != 0;
        }
      n_left--;
    });
  while (n_left > 0)
    {
      EXPECT_EQ (store.create (spec), "");
      EXPECT_EQ (store.drop ("emb"), "");
    }
  for (std::thread &thread : threads)
    thread.join ();
  EXPECT_EQ (n_wrong, 0);
  EXPECT_EQ (tps_budget_get_held ((store.get ())->budget), 0u);
  EXPECT_EQ (tps_budget_get_held ((store.get ())->device_budget), 0u);
}

/* One thread creates the table, but all calls must succeed. The limit has room for one table. */
TEST (TableThreadsOnTheHost, OneNameIsMadeOnce)
{
  Spec spec = Spec ("emb", 20000, 16).normal (1);

  for (int round = 0; round < 5; round++)
    {
      Store store (2, { 20000 * 16 * 4 * 3 / 2 });
      std::vector<std::thread> threads;
      std::atomic<int> n_ok { 0 };

      for (int i = 0; i < 4; i++)
        threads.emplace_back ([&] { n_ok += store.create (spec) == ""; });
      for (std::thread &thread : threads)
        thread.join ();
      EXPECT_EQ (n_ok, 4);
      EXPECT_GE (tps_budget_get_held ((store.get ())->budget), 20000u * 16 * 4);
    }
}

TEST (TableThreadsOnTheHost, OfTwoSpecificationsOneWins)
{
  Store store (1);
  std::string said[2];
  std::thread other ([&] { said[0] = store.create (Spec ("emb", 5000, 16)); });

  said[1] = store.create (Spec ("emb", 5000, 8));
  other.join ();
  EXPECT_EQ ((said[0] == "") + (said[1] == ""), 1);
  EXPECT_EQ (said[said[0] == ""].find ("ALREADY_EXISTS table emb"), 0u);
}

/* The pool's only thread makes calls that use helpers from the same pool. They must not wait for a
 * helper. */
TEST (TableThreadsOnTheHost, CallsFromAWorkerDoNotWaitForItself)
{
  struct Job
  {
    TpsTableStore *store;
    std::atomic<bool> is_done { false };
    bool ok = false;
  };
  TpsWorkerPool *pool = tps_worker_pool_new ("one", 1);
  TpsTableStoreOptions options {};
  options.workers = pool;
  Job job { tps_table_store_new (&options) };

  tps_worker_pool_submit (
      pool,
      [] (gpointer user_data) {
        Job *mine = static_cast<Job *> (user_data);
        Spec spec = Spec ("emb", 30000, 16).normal (1);
        Ids ids (20000, 5);
        TpsTensor rows {};

        mine->ok = tps_table_store_create (mine->store, &spec.value, nullptr)
                   && tps_table_store_lookup_rows (mine->store, nullptr, "emb", view (ids), &rows,
                                                   nullptr, nullptr);
        tps_tensor_clear (&rows);
        mine->is_done = true;
      },
      &job);
  tps_worker_pool_free (pool); /* waits for the end of the job */
  EXPECT_TRUE (job.is_done && job.ok);
  tps_table_store_free (job.store);
}

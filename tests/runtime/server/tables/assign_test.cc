/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Assigned rows, and the LSNs of their last changes, compared with a naive table, and with
 * threads. */

#include <atomic>
#include <map>
#include <thread>

#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

constexpr int64_t kRows = 12;
constexpr int32_t kDim = 3;

struct Row
{
  Floats values = Floats (kDim);
  int64_t lsn = 1; /* the LSN of the table's creation */
};

class Assign : public testing::Test
{
protected:
  Assign () : store_ (make_options ())
  {
    create ("emb");
  }

  static TpsTableStoreOptions
  make_options ()
  {
    TpsTableStoreOptions options = {};

    options.keeps_row_lsns = TRUE;
    return options;
  }

  void
  create (const std::string &name, TpsDType dtype = TPS_DTYPE_FLOAT32)
  {
    EXPECT_EQ (
        store_.create (
            Spec (name, kRows, kDim).zeros ().dtype (dtype).optimizer (TPS_OPTIMIZER_SGD, 1)),
        "");
  }

  static std::string
  push (TpsTableStore *store, const TpsTablePush &request)
  {
    GError *error = nullptr;

    tps_table_store_push_and_wait (store, &request, &error);
    return describe (error);
  }

  static TpsTablePush
  assignment (const char *table, const Ids &ids, const Floats &values, int64_t as_of_lsn = 0)
  {
    TpsTablePush request = {};

    request.may_wait = TRUE;
    request.table = table;
    request.indices = view (ids);
    request.values = view (values, kDim);
    request.is_assignment = TRUE;
    request.as_of_lsn = as_of_lsn;
    return request;
  }

  std::string
  assign (const Ids &ids, const Floats &values, int64_t as_of_lsn = 0)
  {
    return push (store_.get (), assignment ("emb", ids, values, as_of_lsn));
  }

  std::map<int64_t, Row>
  read (const Ids &ids, const std::string &table = "emb")
  {
    g_auto (TpsTensor) rows = {}, lsns = {};
    std::map<int64_t, Row> found;

    const TpsTableLookup request = {};

    EXPECT_TRUE (tps_table_store_lookup_rows (store_.get (), &request, table.c_str (), view (ids),
                                              &rows, &lsns, nullptr));
    for (size_t i = 0; i < ids.size (); i++)
      {
        const auto *values = static_cast<const float *> (tps_tensor_data (&rows)) + i * kDim;

        found[ids[i]].values = Floats (values, values + kDim);
        found[ids[i]].lsn = static_cast<const int64_t *> (tps_tensor_data (&lsns))[i];
      }
    return found;
  }

  Store store_;
};

} // namespace

/* Random pushes and assignments with old and new LSNs. A row that changed after the LSN of an
 * assignment must keep its value. */
TEST_F (Assign, KeepsTheNewest)
{
  for (unsigned seed = 1; seed <= 20; seed++)
    {
      std::mt19937_64 random (seed);
      std::map<int64_t, Row> expected;
      int64_t first_lsn;

      EXPECT_EQ (store_.drop ("emb"), "");
      create ("emb");
      first_lsn = read ({ 0 })[0].lsn;
      for (int64_t row = 0; row < kRows; row++)
        expected[row].lsn = first_lsn;
      for (int64_t lsn = first_lsn + 1; lsn < first_lsn + 60; lsn++)
        {
          Ids ids (random () % 6);
          Floats values = random_floats (random, ids.size () * kDim);
          int64_t as_of = random () % 3 == 0 ? 0 : lsn - static_cast<int64_t> (random () % 15);
          bool is_push = random () % 2 == 0;
          std::map<int64_t, Row> before = expected;

          for (size_t i = 0; i < ids.size (); i++)
            {
              Row &row = expected[ids[i] = static_cast<int64_t> (random () % kRows)];

              if (!is_push && as_of != 0 && before[ids[i]].lsn > as_of)
                continue;
              for (size_t k = 0; k < kDim; k++)
                row.values[k] = is_push ? row.values[k] - values[i * kDim + k]
                                        : values[i * kDim + k];
              row.lsn = lsn;
            }
          ASSERT_EQ (is_push ? store_.apply_rows ("emb", ids, values, kDim)
                             : assign (ids, values, as_of),
                     "");
          std::map<int64_t, Row> found = read (ids_of (whole (kRows)));
          for (int64_t row = 0; row < kRows; row++)
            {
              ASSERT_EQ (found[row].values, expected[row].values) << "row " << row;
              ASSERT_EQ (found[row].lsn, expected[row].lsn) << "row " << row;
            }
        }
    }
}

/* A change between a read of a row and an assignment of its values must never be lost. */
TEST_F (Assign, LosesNoPushOfAnotherThread)
{
  constexpr int kPushes = 2000;
  std::atomic<bool> is_over { false };
  std::thread pusher ([&] {
    for (int i = 0; i < kPushes; i++)
      EXPECT_EQ (store_.apply_rows ("emb", { 5 }, Floats (kDim, -1), kDim), "");
    is_over = true;
  });
  do
    {
      Row row = read ({ 5 })[5];
      Floats changed = row.values;

      changed[1] += 0.5f; /* column 0 counts the pushes, so it stays unchanged */
      EXPECT_EQ (assign ({ 5 }, changed, row.lsn), "");
    }
  while (!is_over && !HasFailure ());
  pusher.join ();
  EXPECT_EQ (read ({ 5 })[5].values[0], kPushes);
}

/* Each push adds 1, so a row's value determines its LSN. */
TEST_F (Assign, ReadsRowAndLsnAtOneMoment)
{
  const int64_t created = read ({ 7 })[7].lsn;
  std::atomic<bool> is_over { false };
  std::thread pusher ([&] {
    for (int i = 0; i < 5000; i++)
      EXPECT_EQ (store_.apply_rows ("emb", { 7 }, Floats (kDim, -1), kDim), "");
    is_over = true;
  });
  do
    {
      Row row = read ({ 3, 7, 9 })[7];

      EXPECT_EQ (row.values, Floats (kDim, static_cast<float> (row.lsn - created)));
    }
  while (!is_over && !HasFailure ());
  pusher.join ();
}

TEST_F (Assign, RowsOfHalfFloatsTakeBoth)
{
  const std::string half ("\x00\x3c\x00\x3c\x00\x3c", 2 * kDim); /* 1 in FLOAT16 */
  const Ids ids = { 4 };
  const Floats values (kDim, 1);
  TpsTablePush request;
  std::string rows;

  create ("half", TPS_DTYPE_FLOAT16);
  request = assignment ("half", ids, values);
  request.indices = view (ids);
  request.values = view (values, kDim);
  EXPECT_EQ (push (store_.get (), request), "");
  EXPECT_EQ (store_.rows ("half", { 4, 5 }, &rows), "");
  EXPECT_EQ (rows, half + std::string (2 * kDim, 0));

  request.values.shape.dtype = TPS_DTYPE_FLOAT16;
  request.values.data = half.data ();
  EXPECT_EQ (push (store_.get (), request), "");
  EXPECT_EQ (store_.rows ("half", { 4 }, &rows), "");
  EXPECT_EQ (rows, half);
}

TEST (AssignWithoutLsns, RefusesLsns)
{
  Store store;
  const Ids ids = { 1 };
  const Floats values (kDim, 1);
  g_auto (TpsTensor) rows = {}, lsns = {};
  TpsTablePush request = {};
  GError *error = nullptr;

  EXPECT_EQ (store.create (Spec ("emb", kRows, kDim).zeros ()), "");
  request.may_wait = TRUE;
  request.table = "emb";
  request.indices = view (ids);
  request.values = view (values, kDim);
  request.is_assignment = TRUE;
  EXPECT_TRUE (tps_table_store_push_and_wait (store.get (), &request, nullptr));
  EXPECT_EQ (store.row ("emb", TPS_DTYPE_FLOAT32, 1), values);
  request.as_of_lsn = 1;
  EXPECT_FALSE (tps_table_store_push_and_wait (store.get (), &request, &error));
  EXPECT_EQ (describe (error).rfind ("INVALID_ARGUMENT", 0), 0u);
  error = nullptr;
  const TpsTableLookup lookup = {};
  EXPECT_FALSE (
      tps_table_store_lookup_rows (store.get (), &lookup, "emb", view (ids), &rows, &lsns, &error));
  EXPECT_EQ (describe (error).rfind ("INVALID_ARGUMENT", 0), 0u);
}

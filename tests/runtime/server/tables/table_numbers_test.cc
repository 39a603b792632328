/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The counters of each table. They must count work that had an effect, exactly once, until the
 * table is dropped. */

#include <set>

#include "tests/runtime/base/readings.h"
#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;
using thriftps_test::ForEachNumber;
using thriftps_test::ReadNumber;

namespace {

class TableNumbers : public testing::Test
{
protected:
  TableNumbers () : store_ (make_options ())
  {
  }
  ~TableNumbers () override
  {
    tps_counters_unref (counters_);
  }

  TpsTableStoreOptions
  make_options ()
  {
    TpsTableStoreOptions options = {};

    options.counters = counters_;
    return options;
  }
  gint64
  number (const char *name, const char *table = "emb")
  {
    return ReadNumber (counters_, name, table);
  }

  TpsCounters *counters_ = tps_counters_new ();
  Store store_;
};

TEST_F (TableNumbers, CountCallsThatTakeEffect)
{
  std::vector<Floats> outputs;
  std::string bytes;
  Query query { "emb", { 1, 2, 2, 3 }, { 0, 2 } };

  EXPECT_EQ (store_.create (Spec ("emb", 10, 4).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1)), "");
  EXPECT_EQ (store_.create (Spec ("other", 20, 4).zeros ().optimizer (TPS_OPTIMIZER_SGD, 1)), "");
  EXPECT_EQ (number ("table_rows"), 10);
  EXPECT_EQ (number ("table_bytes") + number ("table_bytes", "other"),
             (gint64) tps_budget_get_held ((store_.get ())->budget));

  EXPECT_EQ (store_.lookup ({ query, query }, &outputs), "");
  EXPECT_EQ (number ("table_lookups_total"), 2);
  EXPECT_EQ (number ("table_lookup_rows_total"), 8);
  EXPECT_EQ (number ("table_lookup_bytes_total"), 2 * 2 * 4 * 4) << "queries, bags, columns, float";
  EXPECT_EQ (store_.rows ("emb", { 1, 1, 5 }, &bytes), "");
  EXPECT_EQ (number ("table_lookups_total"), 3);
  EXPECT_EQ (number ("table_lookup_rows_total"), 11);
  EXPECT_EQ (number ("table_lookup_bytes_total"), 64 + 3 * 4 * 4);
  EXPECT_NE (store_.rows ("emb", { 10 }, &bytes), "");
  EXPECT_NE (store_.lookup ({ query, { "none", { 1 }, { 0 } } }, &outputs), "");
  EXPECT_EQ (number ("table_lookups_total"), 3) << "failed ones are not counted";

  EXPECT_EQ (store_.apply_rows ("emb", { 1, 2 }, Floats (8), 4), "");
  EXPECT_EQ (store_.apply_bags ({ query }, { Floats (8) }, 4), "");
  EXPECT_NE (store_.apply_rows ("emb", { 10 }, Floats (4), 4), "");
  EXPECT_EQ (number ("table_pushes_total"), 2);
  EXPECT_EQ (number ("table_push_rows_total"), 6);
  EXPECT_EQ (number ("table_push_bytes_total"), 2 * 4 * 4 + 2 * 4 * 4);
  EXPECT_EQ (number ("table_pushes_total", "other"), 0);
}

TEST_F (TableNumbers, TimeAtMostTwoHundredTables)
{
  std::set<std::string> names;

  for (int i = 0; i < 300; i++)
    EXPECT_EQ (store_.create (Spec ("t" + std::to_string (i), 1, 1).zeros ()), "");
  ForEachNumber (counters_, [&] (const TpsFamily &family, const TpsSample &sample) {
    if (g_str_equal (family.name, "table_lookup_duration_seconds"))
      names.insert (sample.values[0]);
  });
  EXPECT_EQ (names.size (), 201);
  EXPECT_EQ (names.count (TPS_OTHER_VALUES), 1);
}

TEST_F (TableNumbers, OfATableNamedOtherAreItsOwn)
{
  EXPECT_EQ (store_.create (Spec ("other", 7, 1).zeros ()), "");
  for (int i = 0; i < TPS_FAMILY_MAX_SERIES + 5; i++)
    EXPECT_EQ (store_.create (Spec ("t" + std::to_string (i), 1, 1).zeros ()), "");
  EXPECT_EQ (number ("table_rows", "other"), 7);
  EXPECT_EQ (number ("table_rows", TPS_OTHER_VALUES), 6);
  EXPECT_NE (store_.create (Spec (TPS_OTHER_VALUES, 1, 1).zeros ()), "") << "not a name";
}

/* Peers choose the names. Tables beyond the limit must share series, whose gauges are sums. */
TEST_F (TableNumbers, OfManyTablesHaveABound)
{
  const int n_tables = TPS_FAMILY_MAX_SERIES + 20;

  for (int i = 0; i < n_tables; i++)
    EXPECT_EQ (store_.create (Spec ("t" + std::to_string (i), 7, 1).zeros ()), "");
  EXPECT_EQ (number ("table_rows", TPS_OTHER_VALUES), 20 * 7);
  EXPECT_EQ (ReadNumber (counters_, "table_rows"), n_tables * 7);
  EXPECT_EQ (store_.drop ("t" + std::to_string (n_tables - 1)), "");
  EXPECT_EQ (number ("table_rows", TPS_OTHER_VALUES), 19 * 7);
  EXPECT_EQ (store_.drop ("t0"), "");
  EXPECT_EQ (store_.create (Spec ("new", 7, 1).zeros ()), "");
  EXPECT_EQ (number ("table_rows", "new"), 7) << "there is room again";
}

} // namespace

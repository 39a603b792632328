/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests tables over 1 to 4 servers, on Unix and TCP sockets. */

#include <cmath>
#include <thread>

#include "runtime/ports/table_client.h"
#include "tests/integration/tables/tables_fixture.h"

namespace tps_test {

class Tables : public TablesTest
{
};

class TablesOver : public TablesTest,
                   public testing::WithParamInterface<std::tuple<guint, const char *>>
{
protected:
  TablesOver ()
  {
    start (std::get<0> (GetParam ()), std::get<1> (GetParam ()));
  }

  /* Compares a result with that of the reference. They must have the same bits if `tables_` is
   * exact or a maximum was pooled. Otherwise servers add their rows first, in another order. */
  void
  compare (const Bags &bags, const TpsTensor &ours, const TpsTensor &theirs)
  {
    auto found = static_cast<const float *> (tps_tensor_data (&ours));
    auto expected = static_cast<const float *> (tps_tensor_data (&theirs));

    ASSERT_TRUE (tps_shape_equal (&ours.shape, &theirs.shape));
    if (is_exact_ || bags.pooling == TPS_POOLING_MAX)
      {
        EXPECT_EQ (bits_of (ours), bits_of (theirs)) << bags.table;
        return;
      }
    for (size_t bag = 0; bag < bags.offsets.size (); bag++)
      check_close (bags, bag, found, expected);
  }

  /* The bound that thriftps/tables.h promises. */
  void
  check_close (const Bags &bags, size_t bag, const float *found, const float *expected)
  {
    bool is_last = bag + 1 == bags.offsets.size ();
    auto begin = static_cast<size_t> (bags.offsets[bag]);
    size_t end = is_last ? bags.indices.size () : static_cast<size_t> (bags.offsets[bag + 1]);
    size_t n = end - begin;
    double divisor = bags.pooling == TPS_POOLING_MEAN && n > 0 ? static_cast<double> (n) : 1;
    g_auto (TpsTensor) rows = {};
    Bags single;

    single.table = bags.table;
    for (size_t i = begin; i < end; i++)
      {
        single.offsets.push_back (static_cast<gint64> (i - begin));
        single.indices.push_back (bags.indices[i]);
      }
    TpsBagQuery query = single.query ();
    ASSERT_TRUE (reference_lookup_bags (reference_, &query, 1, &rows, &error_)) << text ();
    auto dim = static_cast<size_t> (rows.shape.dims[1]);
    auto values = static_cast<const float *> (tps_tensor_data (&rows));
    for (size_t d = 0; d < dim; d++)
      {
        double terms = 0, theirs = expected[bag * dim + d];

        for (size_t i = 0; i < n; i++)
          terms += std::fabs ((bags.has_weights ? bags.weights[begin + i] : 1)
                              * values[i * dim + d]);
        double bound = 2 * static_cast<double> (n > 0 ? n - 1 : 0) * 0x1p-24 * terms / divisor;
        if (divisor > 1)
          bound += std::fabs (theirs) * 0x1p-23 + 0x1p-148;
        ASSERT_LE (std::fabs (found[bag * dim + d] - theirs), bound) << bags.table;
      }
  }

  /* Looks up several tables in one call. */
  void
  compare_lookups (Random &random, guint n_queries)
  {
    std::vector<Bags> bags;
    std::vector<TpsBagQuery> queries;
    std::vector<TpsTensor> ours (n_queries), theirs (n_queries);

    for (guint i = 0; i < n_queries; i++)
      bags.push_back (random_bags (random, specs_[i % specs_.size ()]));
    for (const Bags &each : bags)
      queries.push_back (each.query ());
    ASSERT_TRUE (tps_remote_tables_lookup_bags_sync (tables_, queries.data (), n_queries, later (),
                                                     ours.data (), &error_))
        << text ();
    ASSERT_TRUE (
        reference_lookup_bags (reference_, queries.data (), n_queries, theirs.data (), &error_))
        << text ();
    for (guint i = 0; i < n_queries; i++)
      {
        compare (bags[i], ours[i], theirs[i]);
        tps_tensor_clear (&ours[i]);
        tps_tensor_clear (&theirs[i]);
      }
  }

  void
  push_some (Random &random, guint n_gradients)
  {
    std::vector<Bags> bags;
    std::vector<TpsBagGradient> gradients;

    for (guint i = 0; i < n_gradients; i++)
      bags.push_back (random_bags (random, specs_[i % specs_.size ()]));
    for (guint i = 0; i < n_gradients; i++)
      gradients.push_back (bags[i].bag_gradient (specs_[i % specs_.size ()].dim));
    ASSERT_TRUE (tps_remote_tables_apply_bags_sync (tables_, gradients.data (), n_gradients,
                                                    later (), &error_))
        << text ();
    ASSERT_TRUE (reference_apply_bags (reference_, gradients.data (), n_gradients, &error_))
        << text ();
  }

  void
  push_rows (Random &random, const TpsTableSpec &spec)
  {
    std::vector<gint64> rows = random_rows (random, spec.shard.rows, 20);
    std::vector<float> values = random_values (random, 20 * static_cast<size_t> (spec.dim));
    TpsTensorView view = view_of (values, spec.dim);

    ASSERT_TRUE (tps_remote_tables_apply_rows_sync (tables_, spec.name, view_of (rows), view,
                                                    later (), &error_))
        << text ();
    ASSERT_TRUE (tps_table_store_apply_rows (reference_, spec.name, view_of (rows), view, &error_))
        << text ();
  }

  void
  assign_rows (Random &random, const TpsTableSpec &spec)
  {
    std::vector<gint64> rows = random_rows (random, spec.shard.rows, 20);
    std::vector<float> values = random_values (random, 20 * static_cast<size_t> (spec.dim));
    TpsTablePush push = {};

    push.table = spec.name;
    push.indices = view_of (rows);
    push.values = view_of (values, spec.dim);
    push.is_assignment = TRUE;
    ASSERT_TRUE (tps_remote_tables_assign_rows_sync (tables_, spec.name, push.indices, push.values,
                                                     later (), &error_))
        << text ();
    ASSERT_TRUE (tps_table_store_push_and_wait (reference_, &push, &error_)) << text ();
  }

  bool is_exact_ = true;
};

TEST_P (TablesOver, HaveTheBitsOfTablesInOnePiece)
{
  Random random (std::get<0> (GetParam ()) * 100 + std::get<1> (GetParam ())[0]);

  connect (true);
  for (TpsShardKind kind : { TPS_SHARD_WHOLE, TPS_SHARD_RANGE, TPS_SHARD_HASH })
    for (int i = 0; i < 2; i++)
      create (random_spec (random, "table" + std::to_string (kind) + std::to_string (i)), kind,
              static_cast<guint> (addresses_.size ()) - 1);
  TpsRemoteTables *others[] = { tables_, new_tables (addresses_) };
  ASSERT_TRUE (tps_remote_tables_discover (others[1], later (), &error_)) << text ();
  for (int step = 0; step < 20 && !HasFailure (); step++)
    {
      for (int i = 1; i >= 0; i--)
        {
          tables_ = others[i];
          is_exact_ = i == 0;
          compare_lookups (random, 7);
        }
      push_some (random, 7);
      for (const TpsTableSpec &spec : specs_)
        {
          push_rows (random, spec);
          ASSERT_EQ (rows_here (spec), rows_of_reference (spec)) << spec.name;
          assign_rows (random, spec);
          ASSERT_EQ (rows_here (spec), rows_of_reference (spec)) << spec.name;
        }
    }
  tps_remote_tables_free (others[1]);
}

TEST_P (TablesOver, OthersDiscoverThem)
{
  connect ();
  create ("by_hash", 1000, 4, TPS_SHARD_HASH);
  create ("by_range", 1000, 8, TPS_SHARD_RANGE);
  create ("whole", 10, 4, TPS_SHARD_WHOLE, static_cast<guint> (addresses_.size ()) - 1);
  TpsRemoteTables *first = tables_;
  connect ();
  Bags bags;
  g_auto (TpsTensor) output = {};
  bags.table = "by_hash";
  EXPECT_FALSE (look_up (bags, later (), &output));
  EXPECT_EQ (code (), TPS_ERROR_NOT_FOUND);
  g_clear_error (&error_);
  ASSERT_TRUE (tps_remote_tables_discover (tables_, later (), &error_)) << text ();
  for (const TpsTableSpec &spec : specs_)
    EXPECT_EQ (rows_here (spec), rows_of_reference (spec)) << spec.name;
  tps_remote_tables_free (first);
}

TEST_P (TablesOver, AreListedWhole)
{
  connect ();
  create ("b", 1000, 4, TPS_SHARD_HASH);
  create ("a", 1000, 8, TPS_SHARD_RANGE);
  g_autoptr (GPtrArray) list = tps_remote_tables_list (tables_, later (), &error_);
  ASSERT_NE (list, nullptr) << text ();
  ASSERT_EQ (list->len, 2u);
  const TpsRemoteTable *a = static_cast<const TpsRemoteTable *> (list->pdata[0]);
  g_auto (TpsTableSpec) spec = {};
  ASSERT_TRUE (tps_table_spec_init_from (&spec, a, &error_)) << text ();
  EXPECT_STREQ (a->name, "a");
  EXPECT_EQ (a->shard_kind, TPS_SHARD_RANGE);
  EXPECT_STREQ (tps_table_spec_dup_difference (&spec, &specs_[1]), nullptr);
  EXPECT_GE (a->bytes, 1000 * 8 * 4);
}

TEST_P (TablesOver, DroppedOnesAreGoneEverywhere)
{
  connect ();
  const TpsTableSpec &spec = create ("emb", 1000, 4, TPS_SHARD_HASH);
  g_auto (TpsTensor) rows = {};
  std::vector<gint64> ids = { 1 };
  ASSERT_TRUE (tps_remote_tables_drop (tables_, "emb", later (), &error_)) << text ();
  for (auto &server : servers_)
    EXPECT_EQ (tps_budget_get_held ((server->store ())->budget), 0u);
  EXPECT_FALSE (tps_remote_tables_lookup_rows_sync (tables_, spec.name, view_of (ids), later (),
                                                    &rows, &error_));
  EXPECT_EQ (code (), TPS_ERROR_NOT_FOUND);
  g_clear_error (&error_);
  EXPECT_FALSE (tps_remote_tables_drop (tables_, "emb", later (), &error_));
  EXPECT_EQ (code (), TPS_ERROR_NOT_FOUND);
}

INSTANTIATE_TEST_SUITE_P (Servers, TablesOver,
                          testing::Combine (testing::Range (1u, 5u),
                                            testing::Values ("unix", "tcp")),
                          [] (const auto &test) {
                            return std::to_string (std::get<0> (test.param)) + "Over"
                                   + std::get<1> (test.param);
                          });

TEST_F (Tables, LargeCallsPass)
{
  Random random (2);
  Bags bags;

  start (3, "tcp");
  connect (true);
  const TpsTableSpec &spec = create ("large", 20000, 64, TPS_SHARD_HASH);
  bags.table = "large";
  bags.indices = random_rows (random, spec.shard.rows, 20000);
  for (gint64 i = 0; i < 20000; i += 10)
    bags.offsets.push_back (i);
  bags.gradient = random_values (random, bags.offsets.size () * 64);
  for (int step = 0; step < 2; step++)
    {
      g_auto (TpsTensor) ours = {}, theirs = {};
      TpsBagQuery query = bags.query ();

      ASSERT_TRUE (look_up (bags, later (), &ours)) << text ();
      ASSERT_TRUE (tps_table_store_lookup_bags (reference_, nullptr, &query, 1, &theirs, nullptr));
      ASSERT_EQ (bits_of (ours), bits_of (theirs));
      ASSERT_TRUE (push (spec, bags, later ())) << text ();
      push_to_reference (spec, bags);
    }
}

/* -- creation -- */

TEST_F (Tables, IdenticalOnesMayBeThere)
{
  TpsTablePlacement placement = { TPS_SHARD_HASH, 0 };

  start (3);
  connect ();
  const TpsTableSpec &spec = create ("emb", 100, 4, TPS_SHARD_HASH);
  std::string before = rows_here (spec);
  Bags bags;
  bags.table = "emb";
  bags.indices = { 5 };
  bags.offsets = { 0 };
  bags.gradient = { 1, 2, 3, 4 };
  ASSERT_TRUE (push (spec, bags, later ()));
  EXPECT_TRUE (tps_remote_tables_create_spec (tables_, &spec, &placement, later (), &error_))
      << text ();
  EXPECT_NE (rows_here (spec), before) << "the update is lost: the table was made anew";
}

TEST_F (Tables, ConflictNamesTheServerAndChangesNothing)
{
  TpsTablePlacement whole = { TPS_SHARD_WHOLE, 2 }, hash = { TPS_SHARD_HASH, 0 };
  g_auto (TpsTableSpec) spec = {};

  start (3);
  connect ();
  tps_table_spec_init (&spec, "emb", 100, 4);
  ASSERT_TRUE (tps_remote_tables_create_spec (tables_, &spec, &whole, later (), &error_))
      << text ();
  EXPECT_FALSE (tps_remote_tables_create_spec (tables_, &spec, &hash, later (), &error_));
  EXPECT_EQ (code (), TPS_ERROR_ALREADY_EXISTS);
  EXPECT_EQ (text ().find ("server 2 (" + addresses_[2] + "): table emb"), 0u) << text ();
  EXPECT_EQ (tps_budget_get_held ((servers_[0]->store ())->budget), 0u);
  EXPECT_GT (tps_budget_get_held ((servers_[2]->store ())->budget), 0u);
}

TEST_F (Tables, FailureDropsThePartsThatTheCallCreatedAndNoOthers)
{
  TpsTablePlacement placement = { TPS_SHARD_HASH, 0 };
  g_auto (TpsTableSpec) spec = {}, part = {};

  start (2);
  servers_.push_back (std::make_unique<TableServer> ("unix", 1000)); /* too small */
  addresses_.push_back (servers_[2]->address ());
  connect ();
  tps_table_spec_init (&spec, "emb", 999, 4);
  ASSERT_TRUE (tps_table_spec_resolve (&spec, nullptr));
  tps_table_spec_copy (&part, &spec);
  ASSERT_TRUE (tps_shard_init_hash (&part.shard, 999, 0, 3, nullptr));
  ASSERT_TRUE (tps_table_store_create (servers_[0]->store (), &part, nullptr));
  EXPECT_FALSE (tps_remote_tables_create_spec (tables_, &spec, &placement, later (), &error_));
  EXPECT_EQ (code (), TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_EQ (text ().find ("server 2 (" + addresses_[2] + "): "), 0u) << text ();
  EXPECT_GT (tps_budget_get_held ((servers_[0]->store ())->budget), 0u) << "was there before";
  EXPECT_EQ (tps_budget_get_held ((servers_[1]->store ())->budget), 0u);
}

TEST_F (Tables, BadPlacementsAndSpecificationsAreRefused)
{
  TpsTablePlacement elsewhere = { TPS_SHARD_WHOLE, 2 }, hash = { TPS_SHARD_HASH, 0 };
  g_auto (TpsTableSpec) spec = {};

  start (2);
  connect ();
  tps_table_spec_init (&spec, "emb", 100, 4);
  EXPECT_FALSE (tps_remote_tables_create_spec (tables_, &spec, &elsewhere, later (), &error_));
  EXPECT_EQ (text (), "placement.server: 2 is not in [0, 2)");
  g_clear_error (&error_);
  spec.dim = 0;
  EXPECT_FALSE (tps_remote_tables_create_spec (tables_, &spec, &hash, later (), &error_));
  EXPECT_EQ (code (), TPS_ERROR_INVALID_ARGUMENT);
}

TEST_F (Tables, PartsThatDoNotMakeAWholeAreNamed)
{
  g_auto (TpsTableSpec) part = {};

  start (2);
  connect ();
  tps_table_spec_init (&part, "emb", 100, 4);
  ASSERT_TRUE (tps_table_spec_resolve (&part, nullptr));
  ASSERT_TRUE (tps_shard_init_hash (&part.shard, 100, 0, 2, nullptr));
  ASSERT_TRUE (tps_table_store_create (servers_[0]->store (), &part, nullptr));
  EXPECT_FALSE (tps_remote_tables_discover (tables_, later (), &error_));
  EXPECT_EQ (code (), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (text (), "table emb: no server has shard 1 of 2");
}

/* -- bad calls -- */

TEST_F (Tables, BadQueriesAreNamedAsTheCallerCountsThem)
{
  start (2);
  connect ();
  create ("emb", 300, 4, TPS_SHARD_HASH);
  create ("other", 300, 4, TPS_SHARD_WHOLE, 1);
  Bags good, bad;
  TpsTensor outputs[2] = {};
  good.table = "emb";
  good.indices = { 1, 2 };
  good.offsets = { 0 };
  bad.table = "other";
  bad.indices = { 1, 300 };
  bad.offsets = { 0 };
  TpsBagQuery queries[] = { good.query (), bad.query () };
  EXPECT_FALSE (
      tps_remote_tables_lookup_bags_sync (tables_, queries, 2, later (), outputs, &error_));
  EXPECT_EQ (code (), TPS_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ (text (), "queries[1].indices[1]: 300 is not in [0, 300) of table other");
  g_clear_error (&error_);
  queries[1].table = "nowhere";
  EXPECT_FALSE (
      tps_remote_tables_lookup_bags_sync (tables_, queries, 2, later (), outputs, &error_));
  EXPECT_EQ (code (), TPS_ERROR_NOT_FOUND);
  EXPECT_EQ (text ().find ("queries[1]: table nowhere"), 0u) << text ();
  g_clear_error (&error_);
  bad.table = "emb";
  bad.indices = { 1, 2 };
  bad.gradient = { 1, 2, 3 };
  EXPECT_FALSE (push (specs_[0], bad, later ())); /* the second offset, 4, is too large */
  EXPECT_EQ (text (), "gradients[0].gradient: FLOAT32 [0, 4], expected FLOAT32 [1, 4]");
  g_clear_error (&error_);
  std::vector<gint64> rows = { 7, -1 };
  std::vector<float> values (8);
  EXPECT_FALSE (tps_remote_tables_apply_rows_sync (tables_, "emb", view_of (rows),
                                                   view_of (values, 4), later (), &error_));
  EXPECT_EQ (text (), "indices[1]: -1 is not in [0, 300) of table emb");
  g_clear_error (&error_);
  rows = { 7 };
  EXPECT_FALSE (tps_remote_tables_apply_rows_sync (tables_, "emb", view_of (rows),
                                                   view_of (values, 4), later (), &error_));
  EXPECT_EQ (text (), "values: FLOAT32 [2, 4], expected FLOAT32 [1, 4]");
}

TEST_F (Tables, EmptyCallsHaveEmptyReplies)
{
  start (2);
  connect ();
  create ("emb", 300, 4, TPS_SHARD_HASH);
  Bags bags;
  g_auto (TpsTensor) pooled = {}, rows = {};
  bags.table = "emb";
  EXPECT_TRUE (
      tps_remote_tables_lookup_bags_sync (tables_, nullptr, 0, later (), nullptr, &error_));
  EXPECT_TRUE (tps_remote_tables_apply_bags_sync (tables_, nullptr, 0, later (), &error_));
  EXPECT_TRUE (look_up (bags, later (), &pooled)) << text ();
  EXPECT_EQ (pooled.shape.dims[0], 0);
  EXPECT_EQ (pooled.shape.dims[1], 4);
  bags.offsets = { 0, 0 };
  bags.gradient.resize (8);
  EXPECT_TRUE (push (specs_[0], bags, later ())) << text ();
  EXPECT_TRUE (tps_remote_tables_lookup_rows_sync (tables_, "emb", view_of (std::vector<gint64> ()),
                                                   later (), &rows, &error_))
      << text ();
  EXPECT_EQ (rows.shape.dims[0], 0);
}

/* -- maxima -- */

/* A training step: another client pushes between the lookup and the push. The gradient must go to
 * the rows that held the maxima in the lookup, and to no other row. */
TEST_P (TablesOver, GradientsGoToTheMaximaOfTheirLookup)
{
  connect ();
  for (TpsShardKind kind : { TPS_SHARD_WHOLE, TPS_SHARD_RANGE, TPS_SHARD_HASH })
    {
      std::string name = "max" + std::to_string (kind);
      TpsTableSpec made;

      tps_table_spec_init (&made, name.c_str (), 8, 2);
      made.initializer.kind = TPS_INITIALIZER_ZEROS;
      made.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
      const TpsTableSpec &spec = create (made, kind);
      std::vector<gint64> ids = all_rows (spec);
      /* Rows 1 and 6 are equal in column 0, and row 4 has a NaN in column 1. */
      std::vector<float> values = { 0, 0, 5, 1, 2, 2, 3, 3, 4, NAN, 1, 9, 5, 7, 9, 0 };
      Bags bags, other;
      TpsTensor outputs[2] = {};
      g_auto (TpsTensor) rows = {};

      ASSERT_TRUE (tps_remote_tables_assign_rows_sync (tables_, spec.name, view_of (ids),
                                                       view_of (values, 2), later (), &error_));
      bags.table = other.table = name;
      bags.pooling = TPS_POOLING_MAX;
      bags.indices = { 6, 1, 6, 5, 4, 5, 3, 2 };
      bags.offsets = { 0, 3, 3, 6 };
      bags.gradient = { 1, 2, 4, 8, 16, 32, 64, 128 };
      TpsBagQuery query = bags.query ();
      ASSERT_TRUE (
          tps_remote_tables_lookup_maxima_sync (tables_, &query, 1, later (), outputs, &error_))
          << text ();
      const float *pooled = static_cast<const float *> (tps_tensor_data (&outputs[0]));
      const gint64 *maxima = static_cast<const gint64 *> (tps_tensor_data (&outputs[1]));
      EXPECT_EQ (std::vector<float> (pooled, pooled + 4), std::vector<float> ({ 5, 7, 0, 0 }));
      EXPECT_EQ (pooled[4], 4);
      EXPECT_TRUE (std::isnan (pooled[5]));
      EXPECT_EQ (std::vector<float> (pooled + 6, pooled + 8), std::vector<float> ({ 3, 3 }));
      bags.maxima.assign (maxima, maxima + 8);
      EXPECT_EQ (bags.maxima, std::vector<gint64> ({ 6, 6, -1, -1, 4, 4, 3, 3 }));
      other.indices = { 1 };
      other.offsets = { 0 };
      other.gradient = { -100, -100 }; /* row 1 is the largest from now on */
      ASSERT_TRUE (push (spec, other, later ())) << text ();
      ASSERT_TRUE (push (spec, bags, later ())) << text ();
      ASSERT_TRUE (tps_remote_tables_lookup_rows_sync (tables_, spec.name, view_of (ids), later (),
                                                       &rows, &error_));
      const float *cells = static_cast<const float *> (tps_tensor_data (&rows));
      EXPECT_TRUE (std::isnan (cells[9]));
      std::vector<float> found (cells, cells + 16);
      found[9] = 0;
      EXPECT_EQ (found, std::vector<float> (
                            { 0, 0, 105, 101, 2, 2, -61, -125, -12, 0, 1, 9, 4, 5, 9, 0 }));
      tps_tensor_clear (&outputs[0]);
      tps_tensor_clear (&outputs[1]);
    }
}

TEST_F (Tables, BadMaximaAreNamed)
{
  start (1);
  connect ();
  const TpsTableSpec &spec = create ("emb", 10, 2, TPS_SHARD_WHOLE);
  Bags bags;

  bags.table = "emb";
  bags.indices = { 1, 2 };
  bags.offsets = { 0 };
  bags.gradient = { 1, 1 };
  bags.maxima = { 1, 10 };
  EXPECT_FALSE (push (spec, bags, later ()));
  EXPECT_EQ (text (), "gradients[0].maxima: INT64 [1, 2], expected none: the pooling is not MAX");
  bags.pooling = TPS_POOLING_MAX;
  EXPECT_FALSE (push (spec, bags, later ()));
  EXPECT_EQ (text (), "gradients[0].maxima[1]: 10 is not in [-1, 10) of table emb");
  bags.maxima = { 1, -2 };
  EXPECT_FALSE (push (spec, bags, later ()));
  EXPECT_EQ (text (), "gradients[0].maxima[1]: -2 is not in [-1, 10) of table emb");
  TpsBagGradient gradient = bags.bag_gradient (2);
  gradient.maxima.shape.dims[1] = 1;
  g_clear_error (&error_);
  EXPECT_FALSE (tps_remote_tables_apply_bags_sync (tables_, &gradient, 1, later (), &error_));
  EXPECT_EQ (text (), "gradients[0].maxima: INT64 [1, 1], expected INT64 [1, 2]");
  bags.has_weights = true;
  bags.weights = { 1, 1 };
  EXPECT_FALSE (push (spec, bags, later ()));
  EXPECT_EQ (text (), "gradients[0].weights: only SUM takes weights, the pooling is MAX");
}

/* -- concurrency -- */

/* Each thread adds 1 to random cells of rows, with gradients of -1. The sum of small integers is
 * exact in any order. */
TEST_F (Tables, ConcurrentClientsLoseNoUpdate)
{
  constexpr int N_CLIENTS = 4, N_PUSHES = 30;
  constexpr gint64 N_ROWS = 50;
  TpsTableSpec spec;

  start (3);
  connect ();
  tps_table_spec_init (&spec, "emb", N_ROWS, 4);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  create (spec, TPS_SHARD_HASH);
  std::vector<std::thread> threads;
  std::vector<std::vector<float>> counts (N_CLIENTS, std::vector<float> (N_ROWS));
  for (int client = 0; client < N_CLIENTS; client++)
    threads.emplace_back ([&, client] {
      Random random (static_cast<guint64> (client));
      g_autoptr (TpsRemoteTables) tables = new_tables (addresses_);
      g_autoptr (GError) error = nullptr;

      ASSERT_TRUE (tps_remote_tables_discover (tables, later (), &error)) << error->message;
      for (int i = 0; i < N_PUSHES; i++)
        {
          Bags bags;
          g_auto (TpsTensor) pooled = {};

          bags.table = "emb";
          bags.indices = random_rows (random, N_ROWS, 12);
          bags.offsets = { 0, 5 };
          bags.gradient.assign (8, -1);
          for (gint64 row : bags.indices)
            counts[static_cast<size_t> (client)][static_cast<size_t> (row)]++;
          TpsBagGradient gradient = bags.bag_gradient (4);
          ASSERT_TRUE (tps_remote_tables_apply_bags_sync (tables, &gradient, 1, later (), &error))
              << error->message;
          TpsBagQuery query = bags.query ();
          ASSERT_TRUE (
              tps_remote_tables_lookup_bags_sync (tables, &query, 1, later (), &pooled, &error))
              << error->message;
          /* All columns of a row are updated together, so the sums of the columns must be equal. */
          const float *cells = static_cast<const float *> (tps_tensor_data (&pooled));
          for (int cell = 1; cell < 4; cell++)
            ASSERT_EQ (cells[cell], cells[0]);
        }
    });
  for (std::thread &thread : threads)
    thread.join ();
  std::vector<gint64> ids = all_rows (specs_[0]);
  g_auto (TpsTensor) rows = {};
  ASSERT_TRUE (
      tps_remote_tables_lookup_rows_sync (tables_, "emb", view_of (ids), later (), &rows, &error_));
  for (size_t row = 0; row < N_ROWS; row++)
    {
      float expected = 0;

      for (const std::vector<float> &each : counts)
        expected += each[row];
      EXPECT_EQ (static_cast<const float *> (tps_tensor_data (&rows))[row * 4], expected);
    }
}

/* -- push ids -- */

/* The push ids of a client start at 1, so a second client with the same name repeats them for other
 * pushes. */
TEST_F (Tables, SecondClientOfTheSameNameIsRefused)
{
  start (1);
  tables_ = new_tables (addresses_, "trainer0");
  const TpsTableSpec &spec = create ("emb", 10, 1, TPS_SHARD_WHOLE);
  Bags bags;
  bags.table = "emb";
  bags.indices = { 5 };
  bags.offsets = { 0 };
  bags.gradient = { 1 };
  ASSERT_TRUE (push (spec, bags, later ())) << text ();
  std::string after_one = rows_here (spec);
  TpsRemoteTables *first = tables_;
  tables_ = new_tables (addresses_, "trainer0");
  ASSERT_TRUE (tps_remote_tables_discover (tables_, later (), &error_));
  bags.gradient = { 2 };
  EXPECT_FALSE (push (spec, bags, later ()));
  EXPECT_EQ (code (), TPS_ERROR_DUPLICATE) << text ();
  EXPECT_EQ (rows_here (spec), after_one);
  tps_remote_tables_free (first);
}

TEST_F (Tables, ClientsWithoutANameAreDifferentOnes)
{
  start (1);
  connect ();
  const TpsTableSpec &spec = create ("emb", 10, 1, TPS_SHARD_WHOLE);
  Bags bags;
  bags.table = "emb";
  bags.indices = { 5 };
  bags.offsets = { 0 };
  for (float i = 0; i < 3; i++)
    {
      bags.gradient = { i + 1 };
      ASSERT_TRUE (push (spec, bags, later ())) << text ();
      push_to_reference (spec, bags);
      tps_remote_tables_free (tables_);
      connect ();
      ASSERT_TRUE (tps_remote_tables_discover (tables_, later (), &error_));
    }
  EXPECT_EQ (rows_here (spec), rows_of_reference (spec));
}

TEST_F (Tables, OptionsAreChecked)
{
  const gchar *bad[] = { "127.0.0.1:1", "nowhere" };
  TpsRemoteTablesOptions options = {};

  EXPECT_EQ (tps_remote_tables_new (&options, &error_), nullptr);
  EXPECT_EQ (code (), TPS_ERROR_INVALID_ARGUMENT);
  g_clear_error (&error_);
  options.addresses = bad;
  options.n_addresses = 2;
  EXPECT_EQ (tps_remote_tables_new (&options, &error_), nullptr);
  EXPECT_NE (text ().find ("nowhere"), std::string::npos);
  g_clear_error (&error_);
  options.n_addresses = 1;
  options.client = "no spaces";
  EXPECT_EQ (tps_remote_tables_new (&options, &error_), nullptr);
  EXPECT_EQ (code (), TPS_ERROR_INVALID_ARGUMENT);
}

}

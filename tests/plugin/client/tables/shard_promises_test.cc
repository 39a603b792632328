/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares random tables over 1 to 5 servers in memory with the same tables in one piece. Rows,
 * updates and fetched values must have the same bits. Pooled values must have the same bits if the
 * bag is in one shard, the pooling is MAX, or the mode is EXACT. Otherwise they may differ by at
 * most the bound in plugin/client/remote_tables.h. */

#include <gtest/gtest.h>

#include <cmath>

#include "plugin/client/tables/push_plan.h"
#include "plugin/client/tables/row_split.h"
#include "tests/plugin/client/tables/max_reference.h"

namespace tps_test {

static std::string
bits_of (const TpsTensor &tensor)
{
  return std::string (static_cast<const char *> (tps_tensor_data (&tensor)),
                      tps_shape_n_bytes (&tensor.shape));
}

static const float *
floats_of (const TpsTensor &tensor)
{
  return static_cast<const float *> (tps_tensor_data (&tensor));
}

/* Two copies of the same tables: one distributed over the servers, one in one piece. */
class World
{
public:
  World (Random &random, guint n_servers, guint n_tables)
  {
    TpsTableStoreOptions options = {};

    whole_ = tps_table_store_new (&options);
    for (guint i = 0; i < n_servers; i++)
      servers_.push_back (tps_table_store_new (&options));
    for (guint i = 0; i < n_tables; i++)
      add_table (random, "table" + std::to_string (i));
  }

  ~World ()
  {
    for (TpsPlacedTable *table : tables_)
      tps_placed_table_unref (table);
    for (TpsTableStore *server : servers_)
      tps_table_store_free (server);
    tps_table_store_free (whole_);
  }

  guint
  n_servers () const
  {
    return static_cast<guint> (servers_.size ());
  }

  TpsPlacedTable *
  any_table (Random &random) const
  {
    return tables_[static_cast<size_t> (
        random_int (random, 0, static_cast<int> (tables_.size ()) - 1))];
  }

  /* The checks compare a random query, a random table and all tables with the tables in one piece.
   * The pushes go to both copies. */
  void check_lookup (Random &random, TpsSplitMode mode);
  void push_bags (Random &random);
  void push_rows (Random &random);
  void check_rows (Random &random);
  void check_all_rows ();

private:
  void add_table (Random &random, const std::string &name);
  void run (TpsLookupPlan *plan);
  void check_bag (const TpsPlacedTable *table, const Bags &bags, size_t bag, TpsSplitMode mode,
                  const float *ours, const float *theirs);
  void check_close (const TpsPlacedTable *table, const Bags &bags, size_t bag, const float *ours,
                    const float *theirs);
  void get_rows (TpsPlacedTable *table, const std::vector<gint64> &rows, TpsTensor *ours,
                 TpsTensor *theirs);

  TpsTableStore *whole_;
  std::vector<TpsTableStore *> servers_;
  std::vector<TpsPlacedTable *> tables_;
};

void
World::add_table (Random &random, const std::string &name)
{
  TpsTableSpec spec = random_spec (random, name);
  TpsShardKind kind = static_cast<TpsShardKind> (random_int (random, 0, 2));
  TpsPlacedTable *table;

  ASSERT_TRUE (tps_table_spec_resolve (&spec, nullptr));
  table = kind == TPS_SHARD_WHOLE ? tps_placed_table_new_whole (
              &spec,
              static_cast<guint> (random_int (random, 0, static_cast<int> (n_servers ()) - 1)))
                                  : tps_placed_table_new_dealt (&spec, kind, n_servers ());
  tables_.push_back (table);
  EXPECT_TRUE (tps_table_store_create (whole_, &spec, nullptr));
  for (guint shard = 0; shard < table->n_shards; shard++)
    {
      g_auto (TpsTableSpec) part = {};
      g_autoptr (GError) error = nullptr;

      tps_placed_table_init_part (table, shard, &part);
      EXPECT_TRUE (tps_table_store_create (servers_[table->servers[shard]], &part, &error))
          << error->message;
    }
  tps_table_spec_clear (&spec);
}

void
World::run (TpsLookupPlan *plan)
{
  for (guint server = 0; server < n_servers (); server++)
    {
      const GArray *queries = plan->requests[server].queries;
      std::vector<TpsTensor> answers (queries->len);
      g_autoptr (GError) error = nullptr;

      if (queries->len == 0)
        continue;
      ASSERT_TRUE (tps_table_store_lookup_bags (servers_[server],
                                                &g_array_index (queries, TpsBagQuery, 0),
                                                queries->len, answers.data (), &error))
          << error->message;
      ASSERT_TRUE (
          tps_lookup_plan_take_answer (plan, server, answers.data (), queries->len, &error))
          << error->message;
    }
}

static bool
lies_in_one_shard (const TpsPlacedTable *table, const Bags &bags, size_t bag)
{
  size_t n = bags.begin (bag + 1) - bags.begin (bag);
  std::vector<guint> shards (n);

  tps_placed_table_find_shards (table, bags.indices.data () + bags.begin (bag), n, shards.data ());
  for (guint shard : shards)
    if (shard != shards[0])
      return false;
  return true;
}

void
World::check_close (const TpsPlacedTable *table, const Bags &bags, size_t bag, const float *ours,
                    const float *theirs)
{
  size_t begin = bags.begin (bag), n = bags.begin (bag + 1) - begin;
  size_t dim = static_cast<size_t> (table->spec.dim);
  double divisor = bags.pooling == TPS_POOLING_MEAN ? static_cast<double> (n) : 1;

  for (size_t d = 0; d < dim; d++)
    {
      double terms = 0, bound;

      for (size_t i = begin; i < begin + n; i++)
        {
          std::vector<gint64> row = { bags.indices[i] };
          g_auto (TpsTensor) fetched = {};
          float value, weight = bags.has_weights ? bags.weights[i] : 1;
          Bags one;

          one.table = bags.table;
          one.indices = row;
          one.offsets = { 0 };
          TpsBagQuery query = one.query ();
          ASSERT_TRUE (tps_table_store_lookup_bags (whole_, &query, 1, &fetched, nullptr));
          value = floats_of (fetched)[d];
          terms += std::fabs (static_cast<double> (weight * value));
        }
      bound = 2 * static_cast<double> (n - 1) * 0x1p-24 * terms / divisor;
      if (divisor > 1)
        bound += std::fabs (theirs[d]) * 0x1p-23 + 0x1p-148; /* both sides divide */
      EXPECT_LE (std::fabs (static_cast<double> (ours[d]) - theirs[d]), bound);
    }
}

void
World::check_bag (const TpsPlacedTable *table, const Bags &bags, size_t bag, TpsSplitMode mode,
                  const float *ours, const float *theirs)
{
  size_t n_bytes = static_cast<size_t> (table->spec.dim) * sizeof (float);

  if (mode == TPS_SPLIT_EXACT || bags.pooling == TPS_POOLING_MAX
      || lies_in_one_shard (table, bags, bag))
    EXPECT_EQ (memcmp (ours, theirs, n_bytes), 0) << bags.table << ", bag " << bag;
  else if (bags.begin (bag + 1) - bags.begin (bag) < 20) /* computing the bound is slow */
    check_close (table, bags, bag, ours, theirs);
}

void
World::check_lookup (Random &random, TpsSplitMode mode)
{
  guint n = static_cast<guint> (random_int (random, 0, 5));
  std::vector<Bags> bags;
  std::vector<TpsBagQuery> queries;
  std::vector<TpsPlacedTable *> tables;
  std::vector<TpsTensor> ours (n), theirs (n), maxima (n);

  for (guint i = 0; i < n; i++)
    {
      tables.push_back (any_table (random));
      bags.push_back (random_bags (random, tables[i]->spec));
    }
  for (const Bags &each : bags)
    queries.push_back (each.query ());
  g_autoptr (TpsLookupPlan)
      plan = tps_lookup_plan_new (tables.data (), queries.data (), n, mode, n_servers ());
  run (plan);
  tps_lookup_plan_finish (plan, ours.data (), maxima.data ());
  ASSERT_TRUE (reference_lookup_bags (whole_, queries.data (), n, theirs.data (), nullptr));
  for (guint i = 0; i < n; i++)
    {
      size_t dim = static_cast<size_t> (tables[i]->spec.dim);

      ASSERT_TRUE (tps_shape_equal (&ours[i].shape, &theirs[i].shape));
      for (size_t bag = 0; bag < bags[i].offsets.size (); bag++)
        check_bag (tables[i], bags[i], bag, mode, floats_of (ours[i]) + bag * dim,
                   floats_of (theirs[i]) + bag * dim);
      tps_tensor_clear (&ours[i]);
      tps_tensor_clear (&theirs[i]);
      tps_tensor_clear (&maxima[i]);
    }
}

void
World::push_bags (Random &random)
{
  guint n = static_cast<guint> (random_int (random, 0, 5));
  std::vector<Bags> bags;
  std::vector<TpsBagGradient> gradients;
  std::vector<TpsPlacedTable *> tables;
  g_autoptr (GError) error = nullptr;

  for (guint i = 0; i < n; i++)
    {
      tables.push_back (any_table (random));
      bags.push_back (random_bags (random, tables[i]->spec));
    }
  for (guint i = 0; i < n; i++)
    gradients.push_back (bags[i].bag_gradient (tables[i]->spec.dim));
  g_autoptr (TpsPushPlan)
      plan = tps_push_plan_new (tables.data (), gradients.data (), n, n_servers ());
  if (plan->rows != nullptr)
    run (plan->rows);
  tps_push_plan_finish (plan);
  for (guint server = 0; server < n_servers (); server++)
    {
      const GArray *pushed = plan->requests[server].gradients;

      if (pushed->len == 0)
        continue;
      ASSERT_TRUE (tps_table_store_apply_bags (
          servers_[server], &g_array_index (pushed, TpsBagGradient, 0), pushed->len, &error))
          << error->message;
    }
  ASSERT_TRUE (reference_apply_bags (whole_, gradients.data (), n, &error)) << error->message;
}

void
World::push_rows (Random &random)
{
  TpsPlacedTable *table = any_table (random);
  std::vector<gint64> rows = random_rows (random, table->spec.shard.rows,
                                          static_cast<size_t> (random_int (random, 0, 30)));
  std::vector<float> values = random_values (random,
                                             rows.size () * static_cast<size_t> (table->spec.dim));
  TpsTensorView view = view_of (values, table->spec.dim);
  TpsRowSplit split;

  tps_row_split_init (&split, table, view_of (rows),
                      tps_optimizer_counts_steps (&table->spec.optimizer));
  for (guint i = 0; i < split.n_parts; i++)
    {
      g_auto (TpsTensor) gathered = {};
      g_autoptr (GError) error = nullptr;

      tps_row_split_gather (&split, i, view, &gathered);
      ASSERT_TRUE (tps_table_store_apply_rows (servers_[table->servers[split.parts[i].shard]],
                                               table->spec.name, split.parts[i].indices,
                                               tps_tensor_view (&gathered), &error))
          << error->message;
    }
  tps_row_split_clear (&split);
  ASSERT_TRUE (
      tps_table_store_apply_rows (whole_, table->spec.name, view_of (rows), view, nullptr));
}

void
World::get_rows (TpsPlacedTable *table, const std::vector<gint64> &rows, TpsTensor *ours,
                 TpsTensor *theirs)
{
  TpsRowSplit split;

  tps_row_split_init (&split, table, view_of (rows), FALSE);
  for (guint i = 0; i < split.n_parts; i++)
    {
      g_auto (TpsTensor) answer = {};
      g_autoptr (GError) error = nullptr;

      ASSERT_TRUE (tps_table_store_lookup_rows (servers_[table->servers[split.parts[i].shard]],
                                                table->spec.name, split.parts[i].indices, &answer,
                                                &error))
          << error->message;
      ASSERT_TRUE (tps_row_split_take_answer (&split, i, &answer, &error)) << error->message;
    }
  tps_row_split_merge (&split, ours);
  tps_row_split_clear (&split);
  ASSERT_TRUE (
      tps_table_store_lookup_rows (whole_, table->spec.name, view_of (rows), theirs, nullptr));
}

void
World::check_rows (Random &random)
{
  TpsPlacedTable *table = any_table (random);
  g_auto (TpsTensor) ours = {}, theirs = {};

  get_rows (table,
            random_rows (random, table->spec.shard.rows,
                         static_cast<size_t> (random_int (random, 0, 50))),
            &ours, &theirs);
  EXPECT_TRUE (tps_shape_equal (&ours.shape, &theirs.shape));
  EXPECT_EQ (bits_of (ours), bits_of (theirs)) << table->spec.name;
}

void
World::check_all_rows ()
{
  for (TpsPlacedTable *table : tables_)
    {
      std::vector<gint64> rows (static_cast<size_t> (table->spec.shard.rows));
      g_auto (TpsTensor) ours = {}, theirs = {};

      for (size_t i = 0; i < rows.size (); i++)
        rows[i] = static_cast<gint64> (i);
      get_rows (table, rows, &ours, &theirs);
      ASSERT_EQ (bits_of (ours), bits_of (theirs))
          << table->spec.name << " with " << tps_optimizer_kind_name (table->spec.optimizer.kind);
    }
}

class ShardPromises : public testing::TestWithParam<guint>
{
};

TEST_P (ShardPromises, HoldForRandomTablesQueriesAndGradients)
{
  for (guint64 seed = 0; seed < 24; seed++)
    {
      SCOPED_TRACE ("seed " + std::to_string (seed));
      Random random (seed * 100 + GetParam ());
      World world (random, GetParam (), 4);

      world.check_all_rows ();
      for (int step = 0; step < 12 && !testing::Test::HasFailure (); step++)
        {
          world.check_lookup (random, TPS_SPLIT_POOLED);
          world.check_lookup (random, TPS_SPLIT_EXACT);
          world.push_bags (random);
          world.push_rows (random);
          world.check_rows (random);
          world.check_all_rows ();
        }
      ASSERT_FALSE (testing::Test::HasFailure ());
    }
}

INSTANTIATE_TEST_SUITE_P (Servers, ShardPromises, testing::Range (1u, 6u),
                          testing::PrintToStringParamName ());

}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Compares steps of a trainer on tables over real servers with direct calls to a store of this
 * process. */

#include "runtime/trainer/table_steps/table_steps.h"

#include <algorithm>
#include <random>

#include "tests/integration/tables/tables_fixture.h"
#include "tests/runtime/trainer/table_steps/random_steps.h"

namespace tps_test {
namespace {

constexpr gint64 ROWS = 300;
const gchar *const names[] = { "sgd", "adagrad", "whole" };
const gsize dims[] = { 3, 16, 8 };

class TableStepsTest : public TablesTest
{
protected:
  void
  create_tables ()
  {
    const TpsShardKind kinds[] = { TPS_SHARD_HASH, TPS_SHARD_RANGE, TPS_SHARD_WHOLE };

    for (size_t t = 0; t < 3; t++)
      {
        TpsTableSpec spec;

        tps_table_spec_init (&spec, names[t], ROWS, static_cast<gint32> (dims[t]));
        if (t == 1)
          spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_ADAGRAD, 0.1);
        create (spec, kinds[t]);
      }
  }

  TpsTableSteps *
  make_steps (TpsTableClient *client, guint max_staleness)
  {
    TpsTableStepsOptions options = {};

    options.client = client;
    options.tables = names;
    options.dims = dims;
    options.n_tables = 3;
    options.max_staleness = max_staleness;
    options.timeout_ns = G_GINT64_CONSTANT (60000000000);
    return tps_table_steps_new (&options, nullptr);
  }

  /* Runs steps. If `max_staleness` is 0, it compares each take with the reference. */
  void
  run (TpsTableSteps *steps, guint max_staleness, guint seed)
  {
    constexpr size_t N_STEPS = 20;
    std::mt19937 dice (seed);
    std::vector<std::vector<RandomBags>> bags (N_STEPS);
    std::vector<std::vector<TpsStepBags>> views (N_STEPS);

    for (size_t k = 0; k < N_STEPS; k++)
      for (gsize dim : dims)
        bags[k].emplace_back (dice, ROWS, dim);
    for (size_t k = 0; k < N_STEPS; k++)
      for (const RandomBags &each : bags[k])
        views[k].push_back (each.get_bags ());
    ASSERT_TRUE (tps_table_steps_prefetch (steps, views[0].data (), &error_)) << text ();
    for (size_t k = 0; k < N_STEPS; k++)
      {
        std::vector<std::vector<float>> pooled;
        std::vector<TpsStepVectors> vectors, gradients;

        for (RandomBags &each : bags[k])
          {
            pooled.emplace_back (each.offsets.size () * each.dim);
            gradients.push_back (each.get_gradients ());
          }
        for (size_t t = 0; t < 3; t++)
          vectors.push_back ({ pooled[t].data (), dims[t] });
        ASSERT_TRUE (tps_table_steps_take (steps, vectors.data (), &error_)) << text ();
        if (k + 1 < N_STEPS)
          {
            ASSERT_TRUE (tps_table_steps_prefetch (steps, views[k + 1].data (), &error_))
                << text ();
          }
        ASSERT_TRUE (tps_table_steps_push (steps, gradients.data (), &error_)) << text ();
        for (size_t t = 0; t < 3; t++)
          compare (t, bags[k][t], max_staleness == 0 ? &pooled[t] : nullptr);
      }
    EXPECT_TRUE (tps_table_steps_settle (steps, &error_)) << text ();
  }

  void
  compare (size_t t, const RandomBags &bags, const std::vector<float> *pooled)
  {
    TpsBagGradient gradient = {};
    std::vector<float> dense = bags.get_dense_gradients ();

    gradient.query = bags.get_query (names[t]);
    gradient.gradient = { { TPS_DTYPE_FLOAT32,
                            2,
                            { static_cast<gint64> (bags.offsets.size ()),
                              static_cast<gint64> (bags.dim) } },
                          dense.data () };
    if (pooled != nullptr)
      {
        g_auto (TpsTensor) expected = {};

        ASSERT_TRUE (tps_table_store_lookup_bags (reference_, nullptr, &gradient.query, 1,
                                                  &expected, &error_));
        EXPECT_TRUE (std::equal (pooled->begin (), pooled->end (),
                                 static_cast<const float *> (tps_tensor_data (&expected))))
            << names[t];
      }
    if (!bags.ids.empty ())
      {
        ASSERT_TRUE (tps_table_store_apply_bags (reference_, &gradient, 1, &error_)) << text ();
      }
  }
};

TEST_F (TableStepsTest, StepsHaveTheBitsOfDirectCalls)
{
  for (const char *transport : { "unix", "tcp" })
    {
      start (2, transport);
      connect ();
      create_tables ();
      TpsTableClient *client = tps_remote_tables_as_client (tables_);
      TpsTableSteps *steps = make_steps (client, 0);

      run (steps, 0, 1);
      tps_table_steps_free (steps);
      for (const TpsTableSpec &spec : specs_)
        {
          EXPECT_EQ (rows_here (spec), rows_of_reference (spec)) << spec.name;
          EXPECT_TRUE (tps_table_store_drop (reference_, spec.name, nullptr));
          tps_table_spec_clear (&const_cast<TpsTableSpec &> (spec));
        }
      specs_.clear ();
      client->ops->free (client);
      tables_ = nullptr;
      servers_.clear ();
      addresses_.clear ();
    }
}

TEST_F (TableStepsTest, AfterACancellationThePushFails)
{
  const gint64 ids[] = { 0, 1, 2, 3, 4, 5, 6, 7 }, offsets[] = { 0 };
  std::vector<float> vector (3);
  TpsStepBags bags[] = { { ids, 8, offsets, 1 }, {}, {} };
  TpsStepVectors vectors[] = { { vector.data (), 3 }, {}, {} };

  start (2);
  connect ();
  create_tables ();
  TpsTableClient *client = tps_remote_tables_as_client (tables_);
  TpsTableSteps *steps = make_steps (client, 0);

  ASSERT_TRUE (tps_table_steps_prefetch (steps, bags, &error_)) << text ();
  ASSERT_TRUE (tps_table_steps_take (steps, vectors, &error_)) << text ();
  tps_remote_tables_cancel (tables_);
  ASSERT_TRUE (tps_table_steps_push (steps, vectors, &error_)) << text ();
  EXPECT_FALSE (tps_table_steps_settle (steps, &error_));
  EXPECT_EQ (text ().compare (0, 16, "push of step 0: "), 0) << text ();
  EXPECT_EQ (code (), TPS_ERROR_ABORTED);
  tps_table_steps_free (steps);
  client->ops->free (client);
  tables_ = nullptr;
}

/* SGD adds the gradients, which do not depend on the rows in this test. So their order matters only
 * for rounding. */
TEST_F (TableStepsTest, EveryPushOfABoundArrivesOnce)
{
  start (2);
  connect ();
  create_tables ();
  TpsTableClient *client = tps_remote_tables_as_client (tables_);
  TpsTableSteps *steps = make_steps (client, 3);

  run (steps, 3, 2);
  tps_table_steps_free (steps);
  for (size_t t : { 0u, 2u })
    {
      std::string ours = rows_here (specs_[t]), expected = rows_of_reference (specs_[t]);
      const float *a = reinterpret_cast<const float *> (ours.data ());
      const float *b = reinterpret_cast<const float *> (expected.data ());

      for (size_t i = 0; i < ours.size () / sizeof *a; i++)
        ASSERT_NEAR (a[i], b[i], 1e-4) << names[t] << ", float " << i;
    }
  client->ops->free (client);
  tables_ = nullptr;
}

}
}

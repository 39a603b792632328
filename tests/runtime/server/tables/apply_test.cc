/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <algorithm>
#include <cstring>
#include <cmath>

#include "runtime/device/cpu/optimizer/optimizer.h"
#include "runtime/device/cpu/kernels/rows.h"
#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

const TpsOptimizerKind kinds[] = { TPS_OPTIMIZER_SGD, TPS_OPTIMIZER_ADAGRAD,
                                   TPS_OPTIMIZER_ROWWISE_ADAGRAD, TPS_OPTIMIZER_ADAM,
                                   TPS_OPTIMIZER_FTRL };
const TpsPooling poolings[] = { TPS_POOLING_SUM, TPS_POOLING_MEAN };

/* A FLOAT32 table that the functions of runtime/device/cpu update row by row. */
class Reference
{
public:
  Reference (const Spec &spec, const std::string &rows)
      : spec_ (spec), dim_ (static_cast<size_t> (spec.value.dim)),
        values (to_floats (rows, TPS_DTYPE_FLOAT32))
  {
    EXPECT_TRUE (tps_table_spec_resolve (&spec_.value, nullptr));
    state_per_row_ = tps_optimizer_state_per_row (&spec_.value.optimizer, dim_);
    state_.resize (values.size () / dim_ * state_per_row_);
  }

  void
  step (const Ids &ids, const Floats &gradients)
  {
    Ids unique (ids.size ());
    Floats sums (gradients.size ());
    size_t n = tps_cpu_coalesce_rows (TPS_DTYPE_FLOAT32, ids.data (), gradients.data (),
                                      ids.size (), dim_, unique.data (), sums.data ());
    TpsOptimizerStep step;

    tps_cpu_optimizer_step_init (&step, &spec_.value.optimizer, ++n_steps_);
    for (size_t i = 0; i < n; i++)
      tps_cpu_optimizer_get (spec_.value.optimizer.kind) (
          &step, &values[static_cast<size_t> (unique[i]) * dim_], &sums[i * dim_],
          state_.data () + static_cast<size_t> (unique[i]) * state_per_row_, dim_);
  }

  void
  step (const Query &query, const Floats &gradient)
  {
    Ids unique (query.indices.size ());
    Floats sums (unique.size () * dim_);
    TpsBags bags {};
    size_t n;

    bags.rows = spec_.value.shard.rows;
    bags.dim = static_cast<gint64> (dim_);
    bags.indices = query.indices.data ();
    bags.n_indices = query.indices.size ();
    bags.offsets = query.offsets.data ();
    bags.n_bags = query.n_bags ();
    bags.weights = query.weights.empty () ? nullptr : query.weights.data ();
    bags.pooling = query.pooling;
    n = tps_cpu_embedding_backward_rows (&bags, gradient.data (), unique.data (), sums.data ());
    unique.resize (n);
    sums.resize (n * dim_);
    step (unique, sums);
  }

private:
  Spec spec_;
  size_t dim_, state_per_row_;
  Floats state_;
  gint64 n_steps_ = 0;

public:
  Floats values;
};

::testing::AssertionResult
same_rows (const std::string &bytes, const Floats &values)
{
  if (bytes.size () != values.size () * sizeof (float))
    return ::testing::AssertionFailure () << "sizes differ";
  if (memcmp (bytes.data (), values.data (), bytes.size ()) != 0)
    return ::testing::AssertionFailure () << "rows differ";
  return ::testing::AssertionSuccess ();
}

} // namespace

TEST (Apply, RowsWithRepeatsAreOneStepOfTheOptimizer)
{
  constexpr int64_t rows = 40, dim = 7;

  for (TpsOptimizerKind kind : kinds)
    {
      std::mt19937_64 random (1);
      Store store;
      Spec spec = spec_of ("emb", rows, dim, kind);

      ASSERT_EQ (store.create (spec), "");
      Reference reference (spec, store.dump ("emb", rows));
      for (int step = 0; step < 20; step++)
        {
          Ids ids (random () % 60);

          for (int64_t &id : ids)
            id = static_cast<int64_t> (random () % rows);
          Floats gradient = random_floats (random, ids.size () * dim);
          ASSERT_EQ (store.apply_rows ("emb", ids, gradient, dim), "");
          reference.step (ids, gradient);
          ASSERT_TRUE (same_rows (store.dump ("emb", rows), reference.values))
              << tps_optimizer_kind_name (kind) << " step " << step;
        }
    }
}

TEST (Apply, BagsAreOneStepOfTheOptimizer)
{
  constexpr int64_t rows = 40, dim = 7;

  for (TpsOptimizerKind kind : kinds)
    for (TpsPooling pooling : poolings)
      {
        std::mt19937_64 random (2);
        Store store;
        Spec spec = spec_of ("emb", rows, dim, kind);

        ASSERT_EQ (store.create (spec), "");
        Reference reference (spec, store.dump ("emb", rows));
        for (int step = 0; step < 20; step++)
          {
            bool weighted = pooling == TPS_POOLING_SUM && step % 2 == 1;
            Query query = random_query (random, "emb", rows, 12, 9, pooling, weighted);
            Floats gradient = random_floats (random, query.n_bags () * dim);

            ASSERT_EQ (store.apply_bags ({ query }, { gradient }, dim), "");
            reference.step (query, gradient);
            ASSERT_TRUE (same_rows (store.dump ("emb", rows), reference.values))
                << tps_optimizer_kind_name (kind) << " pooling " << pooling << " step " << step;
          }
      }
}

/* Tries numbers of contributions on both sides of the threshold from which threads share a row. */
TEST (Apply, HotRowsHaveTheSameBitsWithAnyNumberOfThreads)
{
  constexpr int64_t rows = 300;
  const size_t lengths[] = { 2047, 2048, 2049, 1, 33, 3072, 9000 };

  for (int32_t dim : { 64, 600 }) /* with fewer elements, one thread would do the whole step */
    for (bool weighted : { false, true })
      {
        std::mt19937_64 random (4);
        Spec spec = spec_of ("emb", rows, dim, TPS_OPTIMIZER_SGD);
        Store alone, shared (3);
        Query query { "emb", {}, {} };

        ASSERT_EQ (alone.create (spec), "");
        ASSERT_EQ (shared.create (spec), "");
        Reference reference (spec, alone.dump ("emb", rows));
        for (size_t id = 0; id < std::size (lengths); id++)
          query.indices.insert (query.indices.end (), lengths[id], static_cast<int64_t> (7 * id));
        for (int64_t id = 0; id < rows; id++)
          query.indices.push_back (id);
        std::shuffle (query.indices.begin (), query.indices.end (), random);
        for (size_t i = 0; i < query.indices.size (); i += 1 + random () % 4)
          query.offsets.push_back (static_cast<int64_t> (i));
        query.pooling = weighted ? TPS_POOLING_SUM : TPS_POOLING_MEAN;
        if (weighted)
          query.weights = random_floats (random, query.indices.size ());
        Floats gradient = random_floats (random, query.n_bags () * static_cast<size_t> (dim));
        ASSERT_EQ (alone.apply_bags ({ query }, { gradient }, dim), "");
        ASSERT_EQ (shared.apply_bags ({ query }, { gradient }, dim), "");
        reference.step (query, gradient);
        EXPECT_TRUE (same_rows (alone.dump ("emb", rows), reference.values))
            << dim << " " << weighted;
        EXPECT_TRUE (same_rows (shared.dump ("emb", rows), reference.values))
            << dim << " " << weighted;
      }
}

/* Several gradients of one table must be one step, with contributions in the order of the list.
 * Gradients of two tables must be one step each. */
TEST (Apply, OneStepForEachTableThatIsNamed)
{
  constexpr int64_t rows = 20, dim = 4;
  std::mt19937_64 random (6);
  Spec spec = spec_of ("emb", rows, dim, TPS_OPTIMIZER_ADAM);
  Spec other ("other", rows, dim);
  Store store;
  Query first = random_query (random, "emb", rows, 9, 9, TPS_POOLING_SUM, false);
  Query second = random_query (random, "emb", rows, 9, 9, TPS_POOLING_SUM, true);
  Query elsewhere { "other", { 3 }, { 0 } };
  Floats first_gradient = random_floats (random, first.n_bags () * dim);
  Floats second_gradient = random_floats (random, second.n_bags () * dim);
  Ids ids;
  Floats contributions;

  auto contribute = [&] (const Query &query, const Floats &gradient) {
    for (size_t bag = 0; bag < query.n_bags (); bag++)
      for (size_t i = query.begin (bag); i < query.end (bag); i++)
        {
          ids.push_back (query.indices[i]);
          for (size_t d = 0; d < dim; d++)
            contributions.push_back ((query.weights.empty () ? 1.0f : query.weights[i])
                                     * gradient[bag * dim + d]);
        }
  };

  other.normal (8).optimizer (TPS_OPTIMIZER_SGD, 1);
  ASSERT_EQ (store.create (spec), "");
  ASSERT_EQ (store.create (other), "");
  Reference reference (spec, store.dump ("emb", rows));
  Reference other_reference (other, store.dump ("other", rows));
  ASSERT_EQ (store.apply_bags ({ first, elsewhere, second },
                               { first_gradient, { 1, 2, 3, 4 }, second_gradient }, dim),
             "");
  contribute (first, first_gradient);
  contribute (second, second_gradient);
  reference.step (ids, contributions);
  other_reference.step ({ 3 }, { 1, 2, 3, 4 });
  EXPECT_TRUE (same_rows (store.dump ("emb", rows), reference.values));
  EXPECT_TRUE (same_rows (store.dump ("other", rows), other_reference.values));
}

/* Adam's correction depends on the number of steps, so an empty step must count. */
TEST (Apply, AStepWithoutRowsCounts)
{
  constexpr int64_t rows = 4, dim = 2;
  Spec spec = spec_of ("emb", rows, dim, TPS_OPTIMIZER_ADAM);
  Store store;

  ASSERT_EQ (store.create (spec), "");
  Reference reference (spec, store.dump ("emb", rows));
  ASSERT_EQ (store.apply_rows ("emb", {}, {}, dim), "");
  reference.step (Ids {}, Floats {});
  ASSERT_EQ (store.apply_bags ({ { "emb", {}, { 0 } } }, { { 1, 1 } }, dim), "");
  reference.step (Ids {}, Floats {});
  ASSERT_EQ (store.apply_rows ("emb", { 1 }, { 1, -1 }, dim), "");
  reference.step ({ 1 }, { 1, -1 });
  EXPECT_TRUE (same_rows (store.dump ("emb", rows), reference.values));
}

/* A row must be converted, updated with FLOAT32 state, and rounded once. */
TEST (Apply, HalfPrecisionRowsAreRoundedOnce)
{
  constexpr int64_t rows = 10, dim = 5;

  for (TpsDType dtype : { TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 })
    for (TpsOptimizerKind kind : kinds)
      {
        std::mt19937_64 random (7);
        Store store;
        Spec spec = spec_of ("emb", rows, dim, kind);
        std::string halves (rows * dim * 2, '\0');

        ASSERT_EQ (store.create (spec.dtype (dtype)), "");
        Floats before = to_floats (store.dump ("emb", rows), dtype);
        std::string as_floats (reinterpret_cast<const char *> (before.data ()),
                               before.size () * sizeof (float));
        Reference reference (spec, as_floats);
        for (int step = 0; step < 10; step++)
          {
            Query query = random_query (random, "emb", rows, 6, 6, poolings[step % 2], false);
            Floats gradient = random_floats (random, query.n_bags () * dim);

            ASSERT_EQ (store.apply_bags ({ query }, { gradient }, dim), "");
            reference.step (query, gradient);
            for (float &value : reference.values)
              value = dtype == TPS_DTYPE_FLOAT16
                          ? tps_float16_to_float (tps_float16_from_float (value))
                          : tps_bfloat16_to_float (tps_bfloat16_from_float (value));
            ASSERT_EQ (to_floats (store.dump ("emb", rows), dtype), reference.values)
                << tps_dtype_name (dtype) << " " << tps_optimizer_kind_name (kind);
          }
      }
}

TEST (Apply, RowGradientsMayBeOfTheTablesType)
{
  Store store;
  std::vector<guint16> halves { 0x3f80, 0x4000 }; /* 1 and 2 as BFLOAT16 */
  Ids ids { 2, 2 };
  TpsTensorView values {};

  ASSERT_EQ (
      store.create (
          Spec ("emb", 4, 1).zeros ().dtype (TPS_DTYPE_BFLOAT16).optimizer (TPS_OPTIMIZER_SGD, 1)),
      "");
  values.shape.dtype = TPS_DTYPE_BFLOAT16;
  values.shape.n_dims = 2;
  values.shape.dims[0] = 2;
  values.shape.dims[1] = 1;
  values.data = halves.data ();
  ASSERT_TRUE (tps_table_store_apply_rows (store.get (), "emb", view (ids), values, nullptr));
  EXPECT_EQ (store.row ("emb", TPS_DTYPE_BFLOAT16, 2), Floats { -3 });
}

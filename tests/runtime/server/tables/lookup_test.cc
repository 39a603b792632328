/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <cstring>

#include "runtime/device/cpu/kernels/rows.h"
#include "runtime/base/error.h"
#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

bool
same_bits (const Floats &a, const Floats &b)
{
  return a.size () == b.size ()
         && (a.empty () || memcmp (a.data (), b.data (), a.size () * sizeof a[0]) == 0);
}

const TpsPooling poolings[] = { TPS_POOLING_SUM, TPS_POOLING_MEAN };
const TpsDType dtypes[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 };

/* The rows of table "emb", read at the construction. */
class Rows
{
public:
  Rows (Store &store, int64_t n_rows, TpsDType dtype, int32_t dim)
      : dim_ (dim), values_ (to_floats (store.dump ("emb", n_rows), dtype))
  {
  }

  Floats
  operator() (int64_t id) const
  {
    return Floats (values_.begin () + id * dim_, values_.begin () + (id + 1) * dim_);
  }

private:
  int64_t dim_;
  Floats values_;
};

} // namespace

TEST (Lookup, PoolsRandomBagsAsANaiveLoopDoes)
{
  std::mt19937_64 random (1);

  for (TpsDType dtype : dtypes)
    for (int32_t dim : { 1, 3, 5, 16, 64, 130 })
      {
        Store store;

        ASSERT_EQ (store.create (Spec ("emb", 50, dim).dtype (dtype).normal (dim)), "");
        Rows rows (store, 50, dtype, dim);
        for (int round = 0; round < 12; round++)
          for (TpsPooling pooling : poolings)
            {
              bool weighted = pooling == TPS_POOLING_SUM && round % 2 == 1;
              Query query = random_query (random, "emb", 50, 20, 30, pooling, weighted);
              Floats expected = naive_pool (query, static_cast<size_t> (dim), rows);

              ASSERT_TRUE (same_bits (store.pooled (query), expected))
                  << tps_dtype_name (dtype) << " dim " << dim << " pooling " << pooling;
            }
      }
}

/* A bag may have more rows than the staging area, alone or among small bags. */
TEST (Lookup, PoolsBagsOfAnyLength)
{
  std::mt19937_64 random (2);

  for (TpsDType dtype : dtypes)
    for (int32_t dim : { 2, 64, 1500 })
      {
        Store store;

        ASSERT_EQ (store.create (Spec ("emb", 40, dim).dtype (dtype)), "");
        Rows rows (store, 40, dtype, dim);
        for (TpsPooling pooling : poolings)
          for (bool weighted : { false, true })
            {
              Query query { "emb", {}, { 0, 0, 3, 703, 703, 705, 1300 }, pooling };

              for (int i = 0; i < 1301; i++)
                query.indices.push_back (static_cast<int64_t> (random () % 40));
              for (int i = 0; weighted && pooling == TPS_POOLING_SUM && i < 1301; i++)
                query.weights.push_back (static_cast<float> (i % 7) - 2.7f);
              ASSERT_TRUE (same_bits (store.pooled (query),
                                      naive_pool (query, static_cast<size_t> (dim), rows)))
                  << tps_dtype_name (dtype) << " dim " << dim << " pooling " << pooling;
            }
      }
}

/* 1024 rows of 256 floats have 1 MiB, a third of the limit. */
TEST (Lookup, UnreleasedResultsAreBounded)
{
  Store store (0, { 0, size_t { 3 } << 20 });
  std::vector<int64_t> ids (1024, 7);
  int64_t n_ids = static_cast<int64_t> (ids.size ());
  TpsTensorView indices {};
  std::vector<TpsTensor> answers (4);
  g_autoptr (GError) error = nullptr;

  ASSERT_EQ (store.create (Spec ("emb", 10, 256)), "");
  ASSERT_TRUE (tps_shape_init (&indices.shape, TPS_DTYPE_INT64, 1, &n_ids, "indices", nullptr));
  indices.data = ids.data ();
  size_t n_answers = 0;
  while (n_answers < answers.size ()
         && tps_table_store_lookup_rows (store.get (), nullptr, "emb", indices, &answers[n_answers],
                                         nullptr, &error))
    n_answers++;
  ASSERT_GE (n_answers, 1u);
  ASSERT_LT (n_answers, answers.size ());
  EXPECT_EQ (error->code, TPS_ERROR_RESOURCE_EXHAUSTED);
  EXPECT_GE (tps_error_get_retry_after_ms (error), 0);
  tps_tensor_clear (&answers[0]);
  EXPECT_TRUE (tps_table_store_lookup_rows (store.get (), nullptr, "emb", indices, &answers[0],
                                            nullptr, nullptr));
  for (size_t i = 0; i < n_answers; i++)
    tps_tensor_clear (&answers[i]);
}

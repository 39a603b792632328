/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Lookups and pushes that need more temporary space than the server can provide. They must be
 * refused, and must not abort the process. */

#include "runtime/base/error.h"
#include "tests/runtime/server/tables/tables.h"

using namespace embedding_test;

namespace {

class TemporarySpace : public ::testing::Test
{
protected:
  Store store { 0, { size_t { 6 } << 30, size_t { 6 } << 30 } };
};

} // namespace

/* The row has 2^29 columns, and its stage would need 12.9 GB. The system does not allocate memory
 * for the zeros of the table until they are touched. */
TEST_F (TemporarySpace, ALookupOfAVeryWideRowIsRefused)
{
  Query query { "wide", { 0 }, { 0 } };
  std::string said;

  ASSERT_EQ (store.create (Spec ("wide", 1, 1 << 29).zeros ().dtype (TPS_DTYPE_FLOAT16)), "");
  said = store.lookup ({ query }, nullptr);
  EXPECT_EQ (said.find ("RESOURCE_EXHAUSTED queries: the budget of replies: "), 0u) << said;
}

TEST_F (TemporarySpace, WideRowsThatFitHaveTheBitsOfNarrowOnes)
{
  std::mt19937_64 random (1);
  constexpr int64_t rows = 12;

  for (int32_t dim : { 513, 4096, 4097, 70001 })
    for (TpsDType dtype : { TPS_DTYPE_FLOAT32, TPS_DTYPE_BFLOAT16 })
      {
        Spec spec ("wide", rows, dim);

        ASSERT_EQ (store.create (spec.normal (5).dtype (dtype)), "");
        for (TpsPooling pooling : { TPS_POOLING_SUM, TPS_POOLING_MEAN })
          {
            Query query = random_query (random, "wide", rows, 4, 9, pooling, false);

            EXPECT_EQ (store.pooled (query),
                       naive_pool (query, static_cast<size_t> (dim),
                                   [&] (int64_t id) { return store.row ("wide", dtype, id); }));
          }
        ASSERT_EQ (store.drop ("wide"), "");
      }
}

/* Even a small message can name a wide row so often that a worker would read for a minute. */
TEST (RowBytesOfACall, AreLimited)
{
  constexpr int32_t dim = 1 << 10; /* a row of 4 KiB */
  TpsTableStoreOptions options {};
  options.max_row_bytes_of_call = size_t { 1 } << 20;
  Store store { options };
  Query fits { "emb", Ids (256, 0), { 0 } };
  Query beyond { "emb", Ids (257, 0), { 0 } };
  const Floats gradient (dim, 1.0f);
  const std::string refusal =
      "RESOURCE_EXHAUSTED 257 rows of table emb: the rows of one call may have at most 1048576 "
      "bytes in total (--max-call-row-mib); split the call";
  std::string before;

  ASSERT_EQ (store.create (Spec ("emb", 2, dim).normal (1)), "");
  before = store.dump ("emb", 2);
  for (TpsPooling pooling : { TPS_POOLING_SUM, TPS_POOLING_MEAN })
    {
      beyond.pooling = pooling;
      EXPECT_EQ (store.lookup ({ beyond }, nullptr), refusal);
      EXPECT_EQ (store.apply_bags ({ beyond }, { gradient }, dim), refusal);
    }
  EXPECT_EQ (store.dump ("emb", 2), before);
  EXPECT_EQ (store.apply_bags ({ fits }, { gradient }, dim), "");
  EXPECT_EQ (store.apply_bags ({ fits, fits }, { gradient, gradient }, dim)
                 .find ("RESOURCE_EXHAUSTED 256 rows"),
             0u);
}

/* The divided gradients of the bags need 16 MiB. */
TEST (PushesWithoutRoom, AreRefusedAndChangeNothing)
{
  constexpr int32_t dim = 1 << 12;
  Store store { 0, { 0, size_t { 8 } << 20 } };
  Query query { "emb", { 0, 1 }, Ids (1 << 10), TPS_POOLING_MEAN };
  std::string before, said;

  for (size_t bag = 2; bag < query.offsets.size (); bag++)
    query.offsets[bag] = 2;
  ASSERT_EQ (store.create (Spec ("emb", 2, dim).normal (1)), "");
  before = store.dump ("emb", 2);
  said = store.apply_bags ({ query }, { Floats (size_t { 1 << 10 } * dim, 1.0f) }, dim);
  EXPECT_EQ (said.find ("RESOURCE_EXHAUSTED gradients: the budget of replies: "), 0u) << said;
  EXPECT_EQ (store.dump ("emb", 2), before);
}

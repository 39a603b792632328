/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/trainer/buckets/buckets.h"

#include <cmath>
#include <gtest/gtest.h>

#include "runtime/base/error.h"
#include "tests/runtime/trainer/ddp/fakes.h"

namespace {

class Layout
{
public:
  Layout (const std::vector<FakeModel::Parameter> &parameters, double first_mib, double cap_mib)
      : model_ (parameters)
  {
    GError *error = nullptr;

    EXPECT_TRUE (tps_bucket_layout_init (&layout, model_.get ()->parameters,
                                         model_.get ()->n_parameters, first_mib, cap_mib, &error));
    EXPECT_EQ (error, nullptr);
  }

  ~Layout ()
  {
    tps_bucket_layout_clear (&layout);
  }

  std::vector<guint>
  parameters (guint bucket)
  {
    const TpsBucket *b = &layout.buckets[bucket];

    return { b->parameters, b->parameters + b->n_parameters };
  }

  TpsBucketLayout layout;

private:
  FakeModel model_;
};

TEST (Buckets, SparseDummyModelHasTheLayoutThatPyTorchRebuildsTo)
{
  Layout l (dummy_model_parameters (true), 1, 25);

  ASSERT_EQ (l.layout.n_buckets, 3u);
  EXPECT_EQ (l.parameters (0), (std::vector<guint> { 16, 15 })); /* the last Linear, bias first */
  EXPECT_EQ (tps_bucket_n_bytes (&l.layout.buckets[0]), 4198400u);
  EXPECT_EQ (l.parameters (1),
             (std::vector<guint> { 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1 }));
  EXPECT_EQ (tps_bucket_n_bytes (&l.layout.buckets[1]), 29388800u);
  EXPECT_EQ (l.parameters (2), (std::vector<guint> { 0 }));
  EXPECT_TRUE (l.layout.buckets[2].is_sparse);
  EXPECT_FALSE (l.layout.buckets[1].is_sparse);
}

TEST (Buckets, ElementsArePackedWithoutGapsInTheOrderOfTheBackwardPass)
{
  Layout l ({ { "a", { 3, 5 }, false }, { "b", { 5 }, false }, { "c", { 2 }, false } }, 100, 100);

  ASSERT_EQ (l.layout.n_buckets, 1u);
  EXPECT_EQ (l.layout.buckets[0].n_elems, 22u);
  EXPECT_EQ (l.layout.places[2].offset, 0u);
  EXPECT_EQ (l.layout.places[1].offset, 2u);
  EXPECT_EQ (l.layout.places[0].offset, 7u);
}

TEST (Buckets, ABucketClosesOnlyWhenItHasReachedItsSize)
{
  /* 1 MiB has 262144 elements. With one element less, the bucket stays open. */
  Layout below ({ { "a", { 1 }, false }, { "b", { 262143 }, false } }, 1, 1);
  Layout reached ({ { "a", { 1 }, false }, { "b", { 262144 }, false } }, 1, 1);

  EXPECT_EQ (below.layout.n_buckets, 1u);
  EXPECT_EQ (reached.layout.n_buckets, 2u);
}

TEST (Buckets, AreNumberedAsTheBackwardPassCompletesThem)
{
  /* The sparse bucket closes while the dense bucket around it is open, so the sparse one is
   * complete first. */
  Layout around ({ { "a", { 4 }, false }, { "e", { 4, 2 }, true }, { "b", { 4 }, false } }, 1, 25);
  /* The sparse bucket closes at once. The dense bucket closes only at the end, but is complete
   * first. */
  Layout after ({ { "e", { 4, 2 }, true }, { "a", { 4 }, false }, { "b", { 4 }, false } }, 1, 25);

  EXPECT_EQ (around.parameters (0), (std::vector<guint> { 1 }));
  EXPECT_EQ (around.parameters (1), (std::vector<guint> { 2, 0 }));
  EXPECT_EQ (after.parameters (0), (std::vector<guint> { 2, 1 }));
  EXPECT_EQ (after.parameters (1), (std::vector<guint> { 0 }));
  EXPECT_EQ (after.layout.places[0].bucket, 1u);
}

} /* namespace */

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tests the maxima of bags and their gradients. */

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "plugin/client/tables/maxima.h"
#include "tests/oracle/vectors.h"
#include "tests/plugin/client/tables/bags.h"

namespace tps_test {

using Ids = std::vector<gint64>;
using Floats = std::vector<float>;

constexpr float kInf = std::numeric_limits<float>::infinity ();

/* Bags with pooling MAX, and the rows of their indices. */
class Maxima : public testing::Test
{
protected:
  Maxima ()
  {
    bags_.table = "emb";
    bags_.pooling = TPS_POOLING_MAX;
  }

  ~Maxima () override
  {
    tps_tensor_clear (&output_);
    tps_tensor_clear (&maxima_);
  }

  void
  find (const Floats &rows, gint64 dim)
  {
    TpsBagQuery query = bags_.query ();
    TpsTensorView view = view_of (rows, dim);

    tps_maxima_find (&query, view, &output_, &maxima_);
    const float *values = static_cast<const float *> (tps_tensor_data (&output_));
    const gint64 *ids = static_cast<const gint64 *> (tps_tensor_data (&maxima_));
    size_t n = bags_.offsets.size () * static_cast<size_t> (dim);
    values_.assign (values, values + n);
    ids_.assign (ids, ids + n);
  }

  /* Returns the dense gradient of a table of `n_rows`. No row may occur twice in the gradient. */
  Floats
  push (const Floats &gradient, gint64 dim, gint64 n_rows)
  {
    TpsMaxGradient expanded;
    Floats dense (static_cast<size_t> (n_rows * dim));
    std::vector<bool> is_pushed (static_cast<size_t> (n_rows));

    bags_.gradient = gradient;
    TpsBagGradient pooled = bags_.bag_gradient (dim);
    tps_max_gradient_init (&expanded, &pooled, tps_tensor_view (&maxima_));
    const TpsBagQuery &query = expanded.gradient.query;
    EXPECT_STREQ (query.table, "emb");
    EXPECT_EQ (query.pooling, TPS_POOLING_SUM);
    EXPECT_TRUE (tps_bag_query_check (&query, "", nullptr));
    n_pushed_ = query.indices.shape.dims[0];
    EXPECT_EQ (query.offsets.shape.dims[0], n_pushed_);
    for (gint64 i = 0; i < n_pushed_; i++)
      {
        size_t row = static_cast<size_t> (static_cast<const gint64 *> (query.indices.data)[i]);

        EXPECT_FALSE (is_pushed[row]) << row;
        is_pushed[row] = true;
        memcpy (&dense[row * static_cast<size_t> (dim)],
                static_cast<const float *> (expanded.gradient.gradient.data) + i * dim,
                static_cast<size_t> (dim) * sizeof (float));
      }
    tps_max_gradient_clear (&expanded);
    return dense;
  }

  Bags bags_;
  TpsTensor output_ = {}, maxima_ = {};
  Floats values_;
  Ids ids_;
  gint64 n_pushed_ = 0;
};

TEST_F (Maxima, MatchPyTorch)
{
  const oracle::Vectors &v = oracle::vectors ();
  const oracle::Tensor &table = v.get ("bags_max/table");
  gint64 dim = table.dims[1];
  Floats rows;

  for (int64_t id : v.ints ("bags_max/indices"))
    {
      bags_.indices.push_back (id);
      rows.insert (rows.end (), table.floats.begin () + id * dim,
                   table.floats.begin () + (id + 1) * dim);
    }
  for (int64_t offset : v.ints ("bags_max/offsets"))
    bags_.offsets.push_back (offset);
  find (rows, dim);
  EXPECT_EQ (values_, v.floats ("bags_max/output"));
  EXPECT_LT (oracle::worst_difference (push (v.floats ("bags_max/output.grad"), dim, table.dims[0]),
                                       v.floats ("bags_max/table.grad")),
             1e-6);
}

TEST_F (Maxima, TheFirstOfEqualValuesWins)
{
  bags_.indices = { 7, 3, 7, 5 };
  bags_.offsets = { 0, 1 };
  find ({ 2, 2, 1, -0.0f, 2, 0, 2, 0 }, 2);
  EXPECT_EQ (values_, Floats ({ 2, 2, 2, 0 }));
  EXPECT_TRUE (std::signbit (values_[3]));
  EXPECT_EQ (ids_, Ids ({ 7, 7, 7, 3 }));
  EXPECT_EQ (push ({ 1, 2, 4, 8 }, 2, 8),
             Floats ({ 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 5, 2 }));
  EXPECT_EQ (n_pushed_, 2);
}

TEST_F (Maxima, NanWinsOverNumbersAndTheFirstNanOverLaterOnes)
{
  bags_.indices = { 1, 2, 3, 2 };
  bags_.offsets = { 0 };
  find ({ kInf, NAN, -kInf, NAN, -1, kInf, NAN, 0, 1, -kInf, NAN, -kInf }, 3);
  EXPECT_TRUE (std::isnan (values_[0]) && std::isnan (values_[1]));
  EXPECT_EQ (values_[2], kInf);
  EXPECT_EQ (ids_, Ids ({ 2, 1, 2 }));
}

}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random queries and gradients for tests. They own the data that the runtime's types borrow. */

#pragma once

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "runtime/embedding/table_spec.h"

namespace tps_test {

using Random = std::mt19937_64;

inline int
random_int (Random &random, int low, int high)
{
  return std::uniform_int_distribution<int> (low, high) (random);
}

inline TpsTensorView
view_of (const std::vector<gint64> &values)
{
  TpsTensorView view = {};

  view.shape.dtype = TPS_DTYPE_INT64;
  view.shape.n_dims = 1;
  view.shape.dims[0] = static_cast<gint64> (values.size ());
  view.data = values.data ();
  return view;
}

inline TpsTensorView
view_of (const std::vector<float> &values)
{
  TpsTensorView view = view_of (std::vector<gint64> (values.size ()));

  view.shape.dtype = TPS_DTYPE_FLOAT32;
  view.data = values.data ();
  return view;
}

/* Returns a FLOAT32 view of shape [n, dim]. */
inline TpsTensorView
view_of (const std::vector<float> &values, gint64 dim)
{
  TpsTensorView view = view_of (values);

  view.shape.n_dims = 2;
  view.shape.dims[0] /= dim;
  view.shape.dims[1] = dim;
  return view;
}

struct Bags
{
  std::string table;
  std::vector<gint64> indices, offsets;
  TpsPooling pooling = TPS_POOLING_SUM;
  std::vector<float> weights; /* empty = none */
  bool has_weights = false;
  std::vector<float> gradient; /* [bags, dim] */
  std::vector<gint64> maxima;  /* [bags, dim]; empty = none */

  TpsBagQuery
  query () const
  {
    TpsBagQuery query = {};

    query.table = table.c_str ();
    query.indices = view_of (indices);
    query.offsets = view_of (offsets);
    query.pooling = pooling;
    if (has_weights)
      query.weights = view_of (weights);
    return query;
  }

  TpsBagGradient
  bag_gradient (gint64 dim) const
  {
    TpsBagGradient result = {};

    result.query = query ();
    result.gradient = view_of (gradient, dim);
    if (!maxima.empty ())
      {
        result.maxima = result.gradient;
        result.maxima.shape.dtype = TPS_DTYPE_INT64;
        result.maxima.data = maxima.data ();
      }
    return result;
  }
};

inline std::vector<float>
random_values (Random &random, size_t n)
{
  std::normal_distribution<float> normal;
  std::vector<float> values (n);

  for (float &value : values)
    value = random_int (random, 0, 9) == 0 ? 0 : normal (random);
  return values;
}

inline std::vector<gint64>
random_rows (Random &random, gint64 rows, size_t n)
{
  std::uniform_int_distribution<gint64> any (0, rows - 1);
  std::vector<gint64> result (n);

  for (gint64 &row : result)
    row = any (random);
  return result;
}

/* Returns random bags: empty, of one row, of many rows, with a repeated row, or very many bags. */
inline Bags
random_bags (Random &random, const TpsTableSpec &spec)
{
  Bags bags;
  int n_bags = random_int (random, 0, 12);

  bags.table = spec.name;
  bags.pooling = static_cast<TpsPooling> (random_int (random, 1, 3));
  for (int bag = 0; bag < n_bags; bag++)
    {
      int kind = random_int (random, 0, 9);
      int n = kind == 0 ? 0 : kind == 1 ? 1 : kind == 2 ? 400 : random_int (random, 0, 12);
      std::vector<gint64> rows = random_rows (random, spec.shard.rows, static_cast<size_t> (n));

      if (kind == 3)
        std::fill (rows.begin (), rows.end (), spec.shard.rows / 2);
      bags.offsets.push_back (static_cast<gint64> (bags.indices.size ()));
      bags.indices.insert (bags.indices.end (), rows.begin (), rows.end ());
    }
  bags.has_weights = bags.pooling == TPS_POOLING_SUM && random_int (random, 0, 1) == 1;
  if (bags.has_weights)
    bags.weights = random_values (random, bags.indices.size ());
  bags.gradient = random_values (random, bags.offsets.size () * static_cast<size_t> (spec.dim));
  return bags;
}

/* Returns a random spec with any dtype, optimizer and initializer, and a few rows. */
inline TpsTableSpec
random_spec (Random &random, const std::string &name)
{
  static const gint64 row_counts[] = { 1, 2, 7, 40, 300 };
  static const gint32 dims[] = { 1, 3, 8, 17 };
  static const TpsDType dtypes[] = { TPS_DTYPE_FLOAT32, TPS_DTYPE_FLOAT16, TPS_DTYPE_BFLOAT16 };
  TpsTableSpec spec;

  tps_table_spec_init (&spec, name.c_str (), row_counts[random_int (random, 0, 4)],
                       dims[random_int (random, 0, 3)]);
  spec.dtype = dtypes[random_int (random, 0, 2)];
  spec.initializer.kind = static_cast<TpsInitializerKind> (random_int (random, 1, 3));
  spec.initializer.seed = random_int (random, 0, 1000);
  spec.optimizer = tps_optimizer_spec (static_cast<TpsOptimizerKind> (random_int (random, 1, 5)),
                                       0.05);
  if (spec.optimizer.kind == TPS_OPTIMIZER_SGD && random_int (random, 0, 1) == 1)
    spec.optimizer.momentum = 0.9;
  return spec;
}

}

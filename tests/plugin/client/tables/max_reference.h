/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A table store as a reference for clients. Unlike the store, these functions also pool with MAX,
 * by a computation of their own. */

#pragma once

#include <cmath>

#include "runtime/server/tables/table_store.h"
#include "tests/plugin/client/tables/bags.h"

namespace tps_test {

/* The maxima of a query, [bags, dim]; the id is -1 in an empty bag. */
struct Maxima
{
  size_t dim = 0;
  std::vector<float> values;
  std::vector<gint64> ids;
};

inline bool
find_maxima (TpsTableStore *store, const TpsBagQuery &query, Maxima *maxima, GError **error)
{
  const gint64 *ids = static_cast<const gint64 *> (query.indices.data);
  const gint64 *offsets = static_cast<const gint64 *> (query.offsets.data);
  size_t n = static_cast<size_t> (query.indices.shape.dims[0]);
  size_t n_bags = static_cast<size_t> (query.offsets.shape.dims[0]);
  std::vector<gint64> each (n);
  TpsBagQuery rows = query;
  g_auto (TpsTensor) values = {};

  for (size_t i = 0; i < n; i++)
    each[i] = static_cast<gint64> (i);
  rows.offsets = view_of (each);
  rows.pooling = TPS_POOLING_SUM;
  if (!tps_table_store_lookup_bags (store, nullptr, &rows, 1, &values, error))
    return false;
  const float *cells = static_cast<const float *> (tps_tensor_data (&values));
  maxima->dim = static_cast<size_t> (values.shape.dims[1]);
  for (size_t bag = 0; bag < n_bags; bag++)
    for (size_t d = 0; d < maxima->dim; d++)
      {
        size_t begin = static_cast<size_t> (offsets[bag]), best = begin;
        size_t end = bag + 1 < n_bags ? static_cast<size_t> (offsets[bag + 1]) : n;

        for (size_t i = begin; i < end; i++)
          {
            float value = cells[i * maxima->dim + d], largest = cells[best * maxima->dim + d];

            if (!std::isnan (largest) && (std::isnan (value) || value > largest))
              best = i;
          }
        maxima->values.push_back (begin < end ? cells[best * maxima->dim + d] : 0);
        maxima->ids.push_back (begin < end ? ids[best] : -1);
      }
  return true;
}

inline bool
reference_lookup_bags (TpsTableStore *store, const TpsBagQuery *queries, guint n_queries,
                       TpsTensor *outputs, GError **error)
{
  for (guint i = 0; i < n_queries; i++)
    {
      Maxima maxima;

      if (queries[i].pooling != TPS_POOLING_MAX)
        {
          if (!tps_table_store_lookup_bags (store, nullptr, &queries[i], 1, &outputs[i], error))
            return false;
          continue;
        }
      if (!find_maxima (store, queries[i], &maxima, error))
        return false;
      tps_tensor_init_copy (&outputs[i], view_of (maxima.values, static_cast<gint64> (maxima.dim)));
    }
  return true;
}

/* Bags of one row each: a gradient of rows. */
inline Bags
gradient_of_maxima (const TpsBagGradient &gradient, const Maxima &maxima)
{
  const float *cells = static_cast<const float *> (gradient.gradient.data);
  Bags bags;

  bags.table = gradient.query.table;
  for (size_t cell = 0; cell < maxima.ids.size (); cell++)
    {
      size_t row = 0;

      if (maxima.ids[cell] < 0)
        continue;
      while (row < bags.indices.size () && bags.indices[row] != maxima.ids[cell])
        row++;
      if (row == bags.indices.size ())
        {
          bags.offsets.push_back (static_cast<gint64> (row));
          bags.indices.push_back (maxima.ids[cell]);
          bags.gradient.resize (bags.gradient.size () + maxima.dim);
        }
      bags.gradient[row * maxima.dim + cell % maxima.dim] += cells[cell];
    }
  return bags;
}

inline bool
reference_apply_bags (TpsTableStore *store, const TpsBagGradient *gradients, guint n_gradients,
                      GError **error)
{
  std::vector<TpsBagGradient> converted (gradients, gradients + n_gradients);
  std::vector<Bags> bags (n_gradients);

  for (guint i = 0; i < n_gradients; i++)
    {
      Maxima maxima;

      if (gradients[i].query.pooling != TPS_POOLING_MAX)
        continue;
      if (!find_maxima (store, gradients[i].query, &maxima, error))
        return false;
      bags[i] = gradient_of_maxima (gradients[i], maxima);
      converted[i] = bags[i].bag_gradient (static_cast<gint64> (maxima.dim));
    }
  return tps_table_store_apply_bags (store, converted.data (), n_gradients, error);
}

}

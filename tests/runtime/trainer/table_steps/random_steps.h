/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Random bags and gradients of several tables. */

#pragma once

#include <random>
#include <vector>

#include "runtime/trainer/table_steps/table_steps.h"

namespace tps_test {

/* The bags and gradients of one table in one step. */
struct RandomBags
{
  std::vector<gint64> ids, offsets;
  std::vector<float> gradients; /* [bags, dim + 1], so that the vectors have gaps */
  gsize dim;

  /* Many ids are equal. Some bags are empty, and some steps have no bags. */
  RandomBags (std::mt19937 &dice, gint64 rows, gsize the_dim) : dim (the_dim)
  {
    std::uniform_real_distribution<float> draw (-1, 1);
    gsize n_bags = dice () % 8 == 0 ? 0 : 1 + dice () % 90;

    for (gsize bag = 0; bag < n_bags; bag++)
      {
        offsets.push_back (static_cast<gint64> (ids.size ()));
        for (gsize i = dice () % 4; i > 0; i--)
          ids.push_back (dice () % 2 == 0 ? 0 : static_cast<gint64> (dice () % rows));
      }
    gradients.resize (n_bags * (dim + 1));
    for (float &gradient : gradients)
      gradient = draw (dice);
  }

  TpsStepBags
  get_bags () const
  {
    return { ids.data (), ids.size (), offsets.data (), offsets.size () };
  }

  TpsStepVectors
  get_gradients ()
  {
    return { gradients.data (), dim + 1 };
  }

  TpsBagQuery
  get_query (const char *table) const
  {
    TpsBagQuery query {};

    query.table = table;
    query.indices = { { TPS_DTYPE_INT64, 1, { static_cast<gint64> (ids.size ()) } }, ids.data () };
    query.offsets = { { TPS_DTYPE_INT64, 1, { static_cast<gint64> (offsets.size ()) } },
                      offsets.data () };
    query.pooling = TPS_POOLING_SUM;
    return query;
  }

  /* Returns the gradients without the gaps. */
  std::vector<float>
  get_dense_gradients () const
  {
    std::vector<float> dense;

    for (gsize bag = 0; bag < offsets.size (); bag++)
      for (gsize i = 0; i < dim; i++)
        dense.push_back (gradients[bag * (dim + 1) + i]);
    return dense;
  }
};

}

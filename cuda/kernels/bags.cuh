/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The boundaries of bags. */

#pragma once

#include "cuda/kernels/launch.cuh"
#include "runtime/device/backend.h"

namespace tps {

/* Returns the first position of `bag`, or n_indices for bag n_bags. */
TPS_BODY gsize
bag_start (const TpsBags &bags, gsize bag)
{
  if (bag == bags.n_bags)
    return bags.n_indices;
  return bags.offsets != nullptr ? (gsize) bags.offsets[bag] : bag * (bags.n_indices / bags.n_bags);
}

/* Returns the bag of `position`: the last bag that begins at or before it. n_bags must be > 0. */
TPS_BODY gsize
bag_of (const TpsBags &bags, gsize position)
{
  gsize low = 0, high = bags.n_bags;

  if (bags.offsets == nullptr && bags.n_indices == bags.n_bags)
    return position;
  if (bags.offsets == nullptr)
    return MIN (position / (bags.n_indices / bags.n_bags), bags.n_bags - 1);
  while (high - low > 1)
    {
      gsize middle = low + (high - low) / 2;

      if ((gsize) bags.offsets[middle] <= position)
        low = middle;
      else
        high = middle;
    }
  return low;
}

} /* namespace tps */

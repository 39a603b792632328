/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Groups of positions with equal ids. The results lie in device memory, which is valid for work
 * that is enqueued before the Scratch ends. Only the device knows the number of groups. */

#pragma once

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/scratch.cuh"
#include "runtime/device/backend.h"

namespace tps {

/* Positions are 32-bit numbers. A larger number of ids is refused with cudaErrorInvalidValue. */
constexpr gsize kMaxIds = G_MAXUINT32 - 1;

struct GroupRequest
{
  const gint64 *ids; /* [n_ids], the keys */
  gsize n_ids;       /* > 0 */
  gint64 bound;      /* ids are in [0, bound) */
  /* The bags whose positions are grouped and numbered, at most 2^32 - 1; NULL: bags have no
   * numbers. */
  const TpsBags *bags;

  /* Outputs: the unique ids, ascending, and their number. Both may be NULL. */
  gint64 *unique_indices;
  gint64 *n_unique;

  /* Bytes to allocate in addition, which the caller may take from the Scratch afterwards. */
  gsize n_extra_bytes;
};

/* The sorted positions. Group u, below *n_groups, is order[starts[u]] … order[starts[u + 1] - 1],
 * with ascending positions. Keys are ascending. */
struct Groups
{
  gsize n;                 /* sorted positions */
  const guint32 *keys32;   /* [n] sorted keys; NULL = the keys have 64 bits */
  const guint64 *keys64;   /* [n] sorted keys; NULL = the keys have 32 bits */
  const guint32 *order;    /* [n] positions in the order of their keys */
  const guint32 *numbers;  /* [n] the group of a sorted position, from 1 */
  const guint32 *starts;   /* [n + 1] */
  const guint32 *bag_of;   /* [n] the bag of an input position; NULL without bags */
  const guint32 *n_groups; /* [1] */

  /* Returns the key of sorted position `i`. */
  TPS_BODY guint64
  key_at (gsize i) const
  {
    return keys32 != nullptr ? keys32[i] : keys64[i];
  }
};

/* Enqueues the grouping. The memory of `groups` belongs to `scratch`, which must be unused. Errors:
 * cudaErrorInvalidValue (too many ids or bags), cudaErrorMemoryAllocation. */
cudaError_t group_ids (cudaStream_t stream, const GroupRequest &request, Scratch *scratch,
                       Groups *groups);

} /* namespace tps */

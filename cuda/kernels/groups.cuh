/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Positions of equal ids, in memory of the device that lives until the stream has passed what was
 * enqueued after. How many groups there are is known on the device alone. */

#pragma once

#include "cuda/kernels/launch.cuh"
#include "cuda/kernels/scratch.cuh"

namespace tps {

/* Positions are 32-bit numbers: more ids than this are refused with cudaErrorInvalidValue. */
constexpr gsize kMaxIds = G_MAXUINT32 - 1;

struct GroupRequest
{
  /* -1: none, which belongs to no group. */
  const gint64 *ids;
  gsize n_ids; /* > 0 */
  /* 0: ids are grouped. Else [n_ids / dim, dim] ids, and what is grouped are cells: ids[i] * dim +
   * i % dim. */
  gsize dim;
  /* What is grouped lies in [0, bound), or is none; 0: any id that is not negative. */
  gint64 bound;

  /* Filled with the unique ids, ascending, and their number; both may be NULL. For cells: the
   * unique rows that they are in. */
  gint64 *unique_indices;
  gint64 *n_unique;

  /* What the caller takes from the scratch memory afterwards. */
  gsize n_extra_bytes;
};

/* What was given is sorted: group u is order[starts[u]] … order[starts[u + 1] - 1], positions
 * ascending, for u below *n_groups; keys are ascending. */
struct Groups
{
  gsize n;                /* sorted positions; those of no group are the last */
  const guint32 *keys32;  /* [n] sorted, or NULL: */
  const guint64 *keys64;  /* [n] */
  const guint32 *order;   /* [n] */
  const guint32 *numbers; /* [n] the group of a sorted position, from 1 on */
  const guint32 *rows;    /* [n] of cells: which of the unique rows, from 1 on */
  const guint32 *starts;  /* [n + 1] */
  const guint32 *n_groups;

  TPS_BODY guint64
  key_at (gsize i) const
  {
    return keys32 != nullptr ? keys32[i] : keys64[i];
  }
  TPS_BODY bool
  is_none (gsize i) const
  {
    return keys32 != nullptr ? keys32[i] == G_MAXUINT32 : keys64[i] == G_MAXUINT64;
  }
};

/* Enqueues. What `groups` points to belongs to `scratch`, of which nothing was allocated before. */
cudaError_t group_ids (cudaStream_t stream, const GroupRequest &request, Scratch *scratch,
                       Groups *groups);

} /* namespace tps */

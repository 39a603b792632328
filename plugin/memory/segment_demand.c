/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What to open next. Each message that did not find room leaves a demand: how large a segment would have taken it, and how many such
 * segments would have been of use at that moment. The next segment serves the largest demand, and demands that it meets
 * are forgotten with it. Where the limit stands in the way, idle smaller segments are closed first.
 *
 * Segments are powers of two: a few sizes serve all, and growing tensors do not open one for each step. */

#include "plugin/memory/segment_pool_private.h"

#define MAX_SEGMENTS 64

void
tps_segment_pool_demand (TpsSegmentPool *pool, TpsSegmentUse use, gsize n_bytes, guint n_parallel)
{
  TpsSegmentDemand *demand = &pool->demands[use];

  if (pool->offer == TPS_OFFER_ENDED)
    return;
  if (pool->n_overlooked > 0)
    {
      pool->n_overlooked--;
      return;
    }
  demand->n_bytes = MAX (demand->n_bytes, n_bytes);
  demand->n_parallel = MAX (demand->n_parallel, n_parallel);
  if (pool->offer == TPS_OFFER_UNKNOWN)
    pool->offer = TPS_OFFER_WANTED;
  tps_segment_pool_wake (pool);
}

/* Of the segment that would take `n_bytes`; where that is more than the limit, the largest there may be. */
static gsize
size_for (const TpsSegmentPool *pool, gsize n_bytes)
{
  gsize size = TPS_POOL_SEGMENT_MIN_BYTES;

  while (size < n_bytes && size <= pool->max_bytes / 2)
    size *= 2;
  return size;
}

static guint
count_suitable (const TpsSegmentPool *pool, TpsSegmentUse use, gsize size)
{
  guint n_suitable = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      n_suitable += held->use == use && held->phase == TPS_POOL_SEGMENT_OPEN
                    && held->n_bytes >= size;
    }
  return n_suitable;
}

/* The smallest idle segment below `size`; NULL = none. */
static TpsPoolSegment *
find_victim (const TpsSegmentPool *pool, gsize size)
{
  TpsPoolSegment *victim = NULL;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->state == TPS_POOL_SEGMENT_FREE && held->phase == TPS_POOL_SEGMENT_OPEN
          && held->n_bytes < size && (victim == NULL || held->n_bytes < victim->n_bytes))
        victim = held;
    }
  return victim;
}

/* Bytes that are on their way back to the server, and with `size` above 0 those that could be, for a larger segment. */
static gsize
count_leaving (const TpsSegmentPool *pool, gsize size)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];
      gboolean leaves = held->phase == TPS_POOL_SEGMENT_DOOMED
                        || held->phase == TPS_POOL_SEGMENT_CLOSING;

      if (leaves
          || (held->phase == TPS_POOL_SEGMENT_OPEN && held->state == TPS_POOL_SEGMENT_FREE
              && held->n_bytes < size))
        n_bytes += held->n_bytes;
    }
  return n_bytes;
}

/* Whether a segment of `size` may be opened now. If it may later, room is being made and `wait` is set. */
static gboolean
make_room (TpsSegmentPool *pool, gsize size, gboolean *wait)
{
  gsize n_bytes = tps_segment_pool_count_bytes (pool);

  *wait = FALSE;
  if (size > pool->max_bytes || pool->segments->len >= MAX_SEGMENTS)
    return FALSE;
  if (n_bytes <= pool->max_bytes - size)
    return TRUE;
  if (n_bytes - count_leaving (pool, size) > pool->max_bytes - size)
    return FALSE;
  while (n_bytes - count_leaving (pool, 0) > pool->max_bytes - size)
    find_victim (pool, size)->phase = TPS_POOL_SEGMENT_DOOMED;
  *wait = TRUE;
  return FALSE;
}

gsize
tps_segment_pool_plan (TpsSegmentPool *pool, TpsSegmentUse use)
{
  TpsSegmentDemand *demand = &pool->demands[use];
  gsize size = size_for (pool, demand->n_bytes);
  gboolean wait = FALSE;
  gboolean now;

  if (demand->n_bytes == 0)
    return 0;
  now = count_suitable (pool, use, size) < demand->n_parallel && make_room (pool, size, &wait);
  if (!wait)
    *demand = (TpsSegmentDemand) { 0 };
  return now ? size : 0;
}

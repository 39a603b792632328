/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What to open next. Each message that did not find room leaves a demand: how large a segment would have taken it, and how many such
 * segments would have been of use at that moment. The next segment serves the largest demand, and demands that it meets
 * are forgotten with it, but of a device as many are opened as would have been of use. Where the limit stands in the way, idle smaller segments are closed first.
 *
 * Segments are powers of two: a few sizes serve all, and growing tensors do not open one for each step. */

#include "plugin/memory/segment_pool_private.h"

#define MAX_SEGMENTS 64

void
tps_segment_pool_demand (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use,
                         gsize n_bytes, guint n_parallel)
{
  TpsPoolKind *of_kind = &pool->kinds[kind];
  TpsSegmentDemand *demand = &of_kind->demands[use];

  if (pool->offer == TPS_OFFER_ENDED || of_kind->is_ended)
    return;
  if (of_kind->n_overlooked > 0)
    {
      of_kind->n_overlooked--;
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
size_for (const TpsSegmentPool *pool, TpsSegmentKind kind, gsize n_bytes)
{
  gsize size = tps_segment_round_size (kind, TPS_POOL_SEGMENT_MIN_BYTES);

  while (size < n_bytes && size <= pool->kinds[kind].max_bytes / 2)
    size *= 2;
  return size;
}

static guint
count_suitable (const TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use, gsize size)
{
  guint n_suitable = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      n_suitable += held->kind == kind && held->use == use && held->phase == TPS_POOL_SEGMENT_OPEN
                    && held->n_bytes >= size;
    }
  return n_suitable;
}

/* Whether it may make room for one of `size`. */
static gboolean
may_go (const TpsPoolSegment *held, TpsSegmentKind kind, gsize size)
{
  return held->kind == kind && held->phase == TPS_POOL_SEGMENT_OPEN
         && held->state == TPS_POOL_SEGMENT_FREE && held->n_bytes < size
         && (kind == TPS_SEGMENT_MEMFD || held->use == TPS_SEGMENT_REQUESTS);
}

/* The smallest such segment; NULL = none. */
static TpsPoolSegment *
find_victim (const TpsSegmentPool *pool, TpsSegmentKind kind, gsize size)
{
  TpsPoolSegment *victim = NULL;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];

      if (may_go (held, kind, size) && (victim == NULL || held->n_bytes < victim->n_bytes))
        victim = held;
    }
  return victim;
}

/* Bytes that are on their way back to the server, and with `size` above 0 those that could be, for a larger segment. */
static gsize
count_leaving (const TpsSegmentPool *pool, TpsSegmentKind kind, gsize size)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];
      gboolean leaves = held->kind == kind
                        && (held->phase == TPS_POOL_SEGMENT_DOOMED
                            || held->phase == TPS_POOL_SEGMENT_CLOSING);

      if (leaves || may_go (held, kind, size))
        n_bytes += held->n_bytes;
    }
  return n_bytes;
}

/* Whether a segment of `size` may be opened now. If it may later, room is being made and `wait` is set. */
static gboolean
make_room (TpsSegmentPool *pool, TpsSegmentKind kind, gsize size, gboolean *wait)
{
  gsize n_bytes = tps_segment_pool_count_bytes (pool, kind);
  gsize max_bytes = pool->kinds[kind].max_bytes;

  *wait = FALSE;
  if (size > max_bytes || pool->segments->len >= MAX_SEGMENTS)
    return FALSE;
  if (n_bytes <= max_bytes - size)
    return TRUE;
  if (n_bytes - count_leaving (pool, kind, size) > max_bytes - size)
    return FALSE;
  while (n_bytes - count_leaving (pool, kind, 0) > max_bytes - size)
    find_victim (pool, kind, size)->phase = TPS_POOL_SEGMENT_DOOMED;
  *wait = TRUE;
  return FALSE;
}

/* Who misses one of the host's says so again; for want of a device's everything takes another way, and nobody can tell. */
static gboolean
wants_all (TpsSegmentKind kind)
{
  return kind == TPS_SEGMENT_CUDA_IPC;
}

gsize
tps_segment_pool_plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use)
{
  TpsSegmentDemand *demand = &pool->kinds[kind].demands[use];
  gsize size = size_for (pool, kind, demand->n_bytes);
  gboolean wait = FALSE;
  gboolean now;

  if (demand->n_bytes == 0)
    return 0;
  now = count_suitable (pool, kind, use, size) < demand->n_parallel
        && make_room (pool, kind, size, &wait);
  if (!wait && !(now && wants_all (kind)))
    *demand = (TpsSegmentDemand) { 0 };
  return now ? size : 0;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state of the pool and its segments. */

#include "plugin/memory/segment_pool.h"

#include <unistd.h>

#include "plugin/memory/segment_pool_private.h"

TpsSegmentPool *
tps_segment_pool_new (const TpsSegmentPoolOptions *options)
{
  TpsSegmentPool *pool = g_new0 (TpsSegmentPool, 1);

  tps_refcount_init (&pool->refcount);
  tps_mutex_init (&pool->lock);
  pool->wake = options->wake;
  pool->user_data = options->user_data;
  for (guint kind = 0; kind < TPS_SEGMENT_N_KINDS; kind++)
    pool->kinds[kind] = (TpsPoolKind) { .max_bytes = options->max_bytes,
                                        .n_backoff = TPS_POOL_FIRST_BACKOFF };
  if (options->lookup_device != NULL && options->lookup_device->ops->open_exported != NULL)
    pool->device = options->lookup_device;
  pool->takes_lookups = pool->device != NULL;
  pool->has_common_answers = options->has_common_answers;
  pool->segments = g_ptr_array_new ();
  g_queue_init (&pool->leases);
  pool->descriptor = -1;
  return pool;
}

TpsSegmentPool *
tps_segment_pool_ref (TpsSegmentPool *pool)
{
  tps_refcount_inc (&pool->refcount);
  return pool;
}

void
tps_segment_pool_drop_descriptor (TpsSegmentPool *pool)
{
  if (pool->descriptor >= 0)
    close (pool->descriptor);
  pool->descriptor = -1;
}

void
tps_segment_pool_unref (TpsSegmentPool *pool)
{
  if (!tps_refcount_dec (&pool->refcount))
    return;
  while (pool->segments->len > 0)
    tps_segment_pool_drop (pool, pool->segments->pdata[pool->segments->len - 1]);
  tps_segment_pool_drop_descriptor (pool);
  g_ptr_array_unref (pool->segments);
  tps_mutex_clear (&pool->lock);
  g_free (pool);
}

gboolean
tps_segment_pool_is_down (const TpsSegmentPool *pool)
{
  return pool->wake == NULL;
}

void
tps_segment_pool_shut_down (TpsSegmentPool *pool)
{
  tps_mutex_lock (&pool->lock);
  pool->wake = NULL;
  pool->offer = TPS_OFFER_ENDED;
  tps_segment_pool_drop_descriptor (pool);
  /* The loop runs backwards, because a drop moves the last segment to the free position. */
  for (guint i = pool->segments->len; i > 0; i--)
    {
      TpsPoolSegment *held = pool->segments->pdata[i - 1];

      /* A segment that a call, a claim or a reply still uses is dropped at the end of this use. */
      if (held->state != TPS_POOL_SEGMENT_LEASED && held->state != TPS_POOL_SEGMENT_CLAIMED
          && held->state != TPS_POOL_SEGMENT_LENT)
        tps_segment_pool_drop (pool, held);
    }
  tps_mutex_unlock (&pool->lock);
}

/* ---- segments ------------------------------------------------------------------------------- */

TpsPoolSegment *
tps_segment_pool_find (const TpsSegmentPool *pool, TpsSegmentUse use, gint64 id)
{
  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->id == id && held->use == use && held->segment != NULL)
        return held;
    }
  return NULL;
}

guint
tps_segment_pool_count (const TpsSegmentPool *pool, TpsSegmentKind kind, TpsPoolSegmentState state)
{
  guint n_segments = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      n_segments += held->kind == kind && held->state == state;
    }
  return n_segments;
}

void
tps_segment_pool_drop (TpsSegmentPool *pool, TpsPoolSegment *held)
{
  g_ptr_array_remove_fast (pool->segments, held);
  g_clear_pointer (&held->segment, tps_segment_free);
  g_free (held);
}

void
tps_segment_pool_reap (TpsSegmentPool *pool)
{
  const TpsPoolLease *oldest = pool->leases.head != NULL ? pool->leases.head->data : NULL;

  for (guint i = pool->segments->len; i > 0; i--)
    {
      TpsPoolSegment *held = pool->segments->pdata[i - 1];

      if (held->phase == TPS_POOL_SEGMENT_DRAINING && held->state == TPS_POOL_SEGMENT_FREE
          && (oldest == NULL || held->last_lease < oldest->number))
        tps_segment_pool_drop (pool, held);
    }
}

gsize
tps_segment_pool_count_bytes (const TpsSegmentPool *pool, TpsSegmentKind kind)
{
  gsize n_bytes = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->kind == kind && held->phase != TPS_POOL_SEGMENT_DRAINING)
        n_bytes += held->n_bytes;
    }
  return n_bytes;
}

void
tps_segment_pool_wake (TpsSegmentPool *pool)
{
  if (pool->wake == NULL || pool->woken)
    return;
  pool->woken = TRUE;
  pool->wake (pool->user_data);
}

void
tps_segment_pool_add_stats (TpsSegmentPool *pool, TpsSharingStats *stats)
{
  const TpsSharingCount *from = (const TpsSharingCount *) &pool->stats;
  TpsSharingCount *to = (TpsSharingCount *) stats;

  tps_mutex_lock (&pool->lock);
  for (guint i = 0; i < sizeof *stats / sizeof *to; i++)
    {
      to[i].n_tensors += from[i].n_tensors;
      to[i].n_bytes += from[i].n_bytes;
    }
  tps_mutex_unlock (&pool->lock);
}

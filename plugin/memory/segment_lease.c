/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The memory of one call. Its tensors are copied, one after another, into the smallest free
 * segment that is large enough. If the next tensor does not fit, the call takes another segment. A
 * tensor that lies in a claimed segment is not copied. */

#include "plugin/memory/segment_pool_private.h"
#include "runtime/device/device_memory.h"
#include "runtime/base/magazine.h"
#include "runtime/base/stream_copy.h"

typedef struct
{
  TpsSharing base;
  TpsRefcount refcount;
  TpsSegmentPool *pool;

  /* Guarded by pool->lock. */
  TpsPoolLease in_pool;
  gboolean ended;
  /* Of TpsPoolSegment. A LEASED segment is listed once, and a CLAIMED segment once for each of its
   * slices. NULL = none. */
  GPtrArray *segments;
  /* The bytes of all tensors that may be shared, with their alignment. */
  gsize n_wanted[TPS_SEGMENT_N_KINDS];
  gsize n_missed[TPS_SEGMENT_N_KINDS]; /* the bytes of these tensors that found no room */
} Lease;

/* Every call of a client that shares memory has a lease, even a small call, so leases are kept for
 * reuse. */
static TpsDepot depot = TPS_DEPOT_INIT (g_free);
static _Thread_local TpsMagazine magazine;

/* ---- placing -------------------------------------------------------------------------------- */

static TpsPoolSegment *
find_room (Lease *lease, TpsSegmentKind kind, gsize n_bytes)
{
  if (lease->segments == NULL)
    return NULL;
  for (guint i = 0; i < lease->segments->len; i++)
    {
      TpsPoolSegment *held = lease->segments->pdata[i];

      if (held->kind == kind && held->state == TPS_POOL_SEGMENT_LEASED
          && n_bytes <= held->n_bytes - held->n_used)
        return held;
    }
  return NULL;
}

static void
add_segment (Lease *lease, TpsPoolSegment *held)
{
  if (lease->segments == NULL)
    lease->segments = g_ptr_array_new ();
  g_ptr_array_add (lease->segments, held);
}

/* Takes the smallest free segment of at least `n_bytes` for the lease. */
static TpsPoolSegment *
take_free (Lease *lease, TpsSegmentKind kind, gsize n_bytes)
{
  TpsPoolSegment *held = tps_segment_pool_find_free (lease->pool, kind, n_bytes);

  if (held == NULL)
    return NULL;
  held->state = TPS_POOL_SEGMENT_LEASED;
  held->n_used = 0;
  add_segment (lease, held);
  return held;
}

static gboolean
is_large (const Lease *lease)
{
  return lease->n_wanted[TPS_SEGMENT_MEMFD] > 0 || lease->n_wanted[TPS_SEGMENT_CUDA_IPC] > 0;
}

/* Returns the memory for the tensor; NULL = no room. Must be called with the lock held. */
static guint8 *
reserve (Lease *lease, TpsSegmentKind kind, gsize n_bytes, TpsSharedSlice *slice)
{
  gsize n_aligned = tps_sharing_round (n_bytes);
  TpsPoolSegment *held = NULL;

  if (!is_large (lease))
    lease->pool->n_large++;
  lease->n_wanted[kind] += n_aligned;
  if (!tps_segment_pool_is_down (lease->pool))
    held = find_room (lease, kind, n_aligned);
  if (held == NULL && !tps_segment_pool_is_down (lease->pool))
    held = take_free (lease, kind, n_aligned);
  if (held == NULL)
    {
      lease->n_missed[kind] += n_aligned;
      return NULL;
    }
  *slice = (TpsSharedSlice) { .segment = held->id,
                              .offset = (gint64) held->n_used,
                              .length = (gint64) n_bytes };
  held->n_used += n_aligned;
  return tps_segment_get_data (held->segment) + slice->offset;
}

/* Sets `slice` if the bytes lie in a claimed segment; FALSE: they do not. Must be called with the
 * lock held. */
static gboolean
name_claimed (Lease *lease, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice)
{
  TpsPoolSegment *held = NULL;

  if (!tps_segment_pool_is_down (lease->pool))
    held = tps_segment_pool_find_claim (lease->pool, data, n_bytes);
  if (held == NULL)
    return FALSE;
  *slice = (TpsSharedSlice) {
    .segment = held->id,
    .offset = (const guint8 *) data - tps_segment_get_data (held->segment),
    .length = (gint64) n_bytes,
  };
  held->n_calls++;
  add_segment (lease, held);
  tps_sharing_count_add (&lease->pool->stats.sent_claimed, n_bytes);
  return TRUE;
}

static gboolean
lease_place (TpsSharing *sharing, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice)
{
  Lease *lease = (Lease *) sharing;
  TpsSegmentPool *pool = lease->pool;
  gboolean is_claimed = FALSE;
  guint8 *to = NULL;

  tps_mutex_lock (&pool->lock);
  if (!lease->ended && n_bytes <= G_MAXINT64)
    {
      is_claimed = name_claimed (lease, data, n_bytes, slice);
      if (!is_claimed)
        to = reserve (lease, TPS_SEGMENT_MEMFD, n_bytes, slice);
    }
  tps_sharing_count_add (
      is_claimed || to != NULL ? &pool->stats.sent_shared : &pool->stats.sent_inline, n_bytes);
  tps_mutex_unlock (&pool->lock);
  if (to != NULL)
    tps_stream_copy (to, data, n_bytes); /* the lease keeps the segment mapped */
  return is_claimed || to != NULL;
}

/* Returns TRUE if `device` is the device of the pool, and the pool takes more than results of
 * lookups. The first device that can open exported memory becomes the device of the pool. Must be
 * called with the lock held. */
static gboolean
is_own_device (TpsSegmentPool *pool, TpsDevice *device)
{
  if (pool->takes_lookups)
    return FALSE;
  if (pool->device == NULL && device->ops->open_exported != NULL)
    pool->device = device;
  return pool->device == device;
}

static gboolean
lease_place_device (TpsSharing *sharing, TpsDevice *device, gconstpointer data, gsize n_bytes,
                    TpsSharedSlice *slice)
{
  Lease *lease = (Lease *) sharing;
  TpsSegmentPool *pool = lease->pool;
  guint8 *to = NULL;

  tps_mutex_lock (&pool->lock);
  if (!lease->ended && n_bytes <= G_MAXINT64 && is_own_device (pool, device))
    to = reserve (lease, TPS_SEGMENT_CUDA_IPC, n_bytes, slice);
  tps_mutex_unlock (&pool->lock);
  if (to == NULL || !tps_device_memory_copy (device, to, data, n_bytes, NULL))
    return FALSE;
  tps_mutex_lock (&pool->lock);
  tps_sharing_count_add (&pool->stats.sent_shared, n_bytes);
  tps_mutex_unlock (&pool->lock);
  return TRUE;
}

/* Demands segments of the device for requests and replies. An average has the same size as its
 * gradient. One more segment is needed for replies, because a returned segment is on its way back
 * for some time. */
static void
demand_device (const Lease *lease)
{
  TpsSegmentPool *pool = lease->pool;
  gsize n_wanted = lease->n_wanted[TPS_SEGMENT_CUDA_IPC];

  tps_segment_pool_demand (pool, TPS_SEGMENT_CUDA_IPC, TPS_SEGMENT_REQUESTS, n_wanted,
                           pool->n_large);
  tps_segment_pool_demand (pool, TPS_SEGMENT_CUDA_IPC, TPS_SEGMENT_ANSWERS, n_wanted,
                           pool->n_large + 1);
}

void
tps_segment_lease_written (TpsSharing *sharing)
{
  Lease *lease = (Lease *) sharing;
  TpsSegmentPool *pool = lease->pool;

  tps_mutex_lock (&pool->lock);
  if (lease->n_missed[TPS_SEGMENT_CUDA_IPC] > 0 && !pool->kinds[TPS_SEGMENT_CUDA_IPC].is_ended)
    demand_device (lease); /* with these segments, the tensors need no host memory */
  else if (lease->n_missed[TPS_SEGMENT_MEMFD] > 0)
    tps_segment_pool_demand (
        pool, TPS_SEGMENT_MEMFD, TPS_SEGMENT_REQUESTS, lease->n_wanted[TPS_SEGMENT_MEMFD],
        pool->n_large + tps_segment_pool_count (pool, TPS_SEGMENT_MEMFD, TPS_POOL_SEGMENT_CLAIMED));
  tps_mutex_unlock (&pool->lock);
}

gboolean
tps_segment_lease_is_of (TpsSharing *sharing, const TpsSegmentPool *pool)
{
  return ((Lease *) sharing)->pool == pool;
}

/* ---- end of a lease ------------------------------------------------------------------------- */

/* Gives up the segments of the lease. Must be called with the lock held. */
static void
let_go (Lease *lease, gboolean given_back)
{
  TpsSegmentPool *pool = lease->pool;

  for (guint i = 0; i < lease->segments->len; i++)
    {
      TpsPoolSegment *held = lease->segments->pdata[i];

      if (held->state == TPS_POOL_SEGMENT_CLAIMED)
        {
          tps_segment_claim_end_call (pool, held, given_back);
          continue;
        }
      held->state = TPS_POOL_SEGMENT_FREE;
      if (tps_segment_pool_is_down (pool))
        tps_segment_pool_drop (pool, held);
      else if (!given_back)
        held->phase = TPS_POOL_SEGMENT_DOOMED;
    }
  if (!given_back)
    tps_segment_pool_wake (pool);
  g_clear_pointer (&lease->segments, g_ptr_array_unref);
}

void
tps_segment_lease_end (TpsSharing *sharing, gboolean given_back)
{
  Lease *lease = (Lease *) sharing;
  TpsSegmentPool *pool = lease->pool;

  tps_mutex_lock (&pool->lock);
  if (!lease->ended)
    {
      lease->ended = TRUE;
      g_queue_unlink (&pool->leases, &lease->in_pool.node);
      if (is_large (lease))
        pool->n_large--;
      if (lease->segments != NULL)
        let_go (lease, given_back);
      tps_segment_pool_reap (pool);
    }
  tps_mutex_unlock (&pool->lock);
}

static void
lease_ref (TpsSharing *sharing)
{
  tps_refcount_inc (&((Lease *) sharing)->refcount);
}

static void
lease_unref (TpsSharing *sharing)
{
  Lease *lease = (Lease *) sharing;

  if (!tps_refcount_dec (&lease->refcount))
    return;
  if (!lease->ended) /* no call of tps_segment_lease_end() came */
    tps_segment_lease_end (sharing, FALSE);
  tps_segment_pool_unref (lease->pool);
  tps_magazine_put (&magazine, &depot, lease);
}

TpsSharing *
tps_segment_pool_lease (TpsSegmentPool *pool)
{
  static const TpsSharingOps ops = {
    .place = lease_place, .place_device = lease_place_device, .ref = lease_ref, .unref = lease_unref
  };
  Lease *lease = tps_magazine_take (&magazine, &depot);

  if (lease == NULL)
    lease = g_new (Lease, 1);
  *lease = (Lease) { .base.ops = &ops,
                     .pool = tps_segment_pool_ref (pool),
                     .in_pool = { .node = { .data = &lease->in_pool } } };
  tps_refcount_init (&lease->refcount);
  tps_mutex_lock (&pool->lock);
  lease->in_pool.number = ++pool->n_leases_made;
  g_queue_push_tail_link (&pool->leases, &lease->in_pool.node);
  tps_mutex_unlock (&pool->lock);
  return &lease->base;
}

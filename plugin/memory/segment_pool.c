/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/segment_pool.h"

#include <string.h>
#include <unistd.h>

#include "plugin/memory/pool_segments.h"
#include "plugin/memory/slice_search.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/stream_copy.h"
#include "runtime/device/device_memory.h"

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

/* ---- claims --------------------------------------------------------------------------------- */

/* A claim is a segment for REQUESTS that its owner fills before a call is made. A call sends slices
 * of the claim and copies nothing. Several calls may use one claim at the same time. */

typedef struct
{
  TpsSegmentPool *pool;
  TpsPoolSegment *held;
} Claim;

/* Ends the claim if neither its buffer nor a call uses it any more. Must be called with the lock
 * held. */
static void
settle_claim (TpsSegmentPool *pool, TpsPoolSegment *held)
{
  if (held->has_owner || held->n_calls > 0)
    return;
  held->state = TPS_POOL_SEGMENT_FREE;
  if (tps_segment_pool_is_down (pool))
    tps_segment_pool_drop (pool, held);
  else
    tps_segment_pool_reap (pool);
}

/* Ends the use of one slice of a CLAIMED segment by a call. `given_back` as in
 * tps_segment_lease_end(). */
static void
end_claim_call (TpsSegmentPool *pool, TpsPoolSegment *held, gboolean given_back)
{
  held->n_calls--;
  if (!given_back && held->phase == TPS_POOL_SEGMENT_OPEN)
    held->phase = TPS_POOL_SEGMENT_DOOMED;
  settle_claim (pool, held);
}

static void
free_claim (gpointer user_data)
{
  Claim *claim = user_data;

  tps_mutex_lock (&claim->pool->lock);
  claim->held->has_owner = FALSE;
  settle_claim (claim->pool, claim->held);
  tps_mutex_unlock (&claim->pool->lock);
  tps_segment_pool_unref (claim->pool);
  g_free (claim);
}

/* Returns a free segment for the claim; NULL = none. A segment that is much larger than the claim
 * is left to other uses. */
static TpsPoolSegment *
find_fitting (const TpsSegmentPool *pool, gsize n_bytes)
{
  TpsPoolSegment *held = tps_segment_pool_find_free (pool, TPS_SEGMENT_MEMFD, n_bytes);

  return held != NULL && held->n_bytes / 2 < MAX (n_bytes, TPS_POOL_SEGMENT_MIN_BYTES) ? held
                                                                                       : NULL;
}

TpsBuffer *
tps_segment_pool_claim (TpsSegmentPool *pool, gsize n_bytes)
{
  TpsPoolSegment *held = NULL;
  Claim *claim;

  if (n_bytes < TPS_SHARING_MIN_BYTES)
    return NULL;
  tps_mutex_lock (&pool->lock);
  if (!tps_segment_pool_is_down (pool))
    held = find_fitting (pool, n_bytes);
  if (held == NULL)
    /* One more segment than are open, because a free one that is too large does not suffice. */
    tps_segment_pool_demand (pool, TPS_SEGMENT_MEMFD, TPS_SEGMENT_REQUESTS, n_bytes,
                             pool->segments->len + 1);
  else
    {
      held->state = TPS_POOL_SEGMENT_CLAIMED;
      held->has_owner = TRUE;
    }
  tps_mutex_unlock (&pool->lock);
  if (held == NULL)
    return NULL;
  claim = g_new (Claim, 1);
  *claim = (Claim) { tps_segment_pool_ref (pool), held };
  return tps_buffer_new_foreign (tps_segment_get_data (held->segment), n_bytes, NULL, free_claim,
                                 claim);
}

gboolean
tps_segment_pool_has_claim (TpsSegmentPool *pool, const TpsBuffer *buffer)
{
  gboolean has_claim;

  tps_mutex_lock (&pool->lock);
  has_claim = !tps_segment_pool_is_down (pool)
              && tps_segment_pool_find_claim (pool, tps_buffer_get_data (buffer),
                                              tps_buffer_get_size (buffer))
                     != NULL;
  tps_mutex_unlock (&pool->lock);
  return has_claim;
}

/* ---- memory of calls ------------------------------------------------------------------------ */

/* The memory of one call. Its tensors are copied, one after another, into the smallest free
 * segment that is large enough. If the next tensor does not fit, the call takes another segment. A
 * tensor that lies in a claimed segment is not copied. */

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
add_to_lease (Lease *lease, TpsPoolSegment *held)
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
  add_to_lease (lease, held);
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
  add_to_lease (lease, held);
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
          end_claim_call (pool, held, given_back);
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

/* ---- memory of replies ---------------------------------------------------------------------- */

/* The memory of a received reply. The server puts all tensors of one reply into one segment, so the
 * first slice of the message identifies the segment. The search precedes any decoding. The segment
 * is therefore returned even if the reply came too late or is never read. */

typedef struct
{
  TpsSharing base;
  TpsRefcount refcount; /* held by the message and by each buffer */
  TpsSegmentPool *pool;
  TpsPoolSegment *held; /* LENT to this reply; NULL = the reply names no valid segment */
} View;

/* Ends the use of the segment by the reply. Must be called with the lock held. */
static void
give_back (TpsSegmentPool *pool, TpsPoolSegment *held)
{
  if (tps_segment_pool_is_down (pool))
    {
      tps_segment_pool_drop (pool, held);
      return;
    }
  if (held->phase == TPS_POOL_SEGMENT_OPEN)
    {
      held->state = TPS_POOL_SEGMENT_RETURNED;
      tps_segment_pool_wake (pool);
      return;
    }
  held->state = TPS_POOL_SEGMENT_FREE; /* the server has closed it, or will do so */
  tps_segment_pool_reap (pool);
}

static void
view_unref (TpsSharing *sharing)
{
  View *view = (View *) sharing;
  TpsSegmentPool *pool = view->pool;

  if (!tps_refcount_dec (&view->refcount))
    return;
  tps_mutex_lock (&pool->lock);
  if (view->held != NULL)
    give_back (pool, view->held);
  tps_mutex_unlock (&pool->lock);
  tps_segment_pool_unref (pool);
  g_free (view);
}

static void
view_ref (TpsSharing *sharing)
{
  tps_refcount_inc (&((View *) sharing)->refcount);
}

static void
free_buffer (gpointer user_data)
{
  view_unref (user_data);
}

static gboolean
check_slice (const View *view, const TpsSharedSlice *slice, GError **error)
{
  const TpsPoolSegment *held = view->held;

  if (held == NULL || slice->segment != held->id)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "names segment %" G_GINT64_FORMAT ", which does not belong to this reply",
                 slice->segment);
  else if (slice->offset < 0 || slice->offset % TPS_SHARING_ALIGNMENT != 0)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "begins at %" G_GINT64_FORMAT ", expected a multiple of %d", slice->offset,
                 TPS_SHARING_ALIGNMENT);
  else if (slice->length < 0 || (guint64) slice->offset > held->n_bytes
           || (guint64) slice->length > held->n_bytes - (guint64) slice->offset)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                 "has bytes [%" G_GINT64_FORMAT ", + %" G_GINT64_FORMAT
                 "), the segment has %" G_GSIZE_FORMAT,
                 slice->offset, slice->length, held->n_bytes);
  else
    return TRUE;
  return FALSE;
}

static TpsBuffer *
view_resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error)
{
  View *view = (View *) sharing;

  /* No lock is needed, because these fields do not change while the segment is lent. */
  if (!check_slice (view, slice, error))
    return NULL;
  tps_mutex_lock (&view->pool->lock);
  tps_sharing_count_add (&view->pool->stats.received_shared, (guint64) slice->length);
  tps_mutex_unlock (&view->pool->lock);
  view_ref (sharing);
  return tps_segment_show (view->held->segment, (gsize) slice->offset, (gsize) slice->length,
                           free_buffer, view);
}

static gboolean
has_answers (const TpsSegmentPool *pool)
{
  for (guint i = 0; i < pool->segments->len; i++)
    if (((const TpsPoolSegment *) pool->segments->pdata[i])->use == TPS_SEGMENT_ANSWERS)
      return TRUE;
  return FALSE;
}

/* Lends the segment to the reply, if the server was allowed to place the reply there. Returns NULL
 * if it was not. */
static TpsPoolSegment *
lend (TpsSegmentPool *pool, gint64 id)
{
  TpsPoolSegment *held = tps_segment_pool_find (pool, TPS_SEGMENT_ANSWERS, id);

  if (held == NULL || held->state != TPS_POOL_SEGMENT_FREE)
    return NULL;
  held->state = TPS_POOL_SEGMENT_LENT;
  return held;
}

static View *
view_new (TpsSegmentPool *pool)
{
  static const TpsSharingOps ops = { .resolve = view_resolve,
                                     .ref = view_ref,
                                     .unref = view_unref };
  View *view = g_new0 (View, 1);

  view->base.ops = &ops;
  tps_refcount_init (&view->refcount);
  view->pool = tps_segment_pool_ref (pool);
  return view;
}

/* Returns the number of segments that should be open. It is one more than are in use, because the
 * server needs a free segment while a returned segment is on its way back. With common segments, it
 * is one more than are open, because the server used a segment that this client has not opened. */
static guint
count_parallel_answers (const TpsSegmentPool *pool)
{
  if (pool->has_common_answers)
    return pool->segments->len + 1;
  return tps_segment_pool_count (pool, TPS_SEGMENT_MEMFD, TPS_POOL_SEGMENT_LENT)
         + pool->leases.length + 1;
}

/* Records a demand for tensors that came inline. A larger segment, or one more segment, would have
 * taken them. */
static void
miss (TpsSegmentPool *pool, const TpsSliceSearch *found, const TpsPoolSegment *held)
{
  pool->stats.received_inline.n_tensors += found->n_inline;
  pool->stats.received_inline.n_bytes += found->n_inline_bytes;
  tps_segment_pool_demand (pool, TPS_SEGMENT_MEMFD, TPS_SEGMENT_ANSWERS,
                           found->n_inline_room + (held != NULL ? held->n_bytes : 0),
                           count_parallel_answers (pool));
}

/* Returns the number of bytes that came in host memory but might have been placed in memory of the
 * device. For a lookup in tables of the device, either all results lie in memory of the device, or
 * none. */
static gsize
count_missed (const TpsSegmentPool *pool, const TpsSliceSearch *found, const TpsPoolSegment *held)
{
  gboolean is_on_host = held != NULL && held->kind == TPS_SEGMENT_MEMFD;

  if (pool->takes_lookups)
    return found->n_inline_room + (is_on_host ? found->n_shared_room : 0);
  if (found->n_inline > 0)
    return found->n_inline_room;
  return is_on_host ? (gsize) MAX (found->slice.length, 0) : 0;
}

/* Records a demand for a segment of the device. The server may have copied tensors to the host
 * because it had no room on the device. If all segments of the device are in use here, one more
 * would have been useful. */
static void
miss_device (TpsSegmentPool *pool, const TpsSliceSearch *found, const TpsPoolSegment *held)
{
  gboolean has_room = pool->takes_lookups && held != NULL && held->kind == TPS_SEGMENT_CUDA_IPC;
  gsize n_bytes = has_room ? 0 : count_missed (pool, found, held);

  if (n_bytes > 0)
    tps_segment_pool_demand (
        pool, TPS_SEGMENT_CUDA_IPC, TPS_SEGMENT_ANSWERS, n_bytes,
        tps_segment_pool_count (pool, TPS_SEGMENT_CUDA_IPC, TPS_POOL_SEGMENT_LENT) + 1);
}

/* Returns TRUE if the reply may refer to shared memory, or has tensors that may have missed it.
 * Sets `shares` if the connection has segments for replies. */
static gboolean
may_matter (TpsSegmentPool *pool, const TpsMessage *answer, gboolean *shares)
{
  tps_mutex_lock (&pool->lock);
  *shares = has_answers (pool);
  tps_mutex_unlock (&pool->lock);
  return *shares || answer->n_bodies > 0;
}

TpsSharing *
tps_segment_pool_receive (TpsSegmentPool *pool, const TpsMessage *answer)
{
  TpsSliceSearch found;
  View *view = NULL;
  gboolean shares;

  if (!may_matter (pool, answer, &shares))
    return NULL;
  tps_slice_search (answer, pool->takes_lookups, &found);
  if (shares)
    view = view_new (pool);
  if (!found.has_slice && found.n_inline == 0)
    return view != NULL ? &view->base : NULL;
  tps_mutex_lock (&pool->lock);
  if (found.has_slice && view != NULL)
    view->held = lend (pool, found.slice.segment);
  if (found.n_inline > 0)
    miss (pool, &found, view != NULL ? view->held : NULL);
  if (pool->device != NULL)
    miss_device (pool, &found, view != NULL ? view->held : NULL);
  tps_mutex_unlock (&pool->lock);
  return view != NULL ? &view->base : NULL;
}

/* ---- requests to the server ----------------------------------------------------------------- */

/* Requests to the server and their results. No request is made before a large tensor has found no
 * shared memory; the offer is then requested once. Only one segment is opened at a time, so that a
 * received descriptor belongs to this segment. */

#define MAX_BACKOFF (1u << 20)

static gboolean
is_common (const TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use)
{
  return pool->has_common_answers && kind == TPS_SEGMENT_MEMFD && use == TPS_SEGMENT_ANSWERS;
}

static gboolean
next_open_of (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentRequest *request)
{
  TpsSegmentUse use = TPS_SEGMENT_REQUESTS;
  gsize size = pool->kinds[kind].is_ended ? 0 : tps_segment_pool_plan (pool, kind, &use);

  if (size == 0)
    return FALSE;
  pool->open_out = TRUE;
  pool->opening_kind = kind;
  pool->opening_use = use;
  pool->n_opening_bytes = size;
  *request = (TpsSegmentRequest) {
    .ask = TPS_SEGMENT_ASK_OPEN,
    .kind = kind,
    .use = is_common (pool, kind, use) ? TPS_SEGMENT_COMMON_ANSWERS : use,
    .n_bytes = size,
    .for_lookups = kind == TPS_SEGMENT_CUDA_IPC && pool->takes_lookups,
  };
  return TRUE;
}

static gboolean
next_release (TpsSegmentPool *pool, TpsSegmentRequest *request)
{
  GArray *ids;

  if (pool->release_out
      || tps_segment_pool_count (pool, TPS_SEGMENT_MEMFD, TPS_POOL_SEGMENT_RETURNED)
                 + tps_segment_pool_count (pool, TPS_SEGMENT_CUDA_IPC, TPS_POOL_SEGMENT_RETURNED)
             == 0)
    return FALSE;
  ids = g_array_new (FALSE, FALSE, sizeof (gint64));
  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->state != TPS_POOL_SEGMENT_RETURNED)
        continue;
      held->state = TPS_POOL_SEGMENT_FREE;
      g_array_append_val (ids, held->id);
    }
  pool->release_out = TRUE;
  *request = (TpsSegmentRequest) { .ask = TPS_SEGMENT_ASK_RELEASE, .ids = ids };
  return TRUE;
}

static gboolean
next_close (TpsSegmentPool *pool, TpsSegmentRequest *request)
{
  GArray *ids = NULL;

  for (guint i = 0; i < pool->segments->len && !pool->close_out; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->phase != TPS_POOL_SEGMENT_DOOMED)
        continue;
      held->phase = TPS_POOL_SEGMENT_CLOSING;
      if (held->kind == TPS_SEGMENT_CUDA_IPC)
        g_clear_pointer (&held->segment, tps_segment_free);
      if (ids == NULL)
        ids = g_array_new (FALSE, FALSE, sizeof (gint64));
      g_array_append_val (ids, held->id);
    }
  if (ids == NULL)
    return FALSE;
  pool->close_out = TRUE;
  *request = (TpsSegmentRequest) { .ask = TPS_SEGMENT_ASK_CLOSE, .ids = ids };
  return TRUE;
}

static gboolean
next_offer (TpsSegmentPool *pool, TpsSegmentRequest *request)
{
  if (pool->offer != TPS_OFFER_WANTED)
    return FALSE;
  pool->offer = TPS_OFFER_ASKED;
  *request = (TpsSegmentRequest) { .ask = TPS_SEGMENT_ASK_OFFER };
  return TRUE;
}

gboolean
tps_segment_pool_next (TpsSegmentPool *pool, TpsSegmentRequest *request)
{
  gboolean any;

  tps_mutex_lock (&pool->lock);
  /* Opening comes before closing, because it chooses the segments to close. */
  any = !tps_segment_pool_is_down (pool)
        && (next_release (pool, request) || next_offer (pool, request)
            || (pool->offer == TPS_OFFER_MADE && !pool->open_out
                && (next_open_of (pool, TPS_SEGMENT_CUDA_IPC, request)
                    || next_open_of (pool, TPS_SEGMENT_MEMFD, request)))
            || next_close (pool, request));
  if (!any)
    pool->woken = FALSE;
  tps_mutex_unlock (&pool->lock);
  return any;
}

void
tps_segment_request_clear (TpsSegmentRequest *request)
{
  g_clear_pointer (&request->ids, g_array_unref);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Sets the limit of the kind. Returns TRUE if segments of the kind may be opened. */
static gboolean
set_offer (TpsPoolKind *kind, gsize max_bytes)
{
  kind->max_bytes = MIN (kind->max_bytes, max_bytes);
  kind->is_ended = kind->max_bytes < TPS_POOL_SEGMENT_MIN_BYTES;
  return !kind->is_ended;
}

void
tps_segment_pool_offered (TpsSegmentPool *pool, gsize max_bytes, gboolean has_device,
                          gboolean has_lookups)
{
  gboolean may_open = pool->takes_lookups ? has_lookups : has_device;
  gboolean any;

  tps_mutex_lock (&pool->lock);
  if (pool->offer == TPS_OFFER_ASKED)
    {
      any = set_offer (&pool->kinds[TPS_SEGMENT_MEMFD], max_bytes);
      any |= set_offer (&pool->kinds[TPS_SEGMENT_CUDA_IPC], may_open ? max_bytes : 0);
      pool->offer = any ? TPS_OFFER_MADE : TPS_OFFER_ENDED;
      tps_segment_pool_wake (pool);
    }
  tps_mutex_unlock (&pool->lock);
}

/* Ignores the next demands of the kind. Their number doubles with each call. */
static void
back_off (TpsPoolKind *kind)
{
  kind->n_overlooked = kind->n_backoff;
  kind->n_backoff = MIN (kind->n_backoff * 2, MAX_BACKOFF);
  memset (kind->demands, 0, sizeof kind->demands);
}

void
tps_segment_pool_offer_failed (TpsSegmentPool *pool)
{
  tps_mutex_lock (&pool->lock);
  if (pool->offer == TPS_OFFER_ASKED)
    {
      pool->offer = TPS_OFFER_UNKNOWN;
      for (guint kind = 0; kind < TPS_SEGMENT_N_KINDS; kind++)
        back_off (&pool->kinds[kind]);
    }
  tps_mutex_unlock (&pool->lock);
}

gboolean
tps_segment_pool_may_take (TpsSegmentPool *pool, TpsDevice *device)
{
  gboolean may_take;

  tps_mutex_lock (&pool->lock);
  may_take = !tps_segment_pool_is_down (pool) && pool->offer != TPS_OFFER_ENDED
             && !pool->kinds[TPS_SEGMENT_CUDA_IPC].is_ended && device->ops->open_exported != NULL
             && !pool->takes_lookups && (pool->device == NULL || pool->device == device);
  tps_mutex_unlock (&pool->lock);
  return may_take;
}

gboolean
tps_segment_pool_add_descriptor (TpsSegmentPool *pool, gint fd)
{
  gboolean is_expected;

  tps_mutex_lock (&pool->lock);
  is_expected = !tps_segment_pool_is_down (pool) && pool->open_out
                && pool->opening_kind == TPS_SEGMENT_MEMFD && pool->descriptor < 0;
  if (is_expected)
    pool->descriptor = fd;
  tps_mutex_unlock (&pool->lock);
  if (!is_expected)
    close (fd);
  return is_expected;
}

static gboolean
check_size (gint64 n_bytes, gsize n_asked, GError **error)
{
  if (n_bytes >= 0 && (gsize) n_bytes == n_asked)
    return TRUE;
  return tps_fail (error, TPS_ERROR_INTERNAL,
                   "the server opened a segment of %" G_GINT64_FORMAT
                   " bytes where %" G_GSIZE_FORMAT " were requested",
                   n_bytes, n_asked);
}

/* Checks and maps the received file. The lock is not held during the mapping, because filling page
 * tables takes a long time. */
static TpsSegment *
open_sent (TpsSegmentPool *pool, gint64 n_bytes, GError **error)
{
  TpsSegment *segment = NULL;
  gint fd;

  tps_mutex_lock (&pool->lock);
  fd = pool->descriptor;
  pool->descriptor = -1;
  tps_mutex_unlock (&pool->lock);
  if (fd < 0)
    return tps_fail_null (error, TPS_ERROR_INTERNAL,
                          "the server opened a segment but sent no file descriptor for it");
  if (check_size (n_bytes, pool->n_opening_bytes, error))
    segment = tps_segment_open (pool->opening_use, pool->n_opening_bytes, fd, error);
  close (fd);
  return segment;
}

static TpsSegment *
open_exported (TpsSegmentPool *pool, gint64 n_bytes, const guint8 *handle, GError **error)
{
  if (handle == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                         "the server opened memory of its device but sent no handle for it");
  if (handle == NULL || !check_size (n_bytes, pool->n_opening_bytes, error))
    return NULL;
  return tps_segment_open_exported (pool->device, pool->opening_use, pool->n_opening_bytes, handle,
                                    error);
}

/* If `segment` is NULL, the segment is recorded only to be closed. */
static void
add_segment (TpsSegmentPool *pool, gint64 id, TpsSegment *segment)
{
  TpsPoolSegment *held = g_new0 (TpsPoolSegment, 1);

  held->id = id;
  held->segment = segment;
  held->kind = pool->opening_kind;
  held->use = pool->opening_use;
  held->n_bytes = pool->n_opening_bytes;
  held->phase = segment != NULL ? TPS_POOL_SEGMENT_OPEN : TPS_POOL_SEGMENT_DOOMED;
  g_ptr_array_add (pool->segments, held);
}

/* Adds the opened segment, unless the pool is shut down or already has a segment with this id. Must
 * be called with the lock held. */
static gboolean
add_opened (TpsSegmentPool *pool, gint64 id, TpsSegment *segment, GError **error)
{
  pool->open_out = FALSE;
  if (tps_segment_pool_is_down (pool))
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "the connection has closed");
  else if (tps_segment_pool_find (pool, TPS_SEGMENT_REQUESTS, id) != NULL
           || tps_segment_pool_find (pool, TPS_SEGMENT_ANSWERS, id) != NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "the server opened segment %" G_GINT64_FORMAT " twice", id);
  else
    {
      add_segment (pool, id, segment);
      return TRUE;
    }
  return FALSE;
}

/* Takes ownership of `segment`. NULL = the segment cannot be used, and `error` is already set. */
static gboolean
end_opening (TpsSegmentPool *pool, gint64 id, TpsSegment *segment, GError **error)
{
  TpsPoolKind *kind = &pool->kinds[pool->opening_kind];

  tps_mutex_lock (&pool->lock);
  if (!add_opened (pool, id, segment, segment != NULL ? error : NULL))
    g_clear_pointer (&segment, tps_segment_free);
  if (segment == NULL)
    kind->is_ended = TRUE;
  kind->n_backoff = TPS_POOL_FIRST_BACKOFF;
  tps_segment_pool_wake (pool);
  tps_mutex_unlock (&pool->lock);
  return segment != NULL;
}

/* The pending request is read without the lock, because only its reply changes it. */
gboolean
tps_segment_pool_opened (TpsSegmentPool *pool, gint64 id, gint64 n_bytes, const guint8 *handle,
                         GError **error)
{
  TpsSegment *segment;

  if (pool->opening_kind == TPS_SEGMENT_MEMFD)
    segment = open_sent (pool, n_bytes, error);
  else
    segment = open_exported (pool, n_bytes, handle, error);
  return end_opening (pool, id, segment, error);
}

/* If common segments were refused, demands a segment for ANSWERS instead, and returns TRUE. Older
 * servers do not support common segments. Must be called with the lock held. */
static gboolean
do_without_common (TpsSegmentPool *pool)
{
  if (!is_common (pool, pool->opening_kind, pool->opening_use) || pool->descriptor >= 0)
    return FALSE;
  pool->has_common_answers = FALSE;
  tps_segment_pool_demand (pool, pool->opening_kind, pool->opening_use, pool->n_opening_bytes, 1);
  return TRUE;
}

/* Must be called with the lock held. */
static void
give_up_or_wait (TpsSegmentPool *pool, gboolean later)
{
  TpsPoolKind *kind = &pool->kinds[pool->opening_kind];

  /* If a descriptor came without a segment, later descriptors cannot be assigned to segments. */
  if (!later || pool->descriptor >= 0)
    kind->is_ended = TRUE;
  tps_segment_pool_drop_descriptor (pool);
  back_off (kind);
}

gboolean
tps_segment_pool_open_failed (TpsSegmentPool *pool, gboolean later)
{
  gboolean is_ended;

  tps_mutex_lock (&pool->lock);
  pool->open_out = FALSE;
  if (later || !do_without_common (pool))
    give_up_or_wait (pool, later);
  is_ended = pool->kinds[pool->opening_kind].is_ended;
  tps_segment_pool_wake (pool);
  tps_mutex_unlock (&pool->lock);
  return !is_ended;
}

void
tps_segment_pool_released (TpsSegmentPool *pool)
{
  tps_mutex_lock (&pool->lock);
  pool->release_out = FALSE;
  tps_segment_pool_wake (pool);
  tps_mutex_unlock (&pool->lock);
}

void
tps_segment_pool_closed (TpsSegmentPool *pool)
{
  tps_mutex_lock (&pool->lock);
  pool->close_out = FALSE;
  for (guint i = pool->segments->len; i > 0; i--)
    {
      TpsPoolSegment *held = pool->segments->pdata[i - 1];

      if (held->phase != TPS_POOL_SEGMENT_CLOSING)
        continue;
      held->phase = TPS_POOL_SEGMENT_DRAINING;
      held->last_lease = held->use == TPS_SEGMENT_ANSWERS ? pool->n_leases_made : 0;
    }
  tps_segment_pool_reap (pool);
  tps_segment_pool_wake (pool);
  tps_mutex_unlock (&pool->lock);
}

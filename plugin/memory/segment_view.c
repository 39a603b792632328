/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The memory of a received reply. The server puts all tensors of one reply into one segment, so the
 * first slice of the message identifies the segment. The search precedes any decoding. The segment
 * is therefore returned even if the reply came too late or is never read. */

#include "plugin/memory/segment_pool_private.h"
#include "plugin/memory/slice_search.h"
#include "runtime/base/error.h"

typedef struct
{
  TpsSharing base;
  TpsRefcount refcount; /* held by the message and by each buffer */
  TpsSegmentPool *pool;
  TpsPoolSegment *held; /* LENT to this reply; NULL = the reply names no valid segment */
} View;

/* ---- end of a view -------------------------------------------------------------------------- */

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

/* ---- slices --------------------------------------------------------------------------------- */

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

/* ---- receiving ------------------------------------------------------------------------------ */

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

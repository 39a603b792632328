/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A claim is a segment for REQUESTS that its owner fills before a call is made. A call sends slices
 * of the claim and copies nothing. Several calls may use one claim at the same time. */

#include "plugin/memory/segment_pool_private.h"

typedef struct
{
  TpsSegmentPool *pool;
  TpsPoolSegment *held;
} Claim;

/* ---- end of a claim ------------------------------------------------------------------------- */

/* Ends the claim if neither its buffer nor a call uses it any more. Must be called with the lock
 * held. */
static void
settle (TpsSegmentPool *pool, TpsPoolSegment *held)
{
  if (held->has_owner || held->n_calls > 0)
    return;
  held->state = TPS_POOL_SEGMENT_FREE;
  if (tps_segment_pool_is_down (pool))
    tps_segment_pool_drop (pool, held);
  else
    tps_segment_pool_reap (pool);
}

void
tps_segment_claim_end_call (TpsSegmentPool *pool, TpsPoolSegment *held, gboolean given_back)
{
  held->n_calls--;
  if (!given_back && held->phase == TPS_POOL_SEGMENT_OPEN)
    held->phase = TPS_POOL_SEGMENT_DOOMED;
  settle (pool, held);
}

static void
free_claim (gpointer user_data)
{
  Claim *claim = user_data;

  tps_mutex_lock (&claim->pool->lock);
  claim->held->has_owner = FALSE;
  settle (claim->pool, claim->held);
  tps_mutex_unlock (&claim->pool->lock);
  tps_segment_pool_unref (claim->pool);
  g_free (claim);
}

/* ---- claiming ------------------------------------------------------------------------------- */

TpsPoolSegment *
tps_segment_pool_find_free (const TpsSegmentPool *pool, TpsSegmentKind kind, gsize n_bytes)
{
  TpsPoolSegment *best = NULL;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->kind == kind && held->use == TPS_SEGMENT_REQUESTS
          && held->state == TPS_POOL_SEGMENT_FREE && held->phase == TPS_POOL_SEGMENT_OPEN
          && held->n_bytes >= n_bytes && (best == NULL || held->n_bytes < best->n_bytes))
        best = held;
    }
  return best;
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

/* Demands one more segment than are open, because a free segment that is too large for the claim
 * does not meet the demand. */
static void
demand (TpsSegmentPool *pool, gsize n_bytes)
{
  tps_segment_pool_demand (pool, TPS_SEGMENT_MEMFD, TPS_SEGMENT_REQUESTS, n_bytes,
                           pool->segments->len + 1);
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
    demand (pool, n_bytes);
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

/* ---- use ------------------------------------------------------------------------------------ */

TpsPoolSegment *
tps_segment_pool_find_claim (const TpsSegmentPool *pool, gconstpointer data, gsize n_bytes)
{
  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];
      gsize offset;

      if (held->state != TPS_POOL_SEGMENT_CLAIMED || held->phase != TPS_POOL_SEGMENT_OPEN)
        continue;
      /* If `data` lies before the segment, the unsigned difference is larger than any segment. */
      offset = GPOINTER_TO_SIZE (data) - GPOINTER_TO_SIZE (tps_segment_get_data (held->segment));
      if (offset <= held->n_bytes && n_bytes <= held->n_bytes - offset)
        return offset % TPS_SHARING_ALIGNMENT == 0 ? held : NULL;
    }
  return NULL;
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

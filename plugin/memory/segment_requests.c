/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Requests to the server and their results. No request is made before a large tensor has found no
 * shared memory; the offer is then requested once. Only one segment is opened at a time, so that a
 * received descriptor belongs to this segment. */

#include <string.h>
#include <unistd.h>

#include "plugin/memory/segment_pool_private.h"
#include "runtime/base/error.h"

#define MAX_BACKOFF (1u << 20)

/* ---- requests ------------------------------------------------------------------------------- */

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
next_open (TpsSegmentPool *pool, TpsSegmentRequest *request)
{
  return pool->offer == TPS_OFFER_MADE && !pool->open_out
         && (next_open_of (pool, TPS_SEGMENT_CUDA_IPC, request)
             || next_open_of (pool, TPS_SEGMENT_MEMFD, request));
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
        && (next_release (pool, request) || next_offer (pool, request) || next_open (pool, request)
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
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "the server opened a segment of %" G_GINT64_FORMAT " bytes where %" G_GSIZE_FORMAT
               " were requested",
               n_bytes, n_asked);
  return FALSE;
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
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                           "the server opened a segment but sent no file descriptor for it");
      return NULL;
    }
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

static gboolean
has_id (const TpsSegmentPool *pool, gint64 id)
{
  return tps_segment_pool_find (pool, TPS_SEGMENT_REQUESTS, id) != NULL
         || tps_segment_pool_find (pool, TPS_SEGMENT_ANSWERS, id) != NULL;
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
  else if (has_id (pool, id))
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

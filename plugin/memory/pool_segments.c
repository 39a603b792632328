/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/pool_segments.h"

#include <unistd.h>

#define MAX_SEGMENTS 64 /* of one kind and use */

gboolean
tps_segment_pool_is_down (const TpsSegmentPool *pool)
{
  return pool->wake == NULL;
}

void
tps_segment_pool_wake (TpsSegmentPool *pool)
{
  if (pool->wake == NULL || pool->woken)
    return;
  pool->woken = TRUE;
  pool->wake (pool->user_data);
}

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

/* Returns the bytes of the segments that count against the limit of the kind. A segment that is
 * being opened does not count. */
static gsize
count_bytes (const TpsSegmentPool *pool, TpsSegmentKind kind)
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

void
tps_segment_pool_drop_descriptor (TpsSegmentPool *pool)
{
  if (pool->descriptor >= 0)
    close (pool->descriptor);
  pool->descriptor = -1;
}

/* ---- the next segment ----------------------------------------------------------------------- */

/* The choice of the next segment. A message that finds no room leaves a demand. The demand consists
 * of the size of a sufficient segment, and of the useful number of such segments at that time. The
 * next segment serves the largest demand of its use, which is then dropped. A demand for segments
 * of a device stays until its number of segments is open. At the limit, idle segments are closed
 * first: smaller segments of the same use, and segments of the other use beyond its half.
 *
 * Sizes are powers of two. A few sizes then serve all tensors, and a growing tensor does not need a
 * new segment for each step. */

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

/* ---- sizes and counts ----------------------------------------------------------------------- */

typedef struct
{
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gsize size;
} Wanted;

/* Returns the size of a segment for `n_bytes`: the next power of two within the limit. */
static gsize
size_for (const TpsSegmentPool *pool, TpsSegmentKind kind, gsize n_bytes)
{
  gsize size = tps_segment_round_size (kind, TPS_POOL_SEGMENT_MIN_BYTES);

  while (size < n_bytes && size <= pool->kinds[kind].max_bytes / 2)
    size *= 2;
  return size;
}

static guint
count_suitable (const TpsSegmentPool *pool, const Wanted *wanted)
{
  guint n_suitable = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      n_suitable += held->kind == wanted->kind && held->use == wanted->use
                    && held->phase == TPS_POOL_SEGMENT_OPEN && held->n_bytes >= wanted->size;
    }
  return n_suitable;
}

typedef struct
{
  guint n_segments;
  gsize n_bytes;
} Total;

/* Returns the total of the segments that are open and will stay open. */
static Total
count_open (const TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use)
{
  Total total = { 0 };

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->kind != kind || held->use != use || held->phase != TPS_POOL_SEGMENT_OPEN)
        continue;
      total.n_segments++;
      total.n_bytes += held->n_bytes;
    }
  return total;
}

/* ---- room ----------------------------------------------------------------------------------- */

static TpsSegmentUse
other_use (TpsSegmentUse use)
{
  return use == TPS_SEGMENT_REQUESTS ? TPS_SEGMENT_ANSWERS : TPS_SEGMENT_REQUESTS;
}

/* Returns the size of the largest segment of the other use that may be closed. Each use is entitled
 * to half of the limit, so the other use loses only segments beyond its own half. If the wanted
 * segment is larger than half of the limit, only smaller segments are closed for it. There is room
 * for one such segment, and no use is entitled to it. Without this rule, the two uses could close
 * the segments of each other forever. */
static gsize
max_victim_of_other (const TpsSegmentPool *pool, const Wanted *wanted)
{
  gsize half = pool->kinds[wanted->kind].max_bytes / 2;
  gsize n_own = count_open (pool, wanted->kind, wanted->use).n_bytes;
  gsize n_other = count_open (pool, wanted->kind, other_use (wanted->use)).n_bytes;

  if (wanted->size > half)
    return wanted->size - 1;
  return n_own <= half - wanted->size && n_other > half ? n_other - half : 0;
}

/* Returns the smallest idle segment that may be closed; NULL = none. If `of_use` is TRUE, the
 * segment must have the wanted use. Segments of a device for ANSWERS are closed only with the
 * connection. */
static TpsPoolSegment *
find_victim (const TpsSegmentPool *pool, const Wanted *wanted, gboolean of_use)
{
  gsize max_of_other = of_use ? 0 : max_victim_of_other (pool, wanted);
  TpsPoolSegment *victim = NULL;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];
      gsize max_bytes = held->use == wanted->use ? wanted->size - 1 : max_of_other;

      if (held->kind == wanted->kind && held->phase == TPS_POOL_SEGMENT_OPEN
          && held->state == TPS_POOL_SEGMENT_FREE && held->n_bytes <= max_bytes
          && (held->kind == TPS_SEGMENT_MEMFD || held->use == TPS_SEGMENT_REQUESTS)
          && (victim == NULL || held->n_bytes < victim->n_bytes))
        victim = held;
    }
  return victim;
}

/* Returns TRUE if the wanted segment can be opened as soon as all segments that are being closed
 * are gone. Sets `too_many` if the use has the maximum number of segments. */
static gboolean
will_fit (const TpsSegmentPool *pool, const Wanted *wanted, gboolean *too_many)
{
  Total own = count_open (pool, wanted->kind, wanted->use);
  Total other = count_open (pool, wanted->kind, other_use (wanted->use));

  *too_many = own.n_segments >= MAX_SEGMENTS;
  return !*too_many
         && own.n_bytes + other.n_bytes <= pool->kinds[wanted->kind].max_bytes - wanted->size;
}

/* Marks idle segments for closing until the wanted segment would fit. FALSE: it cannot fit, and no
 * segment is marked. */
static gboolean
evict (TpsSegmentPool *pool, const Wanted *wanted)
{
  g_autoptr (GPtrArray) victims = g_ptr_array_new ();
  gboolean too_many;

  while (!will_fit (pool, wanted, &too_many))
    {
      TpsPoolSegment *victim = find_victim (pool, wanted, too_many);

      if (victim == NULL)
        {
          for (guint i = 0; i < victims->len; i++)
            ((TpsPoolSegment *) victims->pdata[i])->phase = TPS_POOL_SEGMENT_OPEN;
          return FALSE;
        }
      victim->phase = TPS_POOL_SEGMENT_DOOMED;
      g_ptr_array_add (victims, victim);
    }
  return TRUE;
}

/* Returns the number of segments of the use, including segments that are being closed or that the
 * server has already closed. */
static guint
count_mapped (const TpsSegmentPool *pool, const Wanted *wanted)
{
  guint n_segments = 0;

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      n_segments += held->kind == wanted->kind && held->use == wanted->use;
    }
  return n_segments;
}

/* Returns TRUE if the wanted segment may be opened now. If it may be opened later, sets `wait` and
 * marks idle segments for closing. */
static gboolean
make_room (TpsSegmentPool *pool, const Wanted *wanted, gboolean *wait)
{
  gsize max_bytes = pool->kinds[wanted->kind].max_bytes;

  *wait = FALSE;
  if (wanted->size > max_bytes)
    return FALSE;
  if (count_mapped (pool, wanted) < MAX_SEGMENTS
      && count_bytes (pool, wanted->kind) <= max_bytes - wanted->size)
    return TRUE;
  *wait = evict (pool, wanted);
  return FALSE;
}

/* Returns TRUE if a demand must stay until all of its segments are open. A caller that finds no
 * room in host memory repeats the demand with its next message. Tensors that find no room on a
 * device are copied to the host, so no later message repeats their demand. */
static gboolean
wants_all (TpsSegmentKind kind)
{
  return kind == TPS_SEGMENT_CUDA_IPC;
}

static gsize
plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use)
{
  TpsSegmentDemand *demand = &pool->kinds[kind].demands[use];
  Wanted wanted = { kind, use, size_for (pool, kind, demand->n_bytes) };
  gboolean wait = FALSE;
  gboolean now;

  if (demand->n_bytes == 0)
    return 0;
  now = count_suitable (pool, &wanted) < demand->n_parallel && make_room (pool, &wanted, &wait);
  if (!wait && !(now && wants_all (kind)))
    *demand = (TpsSegmentDemand) { 0 };
  return now ? wanted.size : 0;
}

gsize
tps_segment_pool_plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse *use)
{
  gsize size;

  /* The use with fewer bytes comes first, because the other use has made room for it. */
  *use = count_open (pool, kind, TPS_SEGMENT_ANSWERS).n_bytes
                 < count_open (pool, kind, TPS_SEGMENT_REQUESTS).n_bytes
             ? TPS_SEGMENT_ANSWERS
             : TPS_SEGMENT_REQUESTS;
  size = plan (pool, kind, *use);
  if (size > 0)
    return size;
  *use = other_use (*use);
  return plan (pool, kind, *use);
}

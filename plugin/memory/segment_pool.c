/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/memory/segment_pool.h"

#include <string.h>
#include <unistd.h>

#include "plugin/frame/message.h"
#include "runtime/base/error.h"
#include "runtime/base/magazine.h"
#include "runtime/base/stream_copy.h"
#include "runtime/base/sync.h"
#include "runtime/device/device_memory.h"

/* ---- segments, and the choice of the next one ------------------------------------------------ */

/* The state of a pool with its segments, and the choice of the next segment. Private to the pool:
 * segment_pool.c has the requests to the server, the memory of calls and of replies. */

#define TPS_POOL_SEGMENT_MIN_BYTES ((gsize) 1 << 20)
#define TPS_POOL_FIRST_BACKOFF 16 /* demands to ignore after a refusal; doubles each time */

/* The state of a segment is
 *   FREE      REQUESTS: unused. ANSWERS: owned by the server, which may place a reply there
 *   LEASED    REQUESTS: used by one call, until it is answered
 *   CLAIMED   REQUESTS: owned by the user of a buffer, until that is released, and used by calls
 *             that use its slices, until they are answered
 *   LENT      ANSWERS: used by one received reply, until that is released
 *   RETURNED  ANSWERS: unused; the server must be told
 *
 * and the phase of its life is
 *   OPEN      it may be used
 *   DOOMED    it must be closed
 *   CLOSING   the request to close it is pending
 *   DRAINING  (ANSWERS) the server has closed it, but replies to earlier calls may lie there: it is
 *             dropped when the last of these calls has ended. It does not count any more
 *
 * A call that was not answered leaves its segments DOOMED, because the server may read them until
 * they are closed. All other segments are FREE when they become DOOMED. A CLAIMED segment stays
 * mapped here until its buffer is released, even after it has been closed.
 *
 * A client must unmap the memory of a device before the server frees it. The pool therefore unmaps
 * such a segment before it sends the request to close it. Replies that are on their way could still
 * refer to an unmapped segment, so segments of a device for ANSWERS are closed only when the
 * connection closes. */
typedef enum
{
  TPS_POOL_SEGMENT_FREE,
  TPS_POOL_SEGMENT_LEASED,
  TPS_POOL_SEGMENT_CLAIMED,
  TPS_POOL_SEGMENT_LENT,
  TPS_POOL_SEGMENT_RETURNED,
} TpsPoolSegmentState;

typedef enum
{
  TPS_POOL_SEGMENT_OPEN,
  TPS_POOL_SEGMENT_DOOMED,
  TPS_POOL_SEGMENT_CLOSING,
  TPS_POOL_SEGMENT_DRAINING,
} TpsPoolSegmentPhase;

typedef struct
{
  gint64 id;
  TpsSegment *segment; /* NULL: not mapped, recorded only to be closed */
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gsize n_bytes;
  TpsPoolSegmentState state;
  TpsPoolSegmentPhase phase;
  gsize n_used;       /* LEASED: bytes in use, from the beginning */
  guint64 last_lease; /* DRAINING: the last call whose reply may lie there */
  gboolean has_owner; /* CLAIMED: the buffer has not been released */
  guint n_calls;      /* CLAIMED: slices in calls that have not ended */
} TpsPoolSegment;

/* A call that has not ended. */
typedef struct
{
  GList node;     /* in pool->leases */
  guint64 number; /* its position among all calls */
} TpsPoolLease;

typedef enum
{
  TPS_OFFER_UNKNOWN, /* no tensor has missed shared memory yet */
  TPS_OFFER_WANTED,
  TPS_OFFER_ASKED,
  TPS_OFFER_MADE,
  TPS_OFFER_ENDED, /* no further segments are opened */
} TpsOfferState;

/* The largest demand for segments of one use since the last request for such a segment. */
typedef struct
{
  gsize n_bytes;    /* of the largest message; 0 = no demand */
  guint n_parallel; /* useful number of such segments at one time */
} TpsSegmentDemand;

typedef struct
{
  gsize max_bytes;
  gboolean is_ended;                                 /* no further segments are opened */
  TpsSegmentDemand demands[TPS_SEGMENT_ANSWERS + 1]; /* by use */
  guint n_backoff;                                   /* demands to ignore after the next refusal */
  guint n_overlooked; /* demands still to ignore after the last refusal */
} TpsPoolKind;

struct TpsSegmentPool
{
  TpsRefcount refcount;

  /* Guards all fields below. While it is held, no other lock is taken, except the loop's lock by
   * `wake`. */
  TpsMutex lock;
  GDestroyNotify wake; /* NULL: the pool is shut down */
  gpointer user_data;
  gboolean woken; /* `wake` was called since tps_segment_pool_next () last returned FALSE */
  TpsPoolKind kinds[TPS_SEGMENT_N_KINDS]; /* by kind */
  /* The device of segments of kind CUDA_IPC; NULL = no tensor has needed such a segment yet. */
  TpsDevice *device;
  gboolean takes_lookups;      /* its segments are for results of lookups only; does not change */
  gboolean has_common_answers; /* FALSE after the server has refused them */
  TpsOfferState offer;
  GPtrArray *segments; /* of TpsPoolSegment */
  GQueue leases;       /* of TpsPoolLease, by age */
  guint n_large;       /* leases with a tensor for shared memory */
  guint64 n_leases_made;
  gboolean open_out;
  TpsSegmentKind opening_kind;
  TpsSegmentUse opening_use;
  gsize n_opening_bytes;
  gboolean release_out;
  gboolean close_out;
  gint descriptor; /* of the segment that is being opened; -1 = not received */
  TpsSharingStats stats;
};

/* The lock must be held during all functions below. */

static inline void
sharing_count_add (TpsSharingCount *count, guint64 n_bytes)
{
  count->n_tensors++;
  count->n_bytes += n_bytes;
}

#define MAX_SEGMENTS 64 /* of one kind and use */

static gboolean
pool_is_down (const TpsSegmentPool *pool)
{
  return pool->wake == NULL;
}

/* Calls `wake`, so that the owner of the pool calls tps_segment_pool_next (). Has no effect if
 * `wake` has already been called and the owner has not reacted yet, or after the shutdown. */
static void
pool_wake (TpsSegmentPool *pool)
{
  if (pool->wake == NULL || pool->woken)
    return;
  pool->woken = TRUE;
  pool->wake (pool->user_data);
}

/* Returns the mapped segment with this use and id, in any phase, borrowed; NULL = there is none. */
static TpsPoolSegment *
pool_find (const TpsSegmentPool *pool, TpsSegmentUse use, gint64 id)
{
  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->id == id && held->use == use && held->segment != NULL)
        return held;
    }
  return NULL;
}

/* Returns the smallest OPEN and FREE segment for REQUESTS of at least `n_bytes`, borrowed; NULL =
 * there is none. */
static TpsPoolSegment *
pool_find_free (const TpsSegmentPool *pool, TpsSegmentKind kind, gsize n_bytes)
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

/* Returns the OPEN CLAIMED segment that contains the bytes at an aligned offset, borrowed; NULL =
 * there is none. */
static TpsPoolSegment *
pool_find_claim (const TpsSegmentPool *pool, gconstpointer data, gsize n_bytes)
{
  for (guint i = 0; i < pool->segments->len; i++)
    {
      TpsPoolSegment *held = pool->segments->pdata[i];
      gsize offset;

      if (held->state != TPS_POOL_SEGMENT_CLAIMED || held->phase != TPS_POOL_SEGMENT_OPEN)
        continue;
      /* If `data` lies before the segment, the unsigned difference is larger than any segment. */
      offset = GPOINTER_TO_SIZE (data) - GPOINTER_TO_SIZE (held->segment->data);
      if (offset <= held->n_bytes && n_bytes <= held->n_bytes - offset)
        return offset % TPS_SHARING_ALIGNMENT == 0 ? held : NULL;
    }
  return NULL;
}

static guint
pool_count (const TpsSegmentPool *pool, TpsSegmentKind kind, TpsPoolSegmentState state)
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

/* Unmaps and frees the segment. Must not be called before the server has closed the segment or the
 * connection has closed. */
static void
pool_drop (TpsSegmentPool *pool, TpsPoolSegment *held)
{
  g_ptr_array_remove_fast (pool->segments, held);
  g_clear_pointer (&held->segment, tps_segment_free);
  g_free (held);
}

static void
pool_reap (TpsSegmentPool *pool)
{
  const TpsPoolLease *oldest = pool->leases.head != NULL ? pool->leases.head->data : NULL;

  for (guint i = pool->segments->len; i > 0; i--)
    {
      TpsPoolSegment *held = pool->segments->pdata[i - 1];

      if (held->phase == TPS_POOL_SEGMENT_DRAINING && held->state == TPS_POOL_SEGMENT_FREE
          && (oldest == NULL || held->last_lease < oldest->number))
        pool_drop (pool, held);
    }
}

static void
pool_drop_descriptor (TpsSegmentPool *pool)
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

/* Records that a message of `n_bytes` found no room, and that `n_parallel` segments of that size
 * would have been useful at that time. */
static void
pool_demand (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use, gsize n_bytes,
             guint n_parallel)
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
  pool_wake (pool);
}

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

typedef struct
{
  guint n_segments;
  gsize n_bytes;
} Total;

/* Returns the total of the segments of a use with at least `min_bytes`: if `only_open`, of those
 * that are open and will stay open; otherwise also of those that are being closed or that the
 * server has already closed. */
static Total
count_of_use (const TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use,
              gboolean only_open, gsize min_bytes)
{
  Total total = { 0 };

  for (guint i = 0; i < pool->segments->len; i++)
    {
      const TpsPoolSegment *held = pool->segments->pdata[i];

      if (held->kind != kind || held->use != use || held->n_bytes < min_bytes
          || (only_open && held->phase != TPS_POOL_SEGMENT_OPEN))
        continue;
      total.n_segments++;
      total.n_bytes += held->n_bytes;
    }
  return total;
}

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
  gsize n_own = count_of_use (pool, wanted->kind, wanted->use, TRUE, 0).n_bytes;
  gsize n_other = count_of_use (pool, wanted->kind, other_use (wanted->use), TRUE, 0).n_bytes;

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
  Total own = count_of_use (pool, wanted->kind, wanted->use, TRUE, 0);
  Total other = count_of_use (pool, wanted->kind, other_use (wanted->use), TRUE, 0);

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

/* Returns TRUE if the wanted segment may be opened now. If it may be opened later, sets `wait` and
 * marks idle segments for closing. */
static gboolean
make_room (TpsSegmentPool *pool, const Wanted *wanted, gboolean *wait)
{
  gsize max_bytes = pool->kinds[wanted->kind].max_bytes;

  *wait = FALSE;
  if (wanted->size > max_bytes)
    return FALSE;
  if (count_of_use (pool, wanted->kind, wanted->use, FALSE, 0).n_segments < MAX_SEGMENTS
      && count_bytes (pool, wanted->kind) <= max_bytes - wanted->size)
    return TRUE;
  *wait = evict (pool, wanted);
  return FALSE;
}

/* A caller that finds no room in host memory repeats the demand with its next message. Tensors that
 * find no room on a device are copied to the host, so no later message repeats their demand: it
 * stays until all of its segments are open. */
static gsize
plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use)
{
  TpsSegmentDemand *demand = &pool->kinds[kind].demands[use];
  Wanted wanted = { kind, use, size_for (pool, kind, demand->n_bytes) };
  gboolean wait = FALSE;
  gboolean now;

  if (demand->n_bytes == 0)
    return 0;
  now = count_of_use (pool, kind, use, TRUE, wanted.size).n_segments < demand->n_parallel
        && make_room (pool, &wanted, &wait);
  if (!wait && !(now && kind == TPS_SEGMENT_CUDA_IPC))
    *demand = (TpsSegmentDemand) { 0 };
  return now ? wanted.size : 0;
}

/* Returns the size of the segment to open now, and sets `use`; 0 = no segment. Drops a demand that
 * is met or cannot be met, and may mark idle segments for closing. */
static gsize
pool_plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse *use)
{
  gsize size;

  /* The use with fewer bytes comes first, because the other use has made room for it. */
  *use = count_of_use (pool, kind, TPS_SEGMENT_ANSWERS, TRUE, 0).n_bytes
                 < count_of_use (pool, kind, TPS_SEGMENT_REQUESTS, TRUE, 0).n_bytes
             ? TPS_SEGMENT_ANSWERS
             : TPS_SEGMENT_REQUESTS;
  size = plan (pool, kind, *use);
  if (size > 0)
    return size;
  *use = other_use (*use);
  return plan (pool, kind, *use);
}

/* ---- search for slices in a reply ------------------------------------------------------------ */

typedef struct
{
  gboolean has_slice;
  TpsSharedSlice slice; /* the first one */
  gsize n_shared_room;  /* bytes that the slices occupy in a segment, each rounded up */
  /* Inline tensors that are large enough for shared memory. */
  guint n_inline;
  gsize n_inline_bytes;
  gsize n_inline_room; /* their bytes in a segment */
  gboolean wants_all;  /* else the search ends with the first slice */
} Search;

/* The limit of the sum of slice lengths, because the lengths are unchecked. */
#define MAX_ROOM (G_MAXINT64 / 2)

/* Bits for the fields of a struct. */
enum
{
  HAS_SLICE_FIELDS = 7, /* one bit for each of the i64 fields 1, 2 and 3 */
  HAS_OTHERS = 1 << 3,
  HAS_NUMBER_1 = 1 << 4,
  HAS_LIST_2 = 1 << 5,
};

static void search_struct (TpsReader *in, Search *search);

static gboolean
is_done (const TpsReader *in, const Search *search)
{
  return in->bad || (search->has_slice && !search->wants_all);
}

/* Searches the elements of a list of structs. All other lists are skipped, because they contain no
 * tensors. */
static void
search_list (TpsReader *in, TpsWireType list_type, Search *search)
{
  TpsReader ahead = *in;
  TpsWireType type;
  guint32 n_elems;

  tps_reader_list_begin (&ahead, &type, &n_elems);
  if (type != TPS_WIRE_STRUCT)
    {
      tps_reader_skip (in, list_type);
      return;
    }
  *in = ahead;
  for (guint32 i = 0; i < n_elems && !is_done (in, search); i++)
    search_struct (in, search);
}

static void
count_inline (Search *found, guint has, gsize n_bytes)
{
  if ((has & (HAS_NUMBER_1 | HAS_LIST_2)) != (HAS_NUMBER_1 | HAS_LIST_2)
      || n_bytes < TPS_SHARING_MIN_BYTES)
    return;
  found->n_inline++;
  found->n_inline_bytes += n_bytes;
  found->n_inline_room += tps_sharing_round (n_bytes);
}

static void
count_slice (Search *found, const gint64 *values)
{
  gsize n_bytes = (gsize) CLAMP (values[2], 0, MAX_ROOM - (gint64) found->n_shared_room);

  found->n_shared_room = MIN (found->n_shared_room + tps_sharing_round (n_bytes), MAX_ROOM);
  if (found->has_slice)
    return;
  found->has_slice = TRUE;
  found->slice = (TpsSharedSlice) { .segment = values[0],
                                    .offset = values[1],
                                    .length = values[2] };
}

/* The recursion is limited, because the scanner accepts at most TPS_MESSAGE_MAX_DEPTH levels. */
static void
search_struct (TpsReader *in, Search *search)
{
  gint64 values[3] = { 0 };
  gsize n_binary = 0;
  guint has = 0;
  TpsWireType type;
  gint16 id;

  tps_reader_struct_begin (in);
  while (!is_done (in, search) && tps_reader_field (in, &id, &type))
    if (type == TPS_WIRE_I64 && id >= 1 && id <= 3)
      {
        values[id - 1] = tps_reader_i64 (in);
        has |= 1u << (id - 1);
      }
    else
      {
        has |= HAS_OTHERS;
        has |= type == TPS_WIRE_I32 && id == 1 ? HAS_NUMBER_1 : 0;
        has |= type == TPS_WIRE_LIST && id == 2 ? HAS_LIST_2 : 0;
        if (type == TPS_WIRE_BINARY && id == 3)
          n_binary = tps_reader_binary (in).n_bytes;
        else if (type == TPS_WIRE_STRUCT)
          search_struct (in, search);
        else if (type == TPS_WIRE_LIST || type == TPS_WIRE_SET)
          search_list (in, type, search);
        else
          tps_reader_skip (in, type);
      }
  tps_reader_struct_end (in);
  if (is_done (in, search))
    return;
  count_inline (search, has, n_binary);
  if (has == HAS_SLICE_FIELDS)
    count_slice (search, values);
}

static gboolean
has_large_body (const TpsMessage *message)
{
  for (guint i = 0; i < message->n_bodies; i++)
    if (message->bodies[i].n_bytes >= TPS_SHARING_MIN_BYTES)
      return TRUE;
  return FALSE;
}

/* Returns the slices of the message. A SharedSlice has exactly the i64 fields 1, 2 and 3; an inline
 * Tensor an i32 as field 1, a list as 2 and a binary as 3; no other structs of the contract have
 * these fields. Unless `wants_all`, the search may end at the first slice. Thread: any. */
static Search
slice_search (const TpsMessage *message, gboolean wants_all)
{
  Search search = { .wants_all = wants_all || has_large_body (message) };
  TpsReader in;

  tps_reader_init (&in, message);
  search_struct (&in, &search);
  return search;
}

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

TPS_DEFINE_REF (TpsSegmentPool, tps_segment_pool)

void
tps_segment_pool_unref (TpsSegmentPool *pool)
{
  if (!tps_refcount_dec (&pool->refcount))
    return;
  while (pool->segments->len > 0)
    pool_drop (pool, pool->segments->pdata[pool->segments->len - 1]);
  pool_drop_descriptor (pool);
  g_ptr_array_unref (pool->segments);
  tps_mutex_clear (&pool->lock);
  g_free (pool);
}

void
tps_segment_pool_shut_down (TpsSegmentPool *pool)
{
  TPS_LOCK_SCOPE (&pool->lock);
  pool->wake = NULL;
  pool->offer = TPS_OFFER_ENDED;
  pool_drop_descriptor (pool);
  /* The loop runs backwards, because a drop moves the last segment to the free position. */
  for (guint i = pool->segments->len; i > 0; i--)
    {
      TpsPoolSegment *held = pool->segments->pdata[i - 1];

      /* A segment that a call, a claim or a reply still uses is dropped at the end of this use. */
      if (held->state != TPS_POOL_SEGMENT_LEASED && held->state != TPS_POOL_SEGMENT_CLAIMED
          && held->state != TPS_POOL_SEGMENT_LENT)
        pool_drop (pool, held);
    }
}

void
tps_segment_pool_add_stats (TpsSegmentPool *pool, TpsSharingStats *stats)
{
  const TpsSharingCount *from = (const TpsSharingCount *) &pool->stats;
  TpsSharingCount *to = (TpsSharingCount *) stats;

  TPS_LOCK_SCOPE (&pool->lock);
  for (guint i = 0; i < sizeof *stats / sizeof *to; i++)
    {
      to[i].n_tensors += from[i].n_tensors;
      to[i].n_bytes += from[i].n_bytes;
    }
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
  if (pool_is_down (pool))
    pool_drop (pool, held);
  else
    pool_reap (pool);
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

TpsBuffer *
tps_segment_pool_claim (TpsSegmentPool *pool, gsize n_bytes)
{
  TpsPoolSegment *held = NULL;
  Claim *claim;

  if (n_bytes < TPS_SHARING_MIN_BYTES)
    return NULL;
  tps_mutex_lock (&pool->lock);
  if (!pool_is_down (pool))
    held = pool_find_free (pool, TPS_SEGMENT_MEMFD, n_bytes);
  /* A segment that is much larger than the claim is left to other uses. */
  if (held != NULL && held->n_bytes / 2 >= MAX (n_bytes, TPS_POOL_SEGMENT_MIN_BYTES))
    held = NULL;
  if (held == NULL)
    /* One more segment than are open, because a free one that is too large does not suffice. */
    pool_demand (pool, TPS_SEGMENT_MEMFD, TPS_SEGMENT_REQUESTS, n_bytes, pool->segments->len + 1);
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
  return tps_buffer_new_foreign (held->segment->data, n_bytes, NULL, free_claim, claim);
}

gboolean
tps_segment_pool_has_claim (TpsSegmentPool *pool, const TpsBuffer *buffer)
{
  TPS_LOCK_SCOPE (&pool->lock);
  return !pool_is_down (pool)
         && pool_find_claim (pool, tps_buffer_get_data (buffer), tps_buffer_get_size (buffer))
                != NULL;
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

static TpsPoolSegment *
take_free (Lease *lease, TpsSegmentKind kind, gsize n_bytes)
{
  TpsPoolSegment *held = pool_find_free (lease->pool, kind, n_bytes);

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
  if (!pool_is_down (lease->pool))
    held = find_room (lease, kind, n_aligned);
  if (held == NULL && !pool_is_down (lease->pool))
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
  return held->segment->data + slice->offset;
}

/* Sets `slice` if the bytes lie in a claimed segment; FALSE: they do not. Must be called with the
 * lock held. */
static gboolean
name_claimed (Lease *lease, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice)
{
  TpsPoolSegment *held = NULL;

  if (!pool_is_down (lease->pool))
    held = pool_find_claim (lease->pool, data, n_bytes);
  if (held == NULL)
    return FALSE;
  *slice = (TpsSharedSlice) {
    .segment = held->id,
    .offset = (const guint8 *) data - held->segment->data,
    .length = (gint64) n_bytes,
  };
  held->n_calls++;
  add_to_lease (lease, held);
  sharing_count_add (&lease->pool->stats.sent_claimed, n_bytes);
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
  sharing_count_add (is_claimed || to != NULL ? &pool->stats.sent_shared : &pool->stats.sent_inline,
                     n_bytes);
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
  sharing_count_add (&pool->stats.sent_shared, n_bytes);
  tps_mutex_unlock (&pool->lock);
  return TRUE;
}

void
tps_segment_lease_written (TpsSharing *sharing)
{
  Lease *lease = (Lease *) sharing;
  TpsSegmentPool *pool = lease->pool;

  TPS_LOCK_SCOPE (&pool->lock);
  if (lease->n_missed[TPS_SEGMENT_CUDA_IPC] > 0 && !pool->kinds[TPS_SEGMENT_CUDA_IPC].is_ended)
    {
      /* With these segments, the tensors need no host memory. An average has the same size as its
       * gradient. Replies need one more, because a returned segment is on its way back for some
       * time. */
      gsize n_wanted = lease->n_wanted[TPS_SEGMENT_CUDA_IPC];

      pool_demand (pool, TPS_SEGMENT_CUDA_IPC, TPS_SEGMENT_REQUESTS, n_wanted, pool->n_large);
      pool_demand (pool, TPS_SEGMENT_CUDA_IPC, TPS_SEGMENT_ANSWERS, n_wanted, pool->n_large + 1);
    }
  else if (lease->n_missed[TPS_SEGMENT_MEMFD] > 0)
    pool_demand (pool, TPS_SEGMENT_MEMFD, TPS_SEGMENT_REQUESTS, lease->n_wanted[TPS_SEGMENT_MEMFD],
                 pool->n_large + pool_count (pool, TPS_SEGMENT_MEMFD, TPS_POOL_SEGMENT_CLAIMED));
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
          held->n_calls--;
          if (!given_back && held->phase == TPS_POOL_SEGMENT_OPEN)
            held->phase = TPS_POOL_SEGMENT_DOOMED;
          settle_claim (pool, held);
          continue;
        }
      held->state = TPS_POOL_SEGMENT_FREE;
      if (pool_is_down (pool))
        pool_drop (pool, held);
      else if (!given_back)
        held->phase = TPS_POOL_SEGMENT_DOOMED;
    }
  if (!given_back)
    pool_wake (pool);
  g_clear_pointer (&lease->segments, g_ptr_array_unref);
}

void
tps_segment_lease_end (TpsSharing *sharing, gboolean given_back)
{
  Lease *lease = (Lease *) sharing;
  TpsSegmentPool *pool = lease->pool;

  TPS_LOCK_SCOPE (&pool->lock);
  if (!lease->ended)
    {
      lease->ended = TRUE;
      g_queue_unlink (&pool->leases, &lease->in_pool.node);
      if (is_large (lease))
        pool->n_large--;
      if (lease->segments != NULL)
        let_go (lease, given_back);
      pool_reap (pool);
    }
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
  TPS_LOCK_SCOPE (&pool->lock);
  lease->in_pool.number = ++pool->n_leases_made;
  g_queue_push_tail_link (&pool->leases, &lease->in_pool.node);
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
  if (pool_is_down (pool))
    {
      pool_drop (pool, held);
      return;
    }
  if (held->phase == TPS_POOL_SEGMENT_OPEN)
    {
      held->state = TPS_POOL_SEGMENT_RETURNED;
      pool_wake (pool);
      return;
    }
  held->state = TPS_POOL_SEGMENT_FREE; /* the server has closed it, or will do so */
  pool_reap (pool);
}

static void
free_view (gpointer data)
{
  View *view = data;
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
view_unref (TpsSharing *sharing)
{
  free_view (sharing);
}

static void
view_ref (TpsSharing *sharing)
{
  tps_refcount_inc (&((View *) sharing)->refcount);
}

static TpsBuffer *
view_resolve (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error)
{
  View *view = (View *) sharing;

  /* No lock is needed, because these fields do not change while the segment is lent. */
  if (view->held == NULL || slice->segment != view->held->id)
    return tps_fail_null (error, TPS_ERROR_INVALID_ARGUMENT,
                          "names segment %" G_GINT64_FORMAT ", which does not belong to this reply",
                          slice->segment);
  if (!tps_segment_check_slice (view->held->segment, slice, error))
    return NULL;
  tps_mutex_lock (&view->pool->lock);
  sharing_count_add (&view->pool->stats.received_shared, (guint64) slice->length);
  tps_mutex_unlock (&view->pool->lock);
  view_ref (sharing);
  return tps_segment_show (view->held->segment, (gsize) slice->offset, (gsize) slice->length,
                           free_view, view);
}

static gboolean
has_answers (const TpsSegmentPool *pool)
{
  for (guint i = 0; i < pool->segments->len; i++)
    if (((const TpsPoolSegment *) pool->segments->pdata[i])->use == TPS_SEGMENT_ANSWERS)
      return TRUE;
  return FALSE;
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
  return pool_count (pool, TPS_SEGMENT_MEMFD, TPS_POOL_SEGMENT_LENT) + pool->leases.length + 1;
}

/* Returns the number of bytes that came in host memory but might have been placed in memory of the
 * device. For a lookup in tables of the device, either all results lie in memory of the device, or
 * none. */
static gsize
count_missed (const TpsSegmentPool *pool, const Search *found, const TpsPoolSegment *held)
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
miss_device (TpsSegmentPool *pool, const Search *found, const TpsPoolSegment *held)
{
  gboolean has_room = pool->takes_lookups && held != NULL && held->kind == TPS_SEGMENT_CUDA_IPC;
  gsize n_bytes = has_room ? 0 : count_missed (pool, found, held);

  if (n_bytes > 0)
    pool_demand (pool, TPS_SEGMENT_CUDA_IPC, TPS_SEGMENT_ANSWERS, n_bytes,
                 pool_count (pool, TPS_SEGMENT_CUDA_IPC, TPS_POOL_SEGMENT_LENT) + 1);
}

TpsSharing *
tps_segment_pool_receive (TpsSegmentPool *pool, const TpsMessage *answer)
{
  View *view = NULL;
  TpsPoolSegment *held = NULL;
  Search found;
  gboolean shares;

  tps_mutex_lock (&pool->lock);
  shares = has_answers (pool);
  tps_mutex_unlock (&pool->lock);
  if (!shares && answer->n_bodies == 0)
    return NULL;
  found = slice_search (answer, pool->takes_lookups);
  if (shares)
    view = view_new (pool);
  if (!found.has_slice && found.n_inline == 0)
    return view != NULL ? &view->base : NULL;
  tps_mutex_lock (&pool->lock);
  /* The segment is lent to the reply if the server was allowed to place the reply there. */
  if (found.has_slice && view != NULL)
    held = pool_find (pool, TPS_SEGMENT_ANSWERS, found.slice.segment);
  if (held != NULL && held->state != TPS_POOL_SEGMENT_FREE)
    held = NULL;
  if (held != NULL)
    {
      held->state = TPS_POOL_SEGMENT_LENT;
      view->held = held;
    }
  /* A larger segment, or one more, would have taken the tensors that came inline. */
  if (found.n_inline > 0)
    {
      pool->stats.received_inline.n_tensors += found.n_inline;
      pool->stats.received_inline.n_bytes += found.n_inline_bytes;
      pool_demand (pool, TPS_SEGMENT_MEMFD, TPS_SEGMENT_ANSWERS,
                   found.n_inline_room + (held != NULL ? held->n_bytes : 0),
                   count_parallel_answers (pool));
    }
  if (pool->device != NULL)
    miss_device (pool, &found, held);
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
  gsize size = pool->kinds[kind].is_ended ? 0 : pool_plan (pool, kind, &use);

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
      || pool_count (pool, TPS_SEGMENT_MEMFD, TPS_POOL_SEGMENT_RETURNED)
                 + pool_count (pool, TPS_SEGMENT_CUDA_IPC, TPS_POOL_SEGMENT_RETURNED)
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

  TPS_LOCK_SCOPE (&pool->lock);
  /* Opening comes before closing, because it chooses the segments to close. */
  any = !pool_is_down (pool)
        && (next_release (pool, request) || next_offer (pool, request)
            || (pool->offer == TPS_OFFER_MADE && !pool->open_out
                && (next_open_of (pool, TPS_SEGMENT_CUDA_IPC, request)
                    || next_open_of (pool, TPS_SEGMENT_MEMFD, request)))
            || next_close (pool, request));
  if (!any)
    pool->woken = FALSE;
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

  TPS_LOCK_SCOPE (&pool->lock);
  if (pool->offer == TPS_OFFER_ASKED)
    {
      any = set_offer (&pool->kinds[TPS_SEGMENT_MEMFD], max_bytes);
      any |= set_offer (&pool->kinds[TPS_SEGMENT_CUDA_IPC], may_open ? max_bytes : 0);
      pool->offer = any ? TPS_OFFER_MADE : TPS_OFFER_ENDED;
      pool_wake (pool);
    }
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
  TPS_LOCK_SCOPE (&pool->lock);
  if (pool->offer == TPS_OFFER_ASKED)
    {
      pool->offer = TPS_OFFER_UNKNOWN;
      for (guint kind = 0; kind < TPS_SEGMENT_N_KINDS; kind++)
        back_off (&pool->kinds[kind]);
    }
}

gboolean
tps_segment_pool_may_take (TpsSegmentPool *pool, TpsDevice *device)
{
  TPS_LOCK_SCOPE (&pool->lock);
  return !pool_is_down (pool) && pool->offer != TPS_OFFER_ENDED
         && !pool->kinds[TPS_SEGMENT_CUDA_IPC].is_ended && device->ops->open_exported != NULL
         && !pool->takes_lookups && (pool->device == NULL || pool->device == device);
}

gboolean
tps_segment_pool_add_descriptor (TpsSegmentPool *pool, gint fd)
{
  gboolean is_expected;

  tps_mutex_lock (&pool->lock);
  is_expected = !pool_is_down (pool) && pool->open_out && pool->opening_kind == TPS_SEGMENT_MEMFD
                && pool->descriptor < 0;
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

/* Adds the opened segment, unless the pool is shut down or already has a segment with this id. Must
 * be called with the lock held. */
static gboolean
add_opened (TpsSegmentPool *pool, gint64 id, TpsSegment *segment, GError **error)
{
  pool->open_out = FALSE;
  if (pool_is_down (pool))
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_CONNECTION_LOST, "the connection has closed");
  else if (pool_find (pool, TPS_SEGMENT_REQUESTS, id) != NULL
           || pool_find (pool, TPS_SEGMENT_ANSWERS, id) != NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                 "the server opened segment %" G_GINT64_FORMAT " twice", id);
  else
    {
      TpsPoolSegment *held = g_new0 (TpsPoolSegment, 1);

      /* If `segment` is NULL, the segment is recorded only to be closed. */
      held->id = id;
      held->segment = segment;
      held->kind = pool->opening_kind;
      held->use = pool->opening_use;
      held->n_bytes = pool->n_opening_bytes;
      held->phase = segment != NULL ? TPS_POOL_SEGMENT_OPEN : TPS_POOL_SEGMENT_DOOMED;
      g_ptr_array_add (pool->segments, held);
      return TRUE;
    }
  return FALSE;
}

/* The pending request is read without the lock, because only its reply changes it. */
gboolean
tps_segment_pool_opened (TpsSegmentPool *pool, gint64 id, gint64 n_bytes, const guint8 *handle,
                         GError **error)
{
  TpsPoolKind *kind = &pool->kinds[pool->opening_kind];
  TpsSegment *segment;

  if (pool->opening_kind == TPS_SEGMENT_MEMFD)
    segment = open_sent (pool, n_bytes, error);
  else
    segment = open_exported (pool, n_bytes, handle, error);
  TPS_LOCK_SCOPE (&pool->lock);
  if (!add_opened (pool, id, segment, segment != NULL ? error : NULL))
    g_clear_pointer (&segment, tps_segment_free);
  if (segment == NULL)
    kind->is_ended = TRUE;
  kind->n_backoff = TPS_POOL_FIRST_BACKOFF;
  pool_wake (pool);
  return segment != NULL;
}

/* If common segments were refused, demands a segment for ANSWERS instead, and returns TRUE. Older
 * servers do not support common segments. Must be called with the lock held. */
static gboolean
do_without_common (TpsSegmentPool *pool)
{
  if (!is_common (pool, pool->opening_kind, pool->opening_use) || pool->descriptor >= 0)
    return FALSE;
  pool->has_common_answers = FALSE;
  pool_demand (pool, pool->opening_kind, pool->opening_use, pool->n_opening_bytes, 1);
  return TRUE;
}

gboolean
tps_segment_pool_open_failed (TpsSegmentPool *pool, gboolean later)
{
  gboolean is_ended;

  TPS_LOCK_SCOPE (&pool->lock);
  pool->open_out = FALSE;
  if (later || !do_without_common (pool))
    {
      TpsPoolKind *kind = &pool->kinds[pool->opening_kind];

      /* If a descriptor came without a segment, later descriptors cannot be assigned to
       * segments. */
      if (!later || pool->descriptor >= 0)
        kind->is_ended = TRUE;
      pool_drop_descriptor (pool);
      back_off (kind);
    }
  is_ended = pool->kinds[pool->opening_kind].is_ended;
  pool_wake (pool);
  return !is_ended;
}

void
tps_segment_pool_released (TpsSegmentPool *pool)
{
  TPS_LOCK_SCOPE (&pool->lock);
  pool->release_out = FALSE;
  pool_wake (pool);
}

void
tps_segment_pool_closed (TpsSegmentPool *pool)
{
  TPS_LOCK_SCOPE (&pool->lock);
  pool->close_out = FALSE;
  for (guint i = pool->segments->len; i > 0; i--)
    {
      TpsPoolSegment *held = pool->segments->pdata[i - 1];

      if (held->phase != TPS_POOL_SEGMENT_CLOSING)
        continue;
      held->phase = TPS_POOL_SEGMENT_DRAINING;
      held->last_lease = held->use == TPS_SEGMENT_ANSWERS ? pool->n_leases_made : 0;
    }
  pool_reap (pool);
  pool_wake (pool);
}

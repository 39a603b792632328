/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state of a pool with its segments, and the choice of the next segment. Private to the pool:
 * segment_pool.c has the requests to the server, the memory of calls and of replies. */

#pragma once

#include "plugin/memory/segment_pool.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

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

/* Returns TRUE if tps_segment_pool_shut_down() has been called. */
gboolean tps_segment_pool_is_down (const TpsSegmentPool *pool);

/* Calls `wake`, so that the owner of the pool calls tps_segment_pool_next (). Has no effect if
 * `wake` has already been called and the owner has not reacted yet, or after the shutdown. */
void tps_segment_pool_wake (TpsSegmentPool *pool);

/* Records that a message of `n_bytes` found no room, and that `n_parallel` segments of that size
 * would have been useful at that time. */
void tps_segment_pool_demand (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use,
                              gsize n_bytes, guint n_parallel);

/* Returns the size of the segment to open now, and sets `use`; 0 = no segment. Drops a demand that
 * is met or cannot be met, and may mark idle segments for closing. */
gsize tps_segment_pool_plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse *use);

/* Returns the number of segments of this kind in this state. */
guint tps_segment_pool_count (const TpsSegmentPool *pool, TpsSegmentKind kind,
                              TpsPoolSegmentState state);

/* Returns the mapped segment with this use and id, in any phase, borrowed; NULL = there is none. */
TpsPoolSegment *tps_segment_pool_find (const TpsSegmentPool *pool, TpsSegmentUse use, gint64 id);

/* Returns the smallest OPEN and FREE segment for REQUESTS of at least `n_bytes`, borrowed; NULL =
 * there is none. */
TpsPoolSegment *tps_segment_pool_find_free (const TpsSegmentPool *pool, TpsSegmentKind kind,
                                            gsize n_bytes);

/* Returns the OPEN CLAIMED segment that contains the bytes at an aligned offset, borrowed; NULL =
 * there is none. */
TpsPoolSegment *tps_segment_pool_find_claim (const TpsSegmentPool *pool, gconstpointer data,
                                             gsize n_bytes);

/* Unmaps and frees the segment. Must not be called before the server has closed the segment or the
 * connection has closed. */
void tps_segment_pool_drop (TpsSegmentPool *pool, TpsPoolSegment *held);

/* Drops the DRAINING segments to which no further reply can refer. */
void tps_segment_pool_reap (TpsSegmentPool *pool);

/* Closes the descriptor that was received for a segment, if there is one. */
void tps_segment_pool_drop_descriptor (TpsSegmentPool *pool);

/* Counts one tensor of `n_bytes`. */
static inline void
tps_sharing_count_add (TpsSharingCount *count, guint64 n_bytes)
{
  count->n_tensors++;
  count->n_bytes += n_bytes;
}

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The state shared by the parts of the pool; only they include this header. Each part calls those
 * below it only:
 *
 *   segment_requests.c   requests to the server
 *   segment_lease.c      the memory of calls
 *   segment_claim.c      memory that is filled before a call is made
 *   segment_view.c       the memory of replies
 *   segment_demand.c     the choice of the next segment
 *   segment_pool.c       the state of the pool */

#pragma once

#include "plugin/memory/segment_pool.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

#define TPS_POOL_SEGMENT_MIN_BYTES ((gsize) 1 << 20)
#define TPS_POOL_FIRST_BACKOFF 16 /* demands to skip after a refusal; doubles each time */

/* The state of a segment is
 *   FREE      REQUESTS: unused. ANSWERS: owned by the server, which may place a reply there
 *   LEASED    REQUESTS: used by one call, until it is answered
 *   CLAIMED   REQUESTS: owned by the user of a buffer, until that is released, and used by calls
 *             that send from it, until they are answered
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
 * A call that was not answered leaves its segments DOOMED: the server may read them until they are
 * closed. All other segments that are closed were FREE. A CLAIMED segment stays mapped here until
 * its buffer is released, also after it has been closed.
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
  TpsSegment *segment; /* NULL: not mapped, here only to be closed */
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
  TPS_OFFER_ENDED, /* no segment is opened any more */
} TpsOfferState;

/* The largest demand since the last request for a segment of that use. */
typedef struct
{
  gsize n_bytes;    /* of the largest message; 0 = nothing */
  guint n_parallel; /* useful number of such segments at one time */
} TpsSegmentDemand;

typedef struct
{
  gsize max_bytes;
  gboolean is_ended;                                 /* none is opened any more */
  TpsSegmentDemand demands[TPS_SEGMENT_ANSWERS + 1]; /* by use */
  guint n_backoff;                                   /* demands to skip after the next refusal */
  guint n_overlooked; /* demands that must still be skipped after the last refusal */
} TpsPoolKind;

struct TpsSegmentPool
{
  TpsRefcount refcount;

  /* Guards all fields below. No other lock is taken under it, except that of the loop by `wake`. */
  TpsMutex lock;
  GDestroyNotify wake; /* NULL: the pool is shut down */
  gpointer user_data;
  gboolean woken; /* since then tps_segment_pool_next () has not returned FALSE */
  TpsPoolKind kinds[TPS_SEGMENT_N_KINDS]; /* by kind */
  /* The device of segments of kind CUDA_IPC; NULL: no tensor has missed one. */
  TpsDevice *device;
  gboolean takes_lookups;      /* these segments are for results of lookups only; does not change */
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

/* The lock must be held for all functions below. */

/* Whether tps_segment_pool_shut_down() has been called. */
gboolean tps_segment_pool_is_down (const TpsSegmentPool *pool);

/* Makes the owner of the pool call tps_segment_pool_next (). */
void tps_segment_pool_wake (TpsSegmentPool *pool);

/* Records that a message of `n_bytes` had no room, and that `n_parallel` segments of that size
 * would have been useful at that time. */
void tps_segment_pool_demand (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use,
                              gsize n_bytes, guint n_parallel);

/* The size of the segment to open now, and its use; 0 = none. Drops a demand that is met, or that
 * cannot be met. */
gsize tps_segment_pool_plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse *use);

/* The bytes of the segments that count against the limit of the kind, without a segment that is
 * being opened. */
gsize tps_segment_pool_count_bytes (const TpsSegmentPool *pool, TpsSegmentKind kind);

/* The number of segments of the kind in that state. */
guint tps_segment_pool_count (const TpsSegmentPool *pool, TpsSegmentKind kind,
                              TpsPoolSegmentState state);

/* Returns the open segment with this use and id, borrowed; NULL = there is none. */
TpsPoolSegment *tps_segment_pool_find (const TpsSegmentPool *pool, TpsSegmentUse use, gint64 id);

/* Returns the smallest free segment for REQUESTS of at least `n_bytes`, borrowed; NULL = there is
 * none. */
TpsPoolSegment *tps_segment_pool_find_free (const TpsSegmentPool *pool, TpsSegmentKind kind,
                                            gsize n_bytes);

/* Returns the open CLAIMED segment that contains the bytes at an aligned offset, borrowed; NULL =
 * there is none. */
TpsPoolSegment *tps_segment_pool_find_claim (const TpsSegmentPool *pool, gconstpointer data,
                                             gsize n_bytes);

/* Ends the use of one slice by a call. `given_back` as in tps_segment_lease_end(). */
void tps_segment_claim_end_call (TpsSegmentPool *pool, TpsPoolSegment *held, gboolean given_back);

/* Removes the segment, which the server has removed too, or whose connection has closed. */
void tps_segment_pool_drop (TpsSegmentPool *pool, TpsPoolSegment *held);

/* Drops the DRAINING segments in which no further reply can lie. */
void tps_segment_pool_reap (TpsSegmentPool *pool);

/* Closes the descriptor that was received for a segment, if there is one. */
void tps_segment_pool_drop_descriptor (TpsSegmentPool *pool);

static inline void
tps_sharing_count_add (TpsSharingCount *count, guint64 n_bytes)
{
  count->n_tensors++;
  count->n_bytes += n_bytes;
}

G_END_DECLS

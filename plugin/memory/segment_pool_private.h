/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the parts of the pool share, only for them. Each calls only those below it:
 *
 *   segment_requests.c   what is asked of the server
 *   segment_lease.c      the memory of calls
 *   segment_view.c       the memory of answers
 *   segment_demand.c     which segment to open next
 *   segment_pool.c       the state of the pool */

#pragma once

#include "plugin/memory/segment_pool.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

#define TPS_POOL_SEGMENT_MIN_BYTES ((gsize) 1 << 20)
#define TPS_POOL_FIRST_BACKOFF 16 /* demands to overlook after a refusal; doubles with each */

/* A segment is used by
 *   FREE      REQUESTS: nobody. ANSWERS: the server, who may put an answer there
 *   LEASED    REQUESTS: one call, until it is answered
 *   LENT      ANSWERS: one answer that is here, until it is let go of
 *   RETURNED  ANSWERS: nobody, and the server is to be told
 *
 * and on its way from the server and back to it
 *   OPEN      may be used
 *   DOOMED    is to be closed
 *   CLOSING   the server has been asked to
 *   DRAINING  (ANSWERS) the server has closed it, but calls made before may have been answered
 *             there: it goes when the last of them has ended. It does not count any more
 *
 * A call that was not answered leaves its segments DOOMED: the server may read them until they are
 * closed. Everything else that is closed was FREE.
 *
 * Memory of a device must be let go of before its owner frees it, so it is when the server is asked
 * to close it. Answers that are on their way cannot wait for that: segments of a device for ANSWERS
 * are closed with the connection only. */
typedef enum
{
  TPS_POOL_SEGMENT_FREE,
  TPS_POOL_SEGMENT_LEASED,
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
  TpsSegment *segment; /* NULL: it is not mapped, and only there to be closed */
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gsize n_bytes;
  TpsPoolSegmentState state;
  TpsPoolSegmentPhase phase;
  gsize n_used;       /* LEASED: from its beginning */
  guint64 last_lease; /* DRAINING: the last call that may be answered there */
} TpsPoolSegment;

/* A call that has not ended. */
typedef struct
{
  GList node;     /* in pool->leases */
  guint64 number; /* its position among all calls */
} TpsPoolLease;

typedef enum
{
  TPS_OFFER_UNKNOWN, /* nobody has missed shared memory yet */
  TPS_OFFER_WANTED,
  TPS_OFFER_ASKED,
  TPS_OFFER_MADE,
  TPS_OFFER_ENDED, /* nothing is opened any more */
} TpsOfferState;

/* What was missed since a segment of the use was last asked for. */
typedef struct
{
  gsize n_bytes;    /* of the largest message; 0 = nothing */
  guint n_parallel; /* how many such segments would have been of use at one time */
} TpsSegmentDemand;

typedef struct
{
  gsize max_bytes;
  gboolean is_ended;                                 /* none is opened any more */
  TpsSegmentDemand demands[TPS_SEGMENT_ANSWERS + 1]; /* by use */
  guint n_backoff; /* demands to overlook after the next refusal, and now */
  guint n_overlooked;
} TpsPoolKind;

struct TpsSegmentPool
{
  TpsRefcount refcount;

  /* guards the following; no other lock is taken under it but that of the loop, by `wake` */
  TpsMutex lock;
  GDestroyNotify wake; /* NULL: shut down */
  gpointer user_data;
  gboolean woken; /* and tps_segment_pool_next () has not said FALSE since */
  TpsPoolKind kinds[TPS_SEGMENT_N_KINDS]; /* by kind */
  /* whose memory segments of kind CUDA_IPC are opened for; NULL: nobody has missed any */
  TpsDevice *device;
  TpsOfferState offer;
  GPtrArray *segments; /* of TpsPoolSegment */
  GQueue leases;       /* of TpsPoolLease, by age */
  guint n_large;       /* of them with a tensor for shared memory */
  guint64 n_leases_made;
  gboolean open_out;
  TpsSegmentKind opening_kind;
  TpsSegmentUse opening_use;
  gsize n_opening_bytes;
  gboolean release_out;
  gboolean close_out;
  gint descriptor; /* of the segment that is being opened; -1 = not come yet */
  TpsSharingStats stats;
};

/* With the lock held, all. */

gboolean tps_segment_pool_is_down (const TpsSegmentPool *pool);

/* Has somebody call tps_segment_pool_next (). */
void tps_segment_pool_wake (TpsSegmentPool *pool);

/* A message of `n_bytes` would have found room in a segment if there had been one more than
 * `n_parallel` - 1 of them. */
void tps_segment_pool_demand (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse use,
                              gsize n_bytes, guint n_parallel);

/* The size of the segment to open now, and its use; 0 = none. A demand that is met, or cannot be,
 * is forgotten. */
gsize tps_segment_pool_plan (TpsSegmentPool *pool, TpsSegmentKind kind, TpsSegmentUse *use);

/* What counts against the limit of the kind, while none is being opened. */
gsize tps_segment_pool_count_bytes (const TpsSegmentPool *pool, TpsSegmentKind kind);

/* How many segments of the kind are in that state. */
guint tps_segment_pool_count (const TpsSegmentPool *pool, TpsSegmentKind kind,
                              TpsPoolSegmentState state);

TpsPoolSegment *tps_segment_pool_find (const TpsSegmentPool *pool, TpsSegmentUse use, gint64 id);

/* Forgets the segment: the server has done so, or the connection has gone. */
void tps_segment_pool_drop (TpsSegmentPool *pool, TpsPoolSegment *held);

/* Drops the segments that no call can be answered into any more. */
void tps_segment_pool_reap (TpsSegmentPool *pool);

/* Closes the descriptor that came for a segment, if there is one. */
void tps_segment_pool_drop_descriptor (TpsSegmentPool *pool);

static inline void
tps_sharing_count_add (TpsSharingCount *count, guint64 n_bytes)
{
  count->n_tensors++;
  count->n_bytes += n_bytes;
}

G_END_DECLS

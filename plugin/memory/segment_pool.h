/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's side of the memory that one connection shares with its server: the segments, their
 * owners, and the choice of the next segment to open. See thrift/memory.thrift for the rules of
 * both sides.
 *
 * A state machine without clock, socket and thread: it returns the next request to the server
 * (tps_segment_pool_next ()) and must be told its result. Nothing here waits: while there is no
 * room, tensors are sent inline, and the missed sizes decide on the next segment.
 *
 * Tensors in memory of a device use segments of kind CUDA_IPC. A pool has such segments of one
 * device only: of `lookup_device`, for results of lookups, or else of the device of the first such
 * tensor, for gradients and averages. Segments of both kinds are opened after tensors have missed
 * them.
 *
 * Replies of the server cannot cause accesses outside of a segment; only the size of a device's
 * memory cannot be checked. Reference-counted: calls, and buffers of replies, keep the pool after
 * the connection has closed. Thread: any, unless said otherwise.
 */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/memory/segment.h"

G_BEGIN_DECLS

typedef struct TpsSegmentPool TpsSegmentPool;

typedef struct
{
  gsize max_bytes; /* of all segments of a kind, even if the server offers more */
  /* The connection accepts results of lookups in memory of this device, and uses segments of kind
   * CUDA_IPC for these results only. NULL: it accepts none. Ignored if the device cannot open
   * exported memory. */
  TpsDevice *lookup_device;
  /* Several clients receive the same replies. Segments for replies are then requested as
   * COMMON_ANSWERS, one more after each reply that came inline. */
  gboolean has_common_answers;
  /* Called when tps_segment_pool_next () has a request. A lock is held: it must not block or call
   * the pool. */
  GDestroyNotify wake;
  gpointer user_data;
} TpsSegmentPoolOptions;

/* Copies `options`. The caller owns a reference. */
TpsSegmentPool *tps_segment_pool_new (const TpsSegmentPoolOptions *options);
TpsSegmentPool *tps_segment_pool_ref (TpsSegmentPool *pool);
void tps_segment_pool_unref (TpsSegmentPool *pool);

/* Must be called when the connection has closed: no tensors are placed, no requests are made,
 * `wake` is not called any more, and all segments are released. A segment that a buffer of a reply
 * still uses is released with that buffer. */
void tps_segment_pool_shut_down (TpsSegmentPool *pool);

/* ---- requests to the server ----------------------------------------------------------------- */

typedef enum
{
  TPS_SEGMENT_ASK_OFFER, /* Node.describe */
  /* Memory.open_segment (kind, use, n_bytes), or open_lookup_segment (n_bytes) */
  TPS_SEGMENT_ASK_OPEN,
  TPS_SEGMENT_ASK_RELEASE, /* Memory.release_segments (ids) */
  TPS_SEGMENT_ASK_CLOSE,   /* Memory.close_segments (ids) */
} TpsSegmentAsk;

typedef struct
{
  TpsSegmentAsk ask;
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gsize n_bytes;
  GArray *ids;          /* of gint64; a reference, or NULL */
  gboolean for_lookups; /* OPEN: of open_lookup_segment */
} TpsSegmentRequest;

/* Fills in the next request, which the caller must send. FALSE: there is no request now. At most
 * one request of each TpsSegmentAsk is pending at a time. When a request has ended, the caller must
 * report its result with one of the functions below, unless the pool has been shut down. Requests
 * may end in any order, but they must be sent in the order of the calls of this function, and
 * before any later call of the connection. */
gboolean tps_segment_pool_next (TpsSegmentPool *pool, TpsSegmentRequest *request);
void tps_segment_request_clear (TpsSegmentRequest *request);

/* OFFER: the limit of the server for each kind; 0 = no shared memory. `has_device`: the server also
 * offers segments of kind CUDA_IPC; `has_lookups`: it offers such segments for results of lookups.
 * The limit applies to them as well. */
void tps_segment_pool_offered (TpsSegmentPool *pool, gsize max_bytes, gboolean has_device,
                               gboolean has_lookups);

/* OFFER: the server did not report a limit; the request is repeated after a while. */
void tps_segment_pool_offer_failed (TpsSegmentPool *pool);

/* Takes over a descriptor that was received. FALSE: there was no request for it, so the server must
 * not be trusted. */
gboolean tps_segment_pool_add_descriptor (TpsSegmentPool *pool, gint fd);

/* OPEN: the server has opened this segment. It uses the descriptor received before, or `handle`
 * [TPS_EXPORT_HANDLE_BYTES]; NULL = none came. FALSE (INTERNAL, RESOURCE_EXHAUSTED; of a device
 * also UNAVAILABLE): the segment cannot be used and will be closed, and no other of its kind is
 * opened. May block for memory of a device. */
gboolean tps_segment_pool_opened (TpsSegmentPool *pool, gint64 id, gint64 n_bytes,
                                  const guint8 *handle, GError **error);

/* OPEN: the server has opened no segment. `later`: it had no room, so the request is repeated after
 * a while; otherwise no more segments of the kind are opened, unless only COMMON_ANSWERS were
 * refused. Returns whether more segments of the kind may be opened. */
gboolean tps_segment_pool_open_failed (TpsSegmentPool *pool, gboolean later);

/* Whether tensors in memory of `device` may find room, now or after a segment has been opened. */
gboolean tps_segment_pool_may_take (TpsSegmentPool *pool, TpsDevice *device);

/* RELEASE, CLOSE: the request has ended, with or without success. */
void tps_segment_pool_released (TpsSegmentPool *pool);
void tps_segment_pool_closed (TpsSegmentPool *pool);

/* ---- calls ---------------------------------------------------------------------------------- */

/* Begins the lease of a call on the connection; every call must have one before it is written.
 * Places tensors in free segments for REQUESTS. Owned by the caller. */
TpsSharing *tps_segment_pool_lease (TpsSegmentPool *pool);

/* Must be called when all tensors of the call have been written. Tensors without room count as
 * demands. */
void tps_segment_lease_written (TpsSharing *sharing);

/* Claims a free segment for REQUESTS. Calls on this connection place tensors of the buffer without
 * a copy if their offsets are multiples of TPS_SHARING_ALIGNMENT. The caller must not change the
 * bytes of a call before the call has ended. The buffer stays valid after the connection has
 * closed. Owned by the caller. NULL: `n_bytes` is too small for shared memory, or no segment is
 * free; in the second case one is demanded. */
TpsBuffer *tps_segment_pool_claim (TpsSegmentPool *pool, gsize n_bytes);

/* Returns whether tensors in `buffer` are placed without a copy. FALSE also for a claim whose
 * connection has closed, or whose bytes were sent by a call that was not answered. */
gboolean tps_segment_pool_has_claim (TpsSegmentPool *pool, const TpsBuffer *buffer);

/* Whether the lease belongs to this pool. */
gboolean tps_segment_lease_is_of (TpsSharing *sharing, const TpsSegmentPool *pool);

/* Ends the lease when the call has ended. `given_back`: the call was answered, or was never sent;
 * otherwise the segments of the lease are closed. Must be called once for each lease. If it is not
 * called, the release of the last reference ends the lease as not given back. */
void tps_segment_lease_end (TpsSharing *sharing, gboolean given_back);

/* ---- answers -------------------------------------------------------------------------------- */

/* For a reply that was received: finds the slices of its segment for ANSWERS. The segment is
 * returned to the server when the last reference of this object and of all buffers made by it is
 * released, even if the reply is never read. NULL if the connection has no such segments. Owned by
 * the caller. */
TpsSharing *tps_segment_pool_receive (TpsSegmentPool *pool, const TpsMessage *answer);

/* ---- figures -------------------------------------------------------------------------------- */

typedef struct
{
  guint64 n_tensors;
  guint64 n_bytes;
} TpsSharingCount;

/* Counts tensors of at least TPS_SHARING_MIN_BYTES, on connections that may share memory. */
typedef struct
{
  TpsSharingCount sent_shared;
  TpsSharingCount sent_claimed; /* the part of sent_shared that was not copied */
  TpsSharingCount sent_inline;
  TpsSharingCount received_shared; /* counted when tensors are decoded */
  TpsSharingCount received_inline;
} TpsSharingStats;

/* Adds to `stats`. */
void tps_segment_pool_add_stats (TpsSegmentPool *pool, TpsSharingStats *stats);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentPool, tps_segment_pool_unref)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsSegmentRequest, tps_segment_request_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's side of the memory that one connection shares with its server: the segments, their
 * owners, and the choice of the next segment to open. See thrift/memory.thrift for the rules of
 * both sides.
 *
 * The pool is a state machine without clock, socket and thread. It returns the next request to the
 * server (tps_segment_pool_next ()), and the caller must report the result. No function waits for
 * room: tensors without room are sent inline, and their sizes determine the next segment.
 *
 * Tensors in memory of a device use segments of kind CUDA_IPC. A pool has such segments on one
 * device only: `lookup_device`, for results of lookups, or else the device of the first such
 * tensor, for gradients and averages. Segments of both kinds are opened only after tensors found no
 * room.
 *
 * Replies of the server cannot cause accesses outside of a segment, except that the size of a
 * device's memory cannot be checked. Reference-counted, because calls and buffers of replies keep
 * the pool after the connection has closed. Thread: any, unless said otherwise.
 */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/memory/segment.h"

G_BEGIN_DECLS

typedef struct TpsSegmentPool TpsSegmentPool;

typedef struct
{
  gsize max_bytes; /* limit of all segments of a kind, even if the server offers more */
  /* The connection accepts results of lookups in memory of this device, and uses segments of kind
   * CUDA_IPC for these results only. NULL = no results in device memory. Ignored if the device
   * cannot open exported memory. */
  TpsDevice *lookup_device;
  /* If TRUE, several clients receive the same replies. Segments for replies are then requested as
   * COMMON_ANSWERS, a further one after each reply that came inline. */
  gboolean has_common_answers;
  /* Called when tps_segment_pool_next () has a request. Is called with a lock held, and must not
   * block or call the pool. */
  GDestroyNotify wake;
  gpointer user_data;
} TpsSegmentPoolOptions;

/* Creates a pool; copies `options`. The caller owns a reference. */
TpsSegmentPool *tps_segment_pool_new (const TpsSegmentPoolOptions *options);
TpsSegmentPool *tps_segment_pool_ref (TpsSegmentPool *pool);
void tps_segment_pool_unref (TpsSegmentPool *pool);

/* Must be called when the connection has closed. From then on, no tensors are placed, no requests
 * are made, and `wake` is not called. Segments are released; a segment in use by a call, a claim or
 * a reply is released when that use ends. */
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

/* Fills in the next request, which the caller must send and then clear. Returns FALSE if there is
 * no request now. At most one request of each TpsSegmentAsk is pending at a time. When a request
 * has ended, the caller must report its result with one of the functions below, unless the pool has
 * been shut down. Requests may end in any order, but they must be sent in the order of the calls of
 * this function, and before any later call of the connection. */
gboolean tps_segment_pool_next (TpsSegmentPool *pool, TpsSegmentRequest *request);
void tps_segment_request_clear (TpsSegmentRequest *request);

/* Reports the result of OFFER: `max_bytes` is the limit of the server for each kind; 0 = no shared
 * memory. `has_device`: the server offers segments of kind CUDA_IPC for gradients and averages.
 * `has_lookups`: the server offers them for results of lookups. */
void tps_segment_pool_offered (TpsSegmentPool *pool, gsize max_bytes, gboolean has_device,
                               gboolean has_lookups);

/* Reports that OFFER failed: the server returned no limit. The request is repeated after further
 * demands. */
void tps_segment_pool_offer_failed (TpsSegmentPool *pool);

/* Takes ownership of a received descriptor. Returns FALSE, and closes the descriptor, if no pending
 * request expects one; the server must then not be trusted. */
gboolean tps_segment_pool_add_descriptor (TpsSegmentPool *pool, gint fd);

/* Reports the result of OPEN: the server has opened segment `id`. Uses the descriptor that was
 * received earlier, or `handle` [TPS_EXPORT_HANDLE_BYTES]; NULL = the reply had no handle. Returns
 * FALSE if the segment cannot be used: it will be closed, and no further segments of its kind are
 * opened. May block for memory of a device. Errors: INTERNAL, RESOURCE_EXHAUSTED, CONNECTION_LOST
 * (the pool is shut down); for memory of a device also UNAVAILABLE, DEVICE_LOST. */
gboolean tps_segment_pool_opened (TpsSegmentPool *pool, gint64 id, gint64 n_bytes,
                                  const guint8 *handle, GError **error);

/* Reports that OPEN failed. If `later` is TRUE, the server had no room, and the request is repeated
 * after further demands. If it is FALSE, no more segments of the kind are opened; but if
 * COMMON_ANSWERS were refused, ANSWERS are requested instead. Returns TRUE if more segments of the
 * kind may be opened. */
gboolean tps_segment_pool_open_failed (TpsSegmentPool *pool, gboolean later);

/* Returns TRUE if tensors in memory of `device` may find room, now or after a segment has been
 * opened. */
gboolean tps_segment_pool_may_take (TpsSegmentPool *pool, TpsDevice *device);

/* Report that RELEASE or CLOSE has ended, with or without success. */
void tps_segment_pool_released (TpsSegmentPool *pool);
void tps_segment_pool_closed (TpsSegmentPool *pool);

/* ---- calls ---------------------------------------------------------------------------------- */

/* Begins the lease of a call on the connection; every call must have a lease before it is written.
 * The lease places tensors in free segments for REQUESTS. The caller owns a reference. */
TpsSharing *tps_segment_pool_lease (TpsSegmentPool *pool);

/* Must be called when all tensors of the call have been written. Tensors that found no room become
 * demands for segments. */
void tps_segment_lease_written (TpsSharing *sharing);

/* Claims a free segment for REQUESTS, and returns a buffer of `n_bytes` in it, which the caller
 * owns. Calls on this connection place tensors of the buffer without a copy if their offsets are
 * multiples of TPS_SHARING_ALIGNMENT. The caller must not change the bytes of a call before the
 * call has ended. The buffer stays valid after the connection has closed. Returns NULL if `n_bytes`
 * is less than TPS_SHARING_MIN_BYTES, if the pool is shut down, or if no segment of a suitable size
 * is free; in the last case, a segment is demanded. */
TpsBuffer *tps_segment_pool_claim (TpsSegmentPool *pool, gsize n_bytes);

/* Returns TRUE if tensors in `buffer` are placed without a copy. Returns FALSE even for a claimed
 * buffer if its connection has closed, or if a call sent from it was not answered. */
gboolean tps_segment_pool_has_claim (TpsSegmentPool *pool, const TpsBuffer *buffer);

/* Returns TRUE if the lease belongs to this pool. */
gboolean tps_segment_lease_is_of (TpsSharing *sharing, const TpsSegmentPool *pool);

/* Ends the lease; must be called once when the call has ended. `given_back` must be TRUE if the
 * call was answered or never sent; if it is FALSE, the segments of the lease are closed. Without
 * this call, the release of the last reference ends the lease as if `given_back` were FALSE. */
void tps_segment_lease_end (TpsSharing *sharing, gboolean given_back);

/* ---- answers -------------------------------------------------------------------------------- */

/* Returns the sharing of a received reply, which finds slices in its segment for ANSWERS. The
 * caller owns a reference. When the last reference to the sharing and to all of its buffers is
 * released, the segment is returned to the server, even if the reply was never read. Tensors that
 * came inline become demands. Returns NULL if the connection has no such segments. */
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

/* Adds the counts of this pool to `stats`. */
void tps_segment_pool_add_stats (TpsSegmentPool *pool, TpsSharingStats *stats);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentPool, tps_segment_pool_unref)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsSegmentRequest, tps_segment_request_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's side of the memory that one connection shares with its server: the segments, their
 * owners, and the choice of the next segment. See thrift/memory.thrift for the rules.
 *
 * The pool is a state machine without clock, socket and thread. It returns the next request to the
 * server (tps_segment_pool_next ()), and the caller must report the result. No function waits for
 * room: tensors without room are sent inline, and their sizes determine the next segment.
 *
 * Tensors in memory of a device use segments of kind CUDA_IPC, on one device only: `lookup_device`,
 * for results of lookups, or else that of the first such tensor.
 *
 * Replies cannot cause accesses outside of a segment, except that the size of a device's memory
 * cannot be checked. Reference-counted: calls and buffers keep the pool. Thread: any, unless said
 * otherwise. */

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

/* Fills in the next request, which the caller must send and clear; FALSE if there is none. At most
 * one of each TpsSegmentAsk is pending. Its result must be reported with one of the functions
 * below, unless the pool is shut down. Requests must be sent in the order of these calls, and
 * before any later call of the connection; they may end in any order. */
gboolean tps_segment_pool_next (TpsSegmentPool *pool, TpsSegmentRequest *request);
void tps_segment_request_clear (TpsSegmentRequest *request);

/* Reports the result of OFFER: `max_bytes` is the limit of the server for each kind; 0 = no shared
 * memory. `has_device`: the server offers segments of kind CUDA_IPC for gradients and averages.
 * `has_lookups`: the server offers them for results of lookups. */
void tps_segment_pool_offered (TpsSegmentPool *pool, gsize max_bytes, gboolean has_device,
                               gboolean has_lookups);

/* Reports that OFFER failed, without a limit. It is repeated after further demands. */
void tps_segment_pool_offer_failed (TpsSegmentPool *pool);

/* Takes ownership of a received descriptor. Returns FALSE, and closes the descriptor, if no pending
 * request expects one; the server must then not be trusted. */
gboolean tps_segment_pool_add_descriptor (TpsSegmentPool *pool, gint fd);

/* Reports that the server has opened segment `id`, with the descriptor received earlier or `handle`
 * [TPS_EXPORT_HANDLE_BYTES], which may be NULL. Returns FALSE if the segment cannot be used: it
 * will be closed, and no more of its kind are opened. May block for memory of a device. Errors:
 * INTERNAL, RESOURCE_EXHAUSTED, CONNECTION_LOST (shut down), UNAVAILABLE, DEVICE_LOST. */
gboolean tps_segment_pool_opened (TpsSegmentPool *pool, gint64 id, gint64 n_bytes,
                                  const guint8 *handle, GError **error);

/* Reports that OPEN failed: `later`, the request is repeated after further demands; otherwise no
 * more segments of the kind are opened, but ANSWERS after refused COMMON_ANSWERS. Returns TRUE if
 * more of the kind may be opened. */
gboolean tps_segment_pool_open_failed (TpsSegmentPool *pool, gboolean later);

/* TRUE: tensors on `device` may find room, now or after a segment has been opened. */
gboolean tps_segment_pool_may_take (TpsSegmentPool *pool, TpsDevice *device);

/* Report that RELEASE or CLOSE has ended, with or without success. */
void tps_segment_pool_released (TpsSegmentPool *pool);
void tps_segment_pool_closed (TpsSegmentPool *pool);

/* ---- calls ---------------------------------------------------------------------------------- */

/* Begins the lease of a call on the connection; every call must have a lease before it is written.
 * The lease places tensors in free segments for REQUESTS. The caller owns a reference. */
TpsSharing *tps_segment_pool_lease (TpsSegmentPool *pool);

/* Ends the writing of the call: tensors that found no room become demands for segments. */
void tps_segment_lease_written (TpsSharing *sharing);

/* Claims a free segment for REQUESTS, and returns a buffer of `n_bytes` in it, owned by the caller,
 * which may outlive the connection. Calls on this connection place its tensors without a copy at
 * multiples of TPS_SHARING_ALIGNMENT; the bytes must not change until the call has ended. NULL if
 * `n_bytes` is less than TPS_SHARING_MIN_BYTES, the pool is shut down, or no segment is free, which
 * is a demand. */
TpsBuffer *tps_segment_pool_claim (TpsSegmentPool *pool, gsize n_bytes);

/* Returns TRUE if tensors in `buffer` are placed without a copy. Returns FALSE even for a claimed
 * buffer if its connection has closed, or if a call sent from it was not answered. */
gboolean tps_segment_pool_has_claim (TpsSegmentPool *pool, const TpsBuffer *buffer);

gboolean tps_segment_lease_is_of (TpsSharing *sharing, const TpsSegmentPool *pool);

/* Ends the lease; must be called once when the call has ended. `given_back` must be TRUE if the
 * call was answered or never sent; if it is FALSE, the segments of the lease are closed. Without
 * this call, the release of the last reference ends the lease as if `given_back` were FALSE. */
void tps_segment_lease_end (TpsSharing *sharing, gboolean given_back);

/* ---- answers -------------------------------------------------------------------------------- */

/* Returns the sharing of a received reply, owned by the caller, which finds slices in its segment
 * for ANSWERS; NULL if there are no such segments. After the last reference to it and its buffers,
 * the segment is returned to the server. Tensors that came inline become demands. */
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

void tps_segment_pool_add_stats (TpsSegmentPool *pool, TpsSharingStats *stats);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsSegmentRequest, tps_segment_request_clear)

G_END_DECLS

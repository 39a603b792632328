/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The client's side of the memory that one connection shares with its server: which segments there
 * are, who owns each, and which to open next. See thrift/memory.thrift for the rules that both
 * sides keep to.
 *
 * A state machine without clock, socket and thread: it says what is to be asked of the server
 * (tps_segment_pool_next ()) and is told what became of it. Nothing here waits: while there is no
 * room, tensors travel inline, and what was missed decides what is opened.
 *
 * Tensors in memory of a device go into segments of kind CUDA_IPC, of the one device that the first
 * such tensor was on, and averages come back in them; both kinds are opened as they are missed.
 *
 * Nothing the server says makes us touch memory outside of a segment, but that the size of a
 * device's memory is believed. Reference-counted: calls and buffers of answers keep the pool when
 * the connection has gone. Thread: any, unless said otherwise.
 */

#pragma once

#include "plugin/frame/message.h"
#include "plugin/memory/segment.h"

G_BEGIN_DECLS

typedef struct TpsSegmentPool TpsSegmentPool;

typedef struct
{
  gsize max_bytes; /* of all segments of a kind, whatever the server would give */
  /* tps_segment_pool_next () has something. Called with a lock held: must not block or call
   * back. */
  GDestroyNotify wake;
  gpointer user_data;
} TpsSegmentPoolOptions;

TpsSegmentPool *tps_segment_pool_new (const TpsSegmentPoolOptions *options);
TpsSegmentPool *tps_segment_pool_ref (TpsSegmentPool *pool);
void tps_segment_pool_unref (TpsSegmentPool *pool);

/* The connection has gone: nothing more is placed or asked, `wake` is not called any more, and all
 * segments are let go of; those that a buffer of an answer still shows, with that buffer. */
void tps_segment_pool_shut_down (TpsSegmentPool *pool);

/* ---- what is asked of the server ------------------------------------------------------------ */

typedef enum
{
  TPS_SEGMENT_ASK_OFFER,   /* Node.describe */
  TPS_SEGMENT_ASK_OPEN,    /* Memory.open_segment (kind, use, n_bytes) */
  TPS_SEGMENT_ASK_RELEASE, /* Memory.release_segments (ids) */
  TPS_SEGMENT_ASK_CLOSE,   /* Memory.close_segments (ids) */
} TpsSegmentAsk;

typedef struct
{
  TpsSegmentAsk ask;
  TpsSegmentKind kind;
  TpsSegmentUse use;
  gsize n_bytes;
  GArray *ids; /* of gint64; a reference, or NULL */
} TpsSegmentRequest;

/* FALSE: nothing for now. At most one request of each kind is out at a time: each is to be followed
 * by one of the functions below, in any order, but for a pool that is shut down. Requests go out in
 * the order of the calls and before any later call of the connection. */
gboolean tps_segment_pool_next (TpsSegmentPool *pool, TpsSegmentRequest *request);
void tps_segment_request_clear (TpsSegmentRequest *request);

/* OFFER: what the server lets the connection have of each kind; 0 = no shared memory. `has_device`:
 * of kind CUDA_IPC too. */
void tps_segment_pool_offered (TpsSegmentPool *pool, gsize max_bytes, gboolean has_device);

/* OFFER: the server has not said; it is worth asking again after a while. */
void tps_segment_pool_offer_failed (TpsSegmentPool *pool);

/* A descriptor came; takes it over. FALSE: nobody asked for it, the server is not to be trusted. */
gboolean tps_segment_pool_add_descriptor (TpsSegmentPool *pool, gint fd);

/* OPEN: the server has answered with this segment. Its descriptor is there, or it is opened by
 * `handle` [TPS_EXPORT_HANDLE_BYTES], NULL if there was none. FALSE (INTERNAL, RESOURCE_EXHAUSTED;
 * of a device also UNAVAILABLE): it cannot be used; it will be closed, and no other of its kind is
 * opened. May block for memory of a device. */
gboolean tps_segment_pool_opened (TpsSegmentPool *pool, gint64 id, gint64 n_bytes,
                                  const guint8 *handle, GError **error);

/* OPEN: no segment. `later`: there was no room, so it is worth asking again after a while;
 * otherwise no more segments of the kind are opened. */
void tps_segment_pool_open_failed (TpsSegmentPool *pool, gboolean later);

/* Whether tensors in memory of `device` may find room, now or when it has been opened. */
gboolean tps_segment_pool_may_take (TpsSegmentPool *pool, TpsDevice *device);

/* RELEASE, CLOSE: answered, no matter how. */
void tps_segment_pool_released (TpsSegmentPool *pool);
void tps_segment_pool_closed (TpsSegmentPool *pool);

/* ---- calls ---------------------------------------------------------------------------------- */

/* For a call on the connection, before it is written; every call has one. Places tensors in
 * segments for REQUESTS that are free. The caller's. */
TpsSharing *tps_segment_pool_lease (TpsSegmentPool *pool);

/* All tensors of the call have been written: what did not find room counts as wanted. */
void tps_segment_lease_written (TpsSharing *sharing);

/* Whether the lease is of this pool. */
gboolean tps_segment_lease_is_of (TpsSharing *sharing, const TpsSegmentPool *pool);

/* The call has ended. `given_back`: it was answered, or never sent; else its segments are closed.
 * Once a lease; without it the last reference counts as not given back. */
void tps_segment_lease_end (TpsSharing *sharing, gboolean given_back);

/* ---- answers -------------------------------------------------------------------------------- */

/* For an answer that came in: finds slices of its ANSWERS segment, which is given back to the
 * server when the last reference of this and of every buffer that it gave out is gone, whether or
 * not anybody looked. NULL where the connection has no such segments. The caller's. */
TpsSharing *tps_segment_pool_receive (TpsSegmentPool *pool, const TpsMessage *answer);

/* ---- figures -------------------------------------------------------------------------------- */

typedef struct
{
  guint64 n_tensors;
  guint64 n_bytes;
} TpsSharingCount;

/* Of tensors of at least TPS_SHARING_MIN_BYTES, on connections that may share memory. */
typedef struct
{
  TpsSharingCount sent_shared;
  TpsSharingCount sent_inline;
  TpsSharingCount received_shared; /* counted when they are decoded */
  TpsSharingCount received_inline;
} TpsSharingStats;

/* Adds to `stats`. */
void tps_segment_pool_add_stats (TpsSegmentPool *pool, TpsSharingStats *stats);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentPool, tps_segment_pool_unref)
G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsSegmentRequest, tps_segment_request_clear)

G_END_DECLS

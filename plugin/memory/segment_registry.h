/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server's side of the memory that one connection shares with its client: its segments, their
 * owners, and their limits (thrift/memory.thrift). Neither requests of the client nor its changes
 * to the memory can cause accesses outside of a segment. Reference-counted, because pending calls
 * keep the registry. Thread: any. */

#pragma once

#include "plugin/frame/sharing.h"
#include "plugin/memory/common_segments.h"

G_BEGIN_DECLS

typedef struct TpsSegmentRegistry TpsSegmentRegistry;

/* The limits of a connection. References to the pool and the budgets are taken; each of them may be
 * NULL. */
typedef struct
{
  gsize max_bytes;       /* of all segments of the connection, for each kind */
  guint max_segments;    /* 0 = 256; for each kind */
  TpsBufferPool *copies; /* for slices that are copied before checks; NULL = the default pool */
  TpsBudget *all;        /* charged for the segments of all connections */
  /* The device of segments of kind CUDA_IPC. There are no such segments if it is NULL or cannot
   * export memory. */
  TpsDevice *device;
  TpsBudget *all_on_device; /* as `all`, for segments of kind CUDA_IPC */
  guint max_in_process;     /* segments of all connections, for each kind; 0 = 16384 */
  /* Segments whose tensors are sent in place once the client has opened them. A reference is taken;
   * NULL = no common segments. */
  TpsCommonSegments *common;
  gboolean device_for_lookups_only; /* segments of kind CUDA_IPC are opened for lookups only */
} TpsSegmentLimits;

/* The charge of one segment to all limits. It must be held until the memory is unmapped here and
 * the descriptor has been sent. Reference-counted. unref() does not block. Thread: any. */
typedef struct TpsSegmentCharge TpsSegmentCharge;

TpsSegmentCharge *tps_segment_charge_ref (TpsSegmentCharge *charge);
void tps_segment_charge_unref (TpsSegmentCharge *charge);

/* Returns the number of segments that all registries of the process have charged. Thread: any. */
guint tps_segments_get_n_in_process (void);

/* Creates a registry; copies `limits`. The caller owns a reference. */
TpsSegmentRegistry *tps_segment_registry_new (const TpsSegmentLimits *limits);
TpsSegmentRegistry *tps_segment_registry_ref (TpsSegmentRegistry *registry);
void tps_segment_registry_unref (TpsSegmentRegistry *registry);

/* Must be called when the connection has closed: releases all segments and opens no more. Memory
 * that a call still reads stays mapped until the call releases it. */
void tps_segment_registry_shut_down (TpsSegmentRegistry *registry);

/* Return whether a segment is open (a snapshot), the limit on the bytes of segments in host memory,
 * and the bytes of segments of all kinds that are charged now. */
gboolean tps_segment_registry_has_segments (TpsSegmentRegistry *registry);
gsize tps_segment_registry_get_max_bytes (const TpsSegmentRegistry *registry);
gsize tps_segment_registry_get_bytes (const TpsSegmentRegistry *registry);

/* Return the device of segments of kind CUDA_IPC (borrowed; NULL = there are no such segments), and
 * whether these are opened for lookups only. */
TpsDevice *tps_segment_registry_get_device (const TpsSegmentRegistry *registry);
gboolean tps_segment_registry_is_for_lookups_only (const TpsSegmentRegistry *registry);

/* Opens a segment of `n_bytes`, rounded up, and sets `id` and `size` for the reply. COMMON_ANSWERS
 * opens a common segment of exactly `n_bytes` if an earlier reply of this connection had a tensor
 * in it, otherwise one for ANSWERS. The caller owns `fd`, which must be sent, and `charge` (may be
 * NULL), which must be released when `fd` is closed, because the client may close the segment
 * earlier. Errors: INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE (shut down). */
gboolean tps_segment_registry_open (TpsSegmentRegistry *registry, TpsSegmentUse use, gsize n_bytes,
                                    gint64 *id, gsize *size, gint *fd, TpsSegmentCharge **charge,
                                    GError **error);

/* As tps_segment_registry_open(), but opens a segment of kind CUDA_IPC, and sets `handle`
 * [TPS_EXPORT_HANDLE_BYTES] for the reply instead of a descriptor. Further errors: UNAVAILABLE
 * (there are no such segments, or only for lookups), DEVICE_LOST. */
gboolean tps_segment_registry_open_exported (TpsSegmentRegistry *registry, TpsSegmentUse use,
                                             gsize n_bytes, gint64 *id, gsize *size, guint8 *handle,
                                             GError **error);

/* As tps_segment_registry_open_exported(), but opens a segment for ANSWERS in which results of
 * lookups may be placed. */
gboolean tps_segment_registry_open_for_lookups (TpsSegmentRegistry *registry, gsize n_bytes,
                                                gint64 *id, gsize *size, guint8 *handle,
                                                GError **error);

/* Between hold and resume, which nest, no reply is placed in a segment that is opened meanwhile.
 * The caller must call hold before it opens a segment, and resume when the reply has been queued,
 * because no reply may name a segment whose id the client has not yet received. */
void tps_segment_registry_hold_answers (TpsSegmentRegistry *registry);
void tps_segment_registry_resume_answers (TpsSegmentRegistry *registry);

/* Release segments for ANSWERS, which the client returns, or close segments. `ids` [n_ids]. Errors:
 * NOT_FOUND, with the first id that is not open or, in release(), not lent to the client; all other
 * ids are processed. */
gboolean tps_segment_registry_release (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                                       GError **error);
gboolean tps_segment_registry_close (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                                     GError **error);

/* Returns the sharing of a received call, owned by the caller, which finds slices of REQUESTS.
 * After the last reference to it and its buffers, `released (user_data)` is called: the slices
 * belong to the client again, and the reply may be sent. NULL, without a call, if there are no
 * segments. */
TpsSharing *tps_segment_registry_receive (TpsSegmentRegistry *registry, GDestroyNotify released,
                                          gpointer user_data);

/* Returns the sharing of a reply, owned by the caller, which places tensors in a free segment for
 * ANSWERS; it belongs to the client after tps_segment_registry_commit(), otherwise it is free after
 * the last reference. A tensor in a common segment that the client has opened is not copied, but
 * kept until the client returns the segment. NULL if no tensor can be placed. */
TpsSharing *tps_segment_registry_answer (TpsSegmentRegistry *registry);
void tps_segment_registry_commit (TpsSharing *answer);

/* Reserves `n_bytes` for results of a lookup in a segment in memory of `device` (NULL: of the
 * host), before any tensor of the reply is placed; tensors in the buffer, which the caller owns,
 * are placed without a copy. It holds a reference to `answer`, and may be unmapped after the
 * commit. The client may change the bytes at any time. NULL if no such segment has room, or
 * `device` is not the registry's. */
TpsBuffer *tps_segment_registry_reserve (TpsSharing *answer, TpsDevice *device, gsize n_bytes);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentCharge, tps_segment_charge_unref)

G_END_DECLS

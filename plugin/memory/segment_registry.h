/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server's side of the memory that one connection shares with its client: its segments, their
 * owners, and their limits. See thrift/memory.thrift for the rules of both sides.
 *
 * Requests of the client, and its changes of the memory, cannot cause accesses outside of a
 * segment. Reference-counted: calls that still run keep the registry after the connection has
 * closed. Thread: any.
 */

#pragma once

#include "plugin/frame/sharing.h"
#include "plugin/memory/common_segments.h"

G_BEGIN_DECLS

typedef struct TpsSegmentRegistry TpsSegmentRegistry;

/* References of the pool and the budgets are taken; all of them may be NULL. */
typedef struct
{
  gsize max_bytes;       /* of all segments of the connection, for each kind */
  guint max_segments;    /* 0 = 256; for each kind */
  TpsBufferPool *copies; /* for slices that are copied before checks; NULL = the default pool */
  TpsBudget *all;        /* charged for the segments of all connections */
  /* The device of segments of kind CUDA_IPC. NULL, or a device that cannot export memory: there are
   * none. */
  TpsDevice *device;
  TpsBudget *all_on_device; /* the same for segments of kind CUDA_IPC */
  guint max_in_process;     /* segments of all connections, for each kind; 0 = 16384 */
  /* Segments whose tensors are sent in place once the client has opened them. A reference is
   * taken; NULL = there are none. */
  TpsCommonSegments *common;
  gboolean device_for_lookups_only; /* segments of kind CUDA_IPC are opened for lookups only */
} TpsSegmentLimits;

/* The charge of one segment to all limits, until its memory is unmapped here and its descriptor has
 * been sent. Reference-counted. unref() does not block. Thread: any. */
typedef struct TpsSegmentCharge TpsSegmentCharge;

/* Takes and releases a reference. */
TpsSegmentCharge *tps_segment_charge_ref (TpsSegmentCharge *charge);
void tps_segment_charge_unref (TpsSegmentCharge *charge);

/* The number of segments that all registries of the process have charged. Thread: any. */
guint tps_segments_get_n_in_process (void);

/* Copies `limits`. The caller owns a reference. */
TpsSegmentRegistry *tps_segment_registry_new (const TpsSegmentLimits *limits);
TpsSegmentRegistry *tps_segment_registry_ref (TpsSegmentRegistry *registry);
void tps_segment_registry_unref (TpsSegmentRegistry *registry);

/* Must be called when the connection has closed: releases all segments and opens no more. Memory
 * that a call still reads stays until the call releases it. */
void tps_segment_registry_shut_down (TpsSegmentRegistry *registry);

/* Whether any segment is open; a snapshot. */
gboolean tps_segment_registry_has_segments (TpsSegmentRegistry *registry);

/* The limit on the bytes of the connection's segments in host memory. */
gsize tps_segment_registry_get_max_bytes (const TpsSegmentRegistry *registry);

/* The bytes of the segments of all kinds that are charged now. */
gsize tps_segment_registry_get_bytes (const TpsSegmentRegistry *registry);

/* The device of segments of kind CUDA_IPC; NULL: there are none. */
TpsDevice *tps_segment_registry_get_device (const TpsSegmentRegistry *registry);

/* Whether segments of kind CUDA_IPC are opened for lookups only. */
gboolean tps_segment_registry_is_for_lookups_only (const TpsSegmentRegistry *registry);

/* Opens a segment. For COMMON_ANSWERS, this is a common segment of that size if an earlier reply of
 * this connection had a tensor in it, otherwise a segment for ANSWERS. `id` and `size` are the
 * result of the call. `fd` belongs to the caller and must be sent with the reply. So does `charge`
 * (may be NULL), which must be released when `fd` is closed: the client may have closed the segment
 * long before. Errors: INVALID_ARGUMENT (use, size), RESOURCE_EXHAUSTED, UNAVAILABLE (shut
 * down). */
gboolean tps_segment_registry_open (TpsSegmentRegistry *registry, TpsSegmentUse use, gsize n_bytes,
                                    gint64 *id, gsize *size, gint *fd, TpsSegmentCharge **charge,
                                    GError **error);

/* The same for kind CUDA_IPC. `handle` [TPS_EXPORT_HANDLE_BYTES] is also part of the result.
 * Errors: also UNAVAILABLE (no such memory here, or for lookups only), DEVICE_LOST. */
gboolean tps_segment_registry_open_exported (TpsSegmentRegistry *registry, TpsSegmentUse use,
                                             gsize n_bytes, gint64 *id, gsize *size, guint8 *handle,
                                             GError **error);

/* The same for ANSWERS. Results of lookups may also be placed in this segment. */
gboolean tps_segment_registry_open_for_lookups (TpsSegmentRegistry *registry, gsize n_bytes,
                                                gint64 *id, gsize *size, guint8 *handle,
                                                GError **error);

/* Between hold and resume, which nest, no reply is placed in a segment that is opened meanwhile.
 * Callers must hold before tps_segment_registry_open(), and resume when its reply has been queued,
 * because no reply may name a new segment before its client knows it. */
void tps_segment_registry_hold_answers (TpsSegmentRegistry *registry);
void tps_segment_registry_resume_answers (TpsSegmentRegistry *registry);

/* Errors: NOT_FOUND for the first id that names no segment (release: no segment for ANSWERS that
 * the client has); all other ids are processed. */
gboolean tps_segment_registry_release (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                                       GError **error);
gboolean tps_segment_registry_close (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                                     GError **error);

/* For a call that was received: finds slices of segments for REQUESTS. `released (user_data)` is
 * called when the last reference of this object, and of every buffer made by it, is released: then
 * the slices belong to the client again, and the reply may be sent. NULL (and `released` is never
 * called) if the connection has no segments. Owned by the caller. */
TpsSharing *tps_segment_registry_receive (TpsSegmentRegistry *registry, GDestroyNotify released,
                                          gpointer user_data);

/* For a reply: places tensors in a free segment for ANSWERS. A tensor in a common segment that the
 * client has opened is not copied; its buffer is kept until the client has returned the segment.
 * After the commit the segment belongs to the client. Without a commit it is free again with the
 * last reference. NULL if no tensor can be placed. Owned by the caller. */
TpsSharing *tps_segment_registry_answer (TpsSegmentRegistry *registry);
void tps_segment_registry_commit (TpsSharing *answer);

/* Reserves `n_bytes` for results of a lookup: in a segment for lookups in memory of `device` or, if
 * `device` is NULL, in a segment in host memory. Must be called before any tensor of the reply is
 * placed. Tensors in the buffer are placed without a copy. The buffer holds a reference to
 * `answer`, and its memory may be unmapped after the commit. The client may change its bytes at any
 * time, so they must not decide anything. Owned by the caller. NULL: no free segment of this kind
 * has room, or `device` is not the device of the registry. */
TpsBuffer *tps_segment_registry_reserve (TpsSharing *answer, TpsDevice *device, gsize n_bytes);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentCharge, tps_segment_charge_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentRegistry, tps_segment_registry_unref)

G_END_DECLS

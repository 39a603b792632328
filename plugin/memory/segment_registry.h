/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The server's side of the memory that one connection shares with its client: its segments, who
 * owns each, and what they may be in all. See thrift/memory.thrift for the rules that both sides
 * keep to.
 *
 * Nothing the client does to the memory or says of it makes us read or write outside of a segment.
 * Reference-counted: calls that still run keep it when the connection has gone. Thread: any.
 */

#pragma once

#include "plugin/frame/sharing.h"
#include "plugin/memory/segment.h"

G_BEGIN_DECLS

typedef struct TpsSegmentRegistry TpsSegmentRegistry;

/* References of the pool and the budgets are taken; all may be NULL. */
typedef struct
{
  gsize max_bytes;    /* of all segments of the connection, of either kind by itself */
  guint max_segments; /* 0 = 256, the same */
  TpsBufferPool
      *copies;    /* of slices that are copied before they are checked; NULL = the default pool */
  TpsBudget *all; /* charged for the segments of all connections */
  /* In whose memory segments of kind CUDA_IPC are; NULL, or one that exports none: there are
   * none. */
  TpsDevice *device;
  TpsBudget *all_on_device; /* `all` of these */
  guint max_in_process;     /* segments of either kind, of all connections; 0 = 16384 */
} TpsSegmentLimits;

/* What one segment counts for, against all limits: until its memory is unmapped here and its
 * descriptor has left. Reference-counted. unref() does not block. Thread: any. */
typedef struct TpsSegmentCharge TpsSegmentCharge;

TpsSegmentCharge *tps_segment_charge_ref (TpsSegmentCharge *charge);
void tps_segment_charge_unref (TpsSegmentCharge *charge);

TpsSegmentRegistry *tps_segment_registry_new (const TpsSegmentLimits *limits);
TpsSegmentRegistry *tps_segment_registry_ref (TpsSegmentRegistry *registry);
void tps_segment_registry_unref (TpsSegmentRegistry *registry);

/* The connection has gone: forgets all segments (memory that a call still reads stays until it lets
 * go) and opens no more. */
void tps_segment_registry_shut_down (TpsSegmentRegistry *registry);

/* Whether any is open; a snapshot. */
gboolean tps_segment_registry_has_segments (TpsSegmentRegistry *registry);

gsize tps_segment_registry_get_max_bytes (const TpsSegmentRegistry *registry);

/* Of the segments of all kinds that count at this moment. */
gsize tps_segment_registry_get_bytes (const TpsSegmentRegistry *registry);

/* In whose memory segments of kind CUDA_IPC are; NULL: there are none. */
TpsDevice *tps_segment_registry_get_device (const TpsSegmentRegistry *registry);

/* `id` and `size` are what is answered; `fd` is the caller's, to be sent with the answer, and so is
 * `charge`, to be let go of when `fd` is closed: the segment may have been closed long before that
 * (may be NULL: it is closed at once). Errors: INVALID_ARGUMENT (use, size), RESOURCE_EXHAUSTED,
 * UNAVAILABLE (shut down). */
gboolean tps_segment_registry_open (TpsSegmentRegistry *registry, TpsSegmentUse use, gsize n_bytes,
                                    gint64 *id, gsize *size, gint *fd, TpsSegmentCharge **charge,
                                    GError **error);

/* The same of kind CUDA_IPC. `handle` [TPS_EXPORT_HANDLE_BYTES] is answered too. Errors: also
 * UNAVAILABLE (no such memory here), DEVICE_LOST. */
gboolean tps_segment_registry_open_exported (TpsSegmentRegistry *registry, TpsSegmentUse use,
                                             gsize n_bytes, gint64 *id, gsize *size, guint8 *handle,
                                             GError **error);

/* Between the two, which nest, no answer is placed in a segment: one that is sent before the client
 * has been told of a new segment must not name it. They stand around tps_segment_registry_open()
 * and the queueing of its answer. */
void tps_segment_registry_hold_answers (TpsSegmentRegistry *registry);
void tps_segment_registry_resume_answers (TpsSegmentRegistry *registry);

/* Errors: NOT_FOUND, naming the first segment that is not there (release: that is not the client's
 * ANSWERS segment); the others are done. */
gboolean tps_segment_registry_release (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                                       GError **error);
gboolean tps_segment_registry_close (TpsSegmentRegistry *registry, const gint64 *ids, guint n_ids,
                                     GError **error);

/* For a call that came in: finds slices of REQUESTS segments. `released (user_data)` is called when
 * the last reference of it, and of every buffer that it gave out, is gone: then the slices are the
 * client's again and the answer may leave. NULL (and `released` is never called) where the
 * connection has no segments. The caller's. */
TpsSharing *tps_segment_registry_receive (TpsSegmentRegistry *registry, GDestroyNotify released,
                                          gpointer user_data);

/* For an answer: places tensors in a free ANSWERS segment. The segment is the client's when the
 * answer has been committed; without that it is free again with the last reference. NULL where no
 * segment is free. The caller's. */
TpsSharing *tps_segment_registry_answer (TpsSegmentRegistry *registry);
void tps_segment_registry_commit (TpsSharing *answer);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentCharge, tps_segment_charge_unref)
G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegmentRegistry, tps_segment_registry_unref)

G_END_DECLS

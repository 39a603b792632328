/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One segment of shared memory: a sealed memfd and a mapping of it, or memory of a device.
 * Immutable after its creation but for the bytes. Thread: any.
 */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* The numbers of thrift/memory.thrift, both. */
typedef enum
{
  TPS_SEGMENT_MEMFD = 1,
  TPS_SEGMENT_CUDA_IPC = 2, /* memory of a device, by its slots for exported memory */
} TpsSegmentKind;

#define TPS_SEGMENT_N_KINDS 3 /* of arrays by kind */

typedef enum
{
  TPS_SEGMENT_REQUESTS = 1, /* the client writes, the server reads */
  TPS_SEGMENT_ANSWERS = 2,  /* the server writes, the client reads */
} TpsSegmentUse;

typedef struct TpsSegment TpsSegment;

/* In whole pages, or what takes their place in a device; G_MAXSIZE where that overflows. */
gsize tps_segment_round_size (TpsSegmentKind kind, gsize n_bytes);

/* The server's side: makes, fills with zeros (its pages are there from now on: no SIGBUS for want
 * of memory) and seals the file, and maps it. `fd` is the caller's, to be sent and closed. Errors:
 * RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_create (TpsSegmentUse use, gsize n_bytes, gint *fd, GError **error);

/* The client's side: maps what it was sent, whose size and seals are checked first. `fd` stays the
 * caller's. Errors: INTERNAL for a file that is not as memory.thrift says, RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_open (TpsSegmentUse use, gsize n_bytes, gint fd, GError **error);

/* The server's side of memory of `device`, which has slots for that: filled with zeros. `handle`
 * [TPS_EXPORT_HANDLE_BYTES] is what the client opens it by. May block. Errors: RESOURCE_EXHAUSTED,
 * UNAVAILABLE, DEVICE_LOST. */
TpsSegment *tps_segment_create_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes,
                                         guint8 *handle, GError **error);

/* The client's side, whose device may be a peer of the server's. May block. Errors: UNAVAILABLE,
 * DEVICE_LOST. */
TpsSegment *tps_segment_open_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes,
                                       const guint8 *handle, GError **error);

TpsSegmentKind tps_segment_get_kind (const TpsSegment *segment);
TpsSegmentUse tps_segment_get_use (const TpsSegment *segment);
gsize tps_segment_get_size (const TpsSegment *segment); /* rounded */

/* Borrowed; mapped for reading only on the side that reads. Of kind CUDA_IPC an address of the
 * device. */
guint8 *tps_segment_get_data (const TpsSegment *segment);

/* Bytes [offset, offset + length) as a buffer that its peer may change at any time: shared host
 * memory, or the device's. */
TpsBuffer *tps_segment_show (const TpsSegment *segment, gsize offset, gsize length,
                             GDestroyNotify free_func, gpointer user_data);

/* Unmaps it, or closes the exported memory; the peer's mapping stays. */
void tps_segment_free (TpsSegment *segment);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegment, tps_segment_free)

G_END_DECLS

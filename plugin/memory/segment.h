/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One segment of shared memory: a sealed memfd and a mapping of it, or memory of a device.
 * Immutable after its creation, except for its bytes. Thread: any.
 */

#pragma once

#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Both enums have the numbers of thrift/memory.thrift. */
typedef enum
{
  TPS_SEGMENT_MEMFD = 1,
  TPS_SEGMENT_CUDA_IPC = 2, /* memory of a device, exported by its functions for that */
} TpsSegmentKind;

#define TPS_SEGMENT_N_KINDS 3 /* length of an array that is indexed by kind */

typedef enum
{
  TPS_SEGMENT_REQUESTS = 1, /* the client writes, the server reads */
  TPS_SEGMENT_ANSWERS = 2,  /* the server writes, the client reads */
  /* in requests only: as ANSWERS, and other connections may map the same segment */
  TPS_SEGMENT_COMMON_ANSWERS = 3,
} TpsSegmentUse;

typedef struct TpsSegment TpsSegment;

/* Rounds up to whole pages, or to the unit of a device's memory; G_MAXSIZE if that overflows. */
gsize tps_segment_round_size (TpsSegmentKind kind, gsize n_bytes);

/* The server's side: creates the file, fills it with zeros, seals and maps it. Filling allocates
 * all pages, so that later accesses cannot fail with SIGBUS. `fd` belongs to the caller and must be
 * closed after it has been sent. Errors: RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_create (TpsSegmentUse use, gsize n_bytes, gint *fd, GError **error);

/* The client's side: maps the file that it has received, after checks of its size and seals. `fd`
 * still belongs to the caller. Errors: INTERNAL for a file that violates memory.thrift,
 * RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_open (TpsSegmentUse use, gsize n_bytes, gint fd, GError **error);

/* The server's side of memory of `device`, which must be able to export it. Fills it with zeros.
 * `handle` [TPS_EXPORT_HANDLE_BYTES] lets the client open it. May block. Errors:
 * RESOURCE_EXHAUSTED, UNAVAILABLE, DEVICE_LOST. */
TpsSegment *tps_segment_create_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes,
                                         guint8 *handle, GError **error);

/* The client's side; its device may be a peer of the server's. May block. Errors: UNAVAILABLE,
 * DEVICE_LOST. */
TpsSegment *tps_segment_open_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes,
                                       const guint8 *handle, GError **error);

/* The kind, the use and the size with which the segment was created or opened. */
TpsSegmentKind tps_segment_get_kind (const TpsSegment *segment);
TpsSegmentUse tps_segment_get_use (const TpsSegment *segment);
gsize tps_segment_get_size (const TpsSegment *segment); /* rounded */

/* Borrowed; mapped read-only on the side that reads. For kind CUDA_IPC it is an address of the
 * device. */
guint8 *tps_segment_get_data (const TpsSegment *segment);

/* Bytes [offset, offset + length) as a buffer that the peer may change at any time: shared host
 * memory, or memory of the device. */
TpsBuffer *tps_segment_show (const TpsSegment *segment, gsize offset, gsize length,
                             GDestroyNotify free_func, gpointer user_data);

/* Unmaps the segment, or closes the exported memory. The peer's mapping stays. */
void tps_segment_free (TpsSegment *segment);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegment, tps_segment_free)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One segment of shared memory: a sealed memfd and a mapping of it, or memory of a device.
 * Immutable after its creation, except for its bytes. Thread: any.
 */

#pragma once

#include "plugin/frame/sharing.h"
#include "runtime/device/backend.h"

G_BEGIN_DECLS

/* Both enums use the numbers of thrift/memory.thrift. */
typedef enum
{
  TPS_SEGMENT_MEMFD = 1,
  TPS_SEGMENT_CUDA_IPC = 2, /* exported memory of a device */
} TpsSegmentKind;

#define TPS_SEGMENT_N_KINDS 3 /* length of an array that is indexed by kind */

typedef enum
{
  TPS_SEGMENT_REQUESTS = 1, /* the client writes, the server reads */
  TPS_SEGMENT_ANSWERS = 2,  /* the server writes, the client reads */
  /* only in requests to open a segment: as ANSWERS, but several connections may map the segment */
  TPS_SEGMENT_COMMON_ANSWERS = 3,
} TpsSegmentUse;

/* Read-only for users. */
typedef struct
{
  TpsSegmentUse use;
  gsize n_bytes; /* whole pages or blocks */
  /* An address of the host, mapped read-only on the side that reads, or for CUDA_IPC an address of
   * the device. */
  guint8 *data;
  TpsBuffer *exported; /* memory of a device; NULL = a mapped file */
} TpsSegment;

/* Returns `n_bytes`, rounded up to whole pages or, for CUDA_IPC, to blocks of exported memory;
 * G_MAXSIZE if the result overflows. */
gsize tps_segment_round_size (TpsSegmentKind kind, gsize n_bytes);

/* The server's side: creates a file of zeros, maps and seals it, and returns the segment, owned by
 * the caller. Allocates all pages, so later accesses cannot fail with SIGBUS. `fd`, owned by the
 * caller, must be closed after it has been sent. Errors: RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_create (TpsSegmentUse use, gsize n_bytes, gint *fd, GError **error);

/* Checks that `fd`, which tps_segment_create() returned for ANSWERS, cannot be mapped for writing.
 * On kernels before 5.1, it can. Errors: UNAVAILABLE. */
gboolean tps_segment_check_read_only (gint fd, GError **error);

/* The client's side: checks the size and the seals of the received file `fd`, maps it, and returns
 * the segment, which the caller owns. `n_bytes` must be the size of the file. The caller still owns
 * `fd`. Errors: INTERNAL if the file violates memory.thrift, RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_open (TpsSegmentUse use, gsize n_bytes, gint fd, GError **error);

/* The server's side: allocates zeroed memory of `device`, which must be able to export it, and
 * returns the segment, owned by the caller, and `handle` [TPS_EXPORT_HANDLE_BYTES], with which the
 * client opens it. May block. Errors: RESOURCE_EXHAUSTED, UNAVAILABLE, DEVICE_LOST. */
TpsSegment *tps_segment_create_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes,
                                         guint8 *handle, GError **error);

/* The client's side: opens the exported memory of `handle`, and returns the segment, which the
 * caller owns. `device` may be a different device than the server's, if it can access that device's
 * memory. May block. Errors: UNAVAILABLE, DEVICE_LOST. */
TpsSegment *tps_segment_open_exported (TpsDevice *device, TpsSegmentUse use, gsize n_bytes,
                                       const guint8 *handle, GError **error);

TpsSegmentKind tps_segment_get_kind (const TpsSegment *segment);

/* Returns TRUE if the bytes of the slice lie in the segment, at the alignment of shared tensors.
 * Errors: INVALID_ARGUMENT. */
gboolean tps_segment_check_slice (const TpsSegment *segment, const TpsSharedSlice *slice,
                                  GError **error);

/* Returns a buffer of the bytes [offset, offset + length), which the caller owns. The peer may
 * change them at any time. The segment must outlive the buffer; `free_func (user_data)` is called
 * when the buffer is freed. */
TpsBuffer *tps_segment_show (const TpsSegment *segment, gsize offset, gsize length,
                             GDestroyNotify free_func, gpointer user_data);
/* Unmaps the segment, or closes the exported memory. The peer's mapping is not affected. */
void tps_segment_free (TpsSegment *segment);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegment, tps_segment_free)

G_END_DECLS

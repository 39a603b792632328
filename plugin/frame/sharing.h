/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The interface of one message to the shared memory of its connection (thrift/memory.thrift). For
 * an outgoing message, a TpsSharing copies large tensors into shared memory, so that the message
 * carries slices; for an incoming one, it finds the bytes of slices. segment_registry.h implements
 * it for the server, segment_pool.h for the client. Without one, tensors are inline. */

#pragma once

#include "runtime/base/buffer.h"

G_BEGIN_DECLS

#define TPS_SHARING_MIN_BYTES ((gsize) 65536) /* smaller tensors travel inline */
#define TPS_SHARING_ALIGNMENT 64              /* of the offset of a slice */

/* Returns the bytes that a tensor of `n_bytes` uses in its segment, with the gap before the next
 * tensor. */
static inline gsize
tps_sharing_round (gsize n_bytes)
{
  return (n_bytes + TPS_SHARING_ALIGNMENT - 1) / TPS_SHARING_ALIGNMENT * TPS_SHARING_ALIGNMENT;
}

/* The struct SharedSlice of tensor.thrift, as received and unchecked. */
typedef struct
{
  gint64 segment;
  gint64 offset;
  gint64 length;
} TpsSharedSlice;

typedef struct TpsSharing TpsSharing;

typedef struct
{
  /* Copies `n_bytes` into memory that the peer can read, and sets `slice`. Returns FALSE if there
   * is no room now; the bytes must then travel inline. Does not block. NULL in the sharing of an
   * incoming message. */
  gboolean (*place) (TpsSharing *sharing, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice);

  /* Returns the bytes of a slice as a buffer, owned by the caller, which must not be written to and
   * which the peer may change at any time (tps_buffer_is_shared(), or on a device). Errors:
   * INVALID_ARGUMENT (no such segment; outside it; not aligned). NULL in the sharing of an outgoing
   * message. Thread: any. */
  TpsBuffer *(*resolve) (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error);

  /* Take and release a reference. Thread: any. */
  void (*ref) (TpsSharing *sharing);
  void (*unref) (TpsSharing *sharing);

  /* Optional: returns the pool from which copies of slices must be allocated, borrowed. NULL = the
   * default pool. Thread: any. */
  TpsBufferPool *(*get_pool) (TpsSharing *sharing);

  /* Optional: as `place`, for bytes in memory of `device`, which are copied within the device.
   * Waits for the copy. Returns FALSE if the caller must copy the bytes to the host instead. */
  gboolean (*place_device) (TpsSharing *sharing, TpsDevice *device, gconstpointer data,
                            gsize n_bytes, TpsSharedSlice *slice);

  /* Optional: as `place`, for bytes of `buffer`. The function may keep a reference to the buffer
   * instead of copying the bytes. */
  gboolean (*place_buffer) (TpsSharing *sharing, TpsBuffer *buffer, gsize offset, gsize n_bytes,
                            TpsSharedSlice *slice);
} TpsSharingOps;

/* The base of implementations, which embed it as their first member. */
struct TpsSharing
{
  const TpsSharingOps *ops;
};

/* Releases a reference. Thread: any. */
static inline void
tps_sharing_unref (TpsSharing *sharing)
{
  sharing->ops->unref (sharing);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSharing, tps_sharing_unref)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What a message knows of memory that both sides of its connection map (thrift/memory.thrift).
 *
 * One TpsSharing belongs to one message. Of a message that goes out it is the place where large
 * tensors are copied to, so that the message carries slices instead of bytes; of a message that
 * came in it finds the bytes of slices. Who makes them: plugin/memory/segment_registry.h on the
 * server's side, plugin/memory/segment_pool.h on the client's. A message without a TpsSharing
 * carries its tensors inline.
 */

#pragma once

#include "runtime/base/buffer.h"

G_BEGIN_DECLS

#define TPS_SHARING_MIN_BYTES ((gsize) 65536) /* smaller tensors travel inline */
#define TPS_SHARING_ALIGNMENT 64              /* of a slice's offset */

/* What a tensor of `n_bytes` takes of its segment, with the gap before the next one. */
static inline gsize
tps_sharing_round (gsize n_bytes)
{
  return (n_bytes + TPS_SHARING_ALIGNMENT - 1) / TPS_SHARING_ALIGNMENT * TPS_SHARING_ALIGNMENT;
}

/* The struct SharedSlice of tensor.thrift, as received: nothing about it has been checked. */
typedef struct
{
  gint64 segment;
  gint64 offset;
  gint64 length;
} TpsSharedSlice;

typedef struct TpsSharing TpsSharing;

typedef struct
{
  /* Copies `n_bytes` into memory that the peer sees and sets `slice`. FALSE: there is no room now,
   * the bytes are to travel inline. NULL: a message that came in. Does not block. */
  gboolean (*place) (TpsSharing *sharing, gconstpointer data, gsize n_bytes, TpsSharedSlice *slice);

  /* The bytes of a slice, as a buffer that nobody may write to and whose contents the peer may
   * change at any time (tps_buffer_is_shared(), or tps_buffer_get_device() is the device whose
   * memory it is); the caller's. NULL with INVALID_ARGUMENT: no such segment, or beyond its end, or
   * not aligned. NULL: a message that goes out. Thread: any. */
  TpsBuffer *(*resolve) (TpsSharing *sharing, const TpsSharedSlice *slice, GError **error);

  /* Thread: any. */
  void (*ref) (TpsSharing *sharing);
  void (*unref) (TpsSharing *sharing);

  /* Optional: where copies of slices come from, so that they are counted; borrowed. NULL: the
   * default pool. Thread: any. */
  TpsBufferPool *(*get_pool) (TpsSharing *sharing);

  /* Optional: as place, of bytes in memory of `device`, which stay there; waits for the copy.
   * FALSE: they are to travel by way of the host. */
  gboolean (*place_device) (TpsSharing *sharing, TpsDevice *device, gconstpointer data,
                            gsize n_bytes, TpsSharedSlice *slice);
} TpsSharingOps;

/* Implementations embed this as their first member. */
struct TpsSharing
{
  const TpsSharingOps *ops;
};

static inline TpsSharing *
tps_sharing_ref (TpsSharing *sharing)
{
  sharing->ops->ref (sharing);
  return sharing;
}

static inline void
tps_sharing_unref (TpsSharing *sharing)
{
  sharing->ops->unref (sharing);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSharing, tps_sharing_unref)

G_END_DECLS

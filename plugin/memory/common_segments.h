/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Common segments: memory of a server that several connections map, for tensors that many clients
 * receive. Such a tensor is written once, and all of them read it in place.
 *
 * tps_common_segments_alloc() is the source of a buffer pool, so each segment holds one buffer at a
 * time, and is used again after its last reference; a connection keeps one while its client reads.
 * A client that has mapped a segment can read all its later contents: not for clients with
 * different rights. Both types are reference-counted. Thread: any. */

#pragma once

#include "plugin/memory/segment.h"
#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef struct TpsCommonSegments TpsCommonSegments;

/* Read-only for users. */
typedef struct
{
  TpsRefcount refcount;
  TpsCommonSegments *owner; /* a reference */
  guint64 number;
  TpsSegment *segment;
  gint fd;
} TpsCommonSegment;

/* Creates an object without segments, and takes and releases references. The caller of new() owns a
 * reference. */
TpsCommonSegments *tps_common_segments_new (void);
TpsCommonSegments *tps_common_segments_ref (TpsCommonSegments *self);
void tps_common_segments_unref (TpsCommonSegments *self);

/* Implements TpsBufferSource.alloc; `self` is the TpsCommonSegments. Creates a segment with a
 * buffer of `n_bytes`, owned by the caller, of the size that a client requests for a reply with one
 * such tensor: a power of two, 1 MiB or more (`powers_of_two`). Errors: RESOURCE_EXHAUSTED. */
TpsBuffer *tps_common_segments_alloc (gpointer self, gsize n_bytes, GError **error);

/* Returns TRUE if there is a segment; a snapshot. */
gboolean tps_common_segments_has_any (TpsCommonSegments *self);

/* Returns a reference to the segment that contains the bytes; NULL: there is none. */
TpsCommonSegment *tps_common_segments_find (TpsCommonSegments *self, gconstpointer data,
                                            gsize n_bytes);

/* Returns the segment with this number; the caller owns a reference. Returns NULL if the buffer of
 * the segment has been freed. */
TpsCommonSegment *tps_common_segments_find_number (TpsCommonSegments *self, guint64 number);

/* Take and release a reference. The last one unmaps the segment. */
TpsCommonSegment *tps_common_segment_ref (TpsCommonSegment *segment);
void tps_common_segment_unref (TpsCommonSegment *segment);

/* Returns a new descriptor, owned by the caller; -1 on error. Errors: RESOURCE_EXHAUSTED. */
gint tps_common_segment_dup_descriptor (const TpsCommonSegment *segment, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsCommonSegment, tps_common_segment_unref)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One segment of shared memory: a sealed memfd and a mapping of it. Immutable after its creation but for the bytes.
 * Thread: any.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The numbers of thrift/memory.thrift. */
typedef enum
{
  TPS_SEGMENT_REQUESTS = 1, /* the client writes, the server reads */
  TPS_SEGMENT_ANSWERS = 2,  /* the server writes, the client reads */
} TpsSegmentUse;

typedef struct TpsSegment TpsSegment;

/* In whole pages; G_MAXSIZE where that overflows. */
gsize tps_segment_round_size (gsize n_bytes);

/* The server's side: makes, fills with zeros (its pages are there from now on: no SIGBUS for want of memory) and seals the
 * file, and maps it. `fd` is the caller's, to be sent and closed. Errors: RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_create (TpsSegmentUse use, gsize n_bytes, gint *fd, GError **error);

/* The client's side: maps what it was sent, whose size and seals are checked first. `fd` stays the caller's. Errors:
 * INTERNAL for a file that is not as memory.thrift says, RESOURCE_EXHAUSTED. */
TpsSegment *tps_segment_open (TpsSegmentUse use, gsize n_bytes, gint fd, GError **error);

TpsSegmentUse tps_segment_get_use (const TpsSegment *segment);
gsize tps_segment_get_size (const TpsSegment *segment); /* whole pages */

/* Borrowed; mapped for reading only on the side that reads. */
guint8 *tps_segment_get_data (const TpsSegment *segment);

TpsSegment *tps_segment_ref (TpsSegment *segment);
void tps_segment_unref (TpsSegment *segment);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsSegment, tps_segment_unref)

G_END_DECLS

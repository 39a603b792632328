/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Finds the tensors of a reply without its type. The reply may never be decoded, because it came
 * too late or without a request. */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct
{
  gboolean has_slice;
  TpsSharedSlice slice; /* the first one */
  gsize n_shared_room;  /* bytes that the slices occupy in a segment, each rounded up */
  /* Inline tensors that are large enough for shared memory. */
  guint n_inline;
  gsize n_inline_bytes;
  gsize n_inline_room; /* their bytes in a segment */
} TpsSliceSearch;

/* Fills in `found`. A SharedSlice has exactly the i64 fields 1, 2 and 3; an inline Tensor an i32 as
 * field 1, a list as 2 and a binary as 3; no other structs of the contract have these fields.
 * Unless `wants_all`, the search may end at the first slice. Thread: any. */
void tps_slice_search (const TpsMessage *message, gboolean wants_all, TpsSliceSearch *found);

G_END_DECLS

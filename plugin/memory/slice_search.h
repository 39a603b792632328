/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Finds the tensors of a reply of unknown type, or of a reply that is never decoded: one that came
 * too late, or without a request. */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct
{
  gboolean has_slice;
  TpsSharedSlice slice; /* the first one */
  gsize n_shared_room;  /* bytes that these slices occupy in a segment, each rounded up */
  /* Tensors that could have been shared; not counted if no binary is large enough. */
  guint n_inline;
  gsize n_inline_bytes;
  gsize n_inline_room; /* their bytes in a segment */
} TpsSliceSearch;

/* Identifies structs by their fields: a SharedSlice has exactly the i64 fields 1, 2 and 3; an
 * inline Tensor has a number as field 1, a list as field 2 and a binary as field 3. The contract
 * has no other such structs. The search may end with the first slice, unless `wants_all`. Thread:
 * any. */
void tps_slice_search (const TpsMessage *message, gboolean wants_all, TpsSliceSearch *found);

G_END_DECLS

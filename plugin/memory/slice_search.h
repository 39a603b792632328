/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Finds the tensors of an answer whose type nobody knows, or looks at: one that came too late, or
 * was not asked for. */

#pragma once

#include "plugin/frame/message.h"

G_BEGIN_DECLS

typedef struct
{
  gboolean has_slice;
  TpsSharedSlice slice; /* the first one */
  /* tensors that could have been shared; none are counted where no binary is that large */
  guint n_inline;
  gsize n_inline_bytes;
  gsize n_inline_room; /* what they would take of a segment */
} TpsSliceSearch;

/* A SharedSlice is a struct with exactly the i64 fields 1, 2 and 3; an inline Tensor one with a
 * number 1, a list 2 and a binary 3. Nothing else of the contract looks like that. Thread: any. */
void tps_slice_search (const TpsMessage *message, TpsSliceSearch *found);

G_END_DECLS

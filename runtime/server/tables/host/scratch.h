/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Temporary memory of one call, whose size a peer can influence. After as many reserve() as are
 * needed, provide() charges and allocates all of it or fails; at() then returns the parts. Thread:
 * one at a time. */

#pragma once

#include "runtime/base/buffer.h"

/* Scratch of up to this size is part of the struct, so that small calls need no separate memory. */
#define TPS_SCRATCH_INLINE_BYTES 1024

typedef struct
{
  gsize n_bytes; /* reserved; G_MAXSIZE = an overflow */
  guint8 *memory;
  TpsBuffer *buffer; /* holds the memory; NULL = `within` does */
  /* The memory in it is aligned by hand, so that the struct may lie in any memory. */
  guint8 within[TPS_SCRATCH_INLINE_BYTES + TPS_BUFFER_ALIGNMENT - 1];
} TpsScratch;

/* Initialises empty scratch, but not `within`. clear() releases the memory. */
void tps_scratch_init (TpsScratch *scratch);
void tps_scratch_clear (TpsScratch *scratch);

/* Reserves `n_elements` of `n_bytes`; returns their offset, aligned to TPS_BUFFER_ALIGNMENT. */
gsize tps_scratch_reserve (TpsScratch *scratch, gsize n_elements, gsize n_bytes);

/* Provides the reserved memory, from `pool` unless it is small; its contents are undefined. `what`
 * names the call in messages. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_scratch_provide (TpsScratch *scratch, TpsBufferPool *pool, const gchar *what,
                              GError **error);

static inline gpointer
tps_scratch_at (const TpsScratch *scratch, gsize place)
{
  return scratch->memory + place;
}

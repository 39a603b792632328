/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Temporary memory of one call, whose size a peer can influence. It is charged before it is
 * allocated; all of it is provided at once, or refused.
 *
 *   gsize ids = tps_scratch_reserve (&scratch, n, sizeof (gint64));      as many as are needed
 *   if (!tps_scratch_provide (&scratch, pool, "table users", error))
 *     return FALSE;
 *   gint64 *slots = tps_scratch_at (&scratch, ids);
 *   tps_scratch_clear (&scratch);
 *
 * Thread: one at a time.
 */

#pragma once

#include "runtime/base/buffer.h"

G_BEGIN_DECLS

/* Small calls need no separate memory. */
#define TPS_SCRATCH_INLINE_BYTES 1024

typedef struct
{
  gsize n_bytes; /* reserved; G_MAXSIZE: an overflow */
  guint8 *memory;
  TpsBuffer *buffer; /* NULL: `within` holds it */
  /* Aligned by hand, so that the struct may lie in any memory. */
  guint8 within[TPS_SCRATCH_INLINE_BYTES + TPS_BUFFER_ALIGNMENT - 1];
} TpsScratch;

/* `within` is not initialised. */
void tps_scratch_init (TpsScratch *scratch);
void tps_scratch_clear (TpsScratch *scratch);

/* The offset of `n_elements` of `n_bytes` each, aligned as a buffer. */
gsize tps_scratch_reserve (TpsScratch *scratch, gsize n_elements, gsize n_bytes);

/* Allocates the reserved memory from `pool`; its contents are undefined. `what` names the call in
 * messages. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_scratch_provide (TpsScratch *scratch, TpsBufferPool *pool, const gchar *what,
                              GError **error);

static inline gpointer
tps_scratch_at (const TpsScratch *scratch, gsize place)
{
  return scratch->memory + place;
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsScratch, tps_scratch_clear)

G_END_DECLS

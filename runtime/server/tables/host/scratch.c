/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/scratch.h"

void
tps_scratch_init (TpsScratch *scratch)
{
  scratch->n_bytes = 0;
  /* The first aligned address in `within`. */
  scratch->memory = scratch->within + -(gsize) scratch->within % TPS_BUFFER_ALIGNMENT;
  scratch->buffer = NULL;
}

void
tps_scratch_clear (TpsScratch *scratch)
{
  g_clear_pointer (&scratch->buffer, tps_buffer_unref);
}

gsize
tps_scratch_reserve (TpsScratch *scratch, gsize n_elements, gsize n_bytes)
{
  gsize begin = scratch->n_bytes;
  gsize size;

  if (__builtin_mul_overflow (n_elements, n_bytes, &size)
      || __builtin_add_overflow (size, TPS_BUFFER_ALIGNMENT - 1, &size)
      || __builtin_add_overflow (begin, size / TPS_BUFFER_ALIGNMENT * TPS_BUFFER_ALIGNMENT,
                                 &scratch->n_bytes))
    scratch->n_bytes = G_MAXSIZE;
  return begin;
}

gboolean
tps_scratch_provide (TpsScratch *scratch, TpsBufferPool *pool, const gchar *what, GError **error)
{
  if (scratch->n_bytes <= TPS_SCRATCH_INLINE_BYTES)
    return TRUE;
  scratch->buffer = tps_buffer_pool_get (pool, scratch->n_bytes, error);
  if (scratch->buffer == NULL)
    {
      g_prefix_error (error, "%s: ", what);
      return FALSE;
    }
  scratch->memory = tps_buffer_get_data (scratch->buffer);
  return TRUE;
}

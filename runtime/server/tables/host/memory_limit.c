/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/tables/host/memory_limit.h"

#include "runtime/base/error.h"

void
tps_memory_limit_init (TpsMemoryLimit *limit, gsize max_bytes)
{
  limit->max_bytes = max_bytes;
  atomic_init (&limit->held_bytes, 0);
}

gboolean
tps_memory_limit_reserve (TpsMemoryLimit *limit, const gchar *table, gsize n_bytes, GError **error)
{
  gsize held = atomic_load (&limit->held_bytes);

  while (n_bytes <= limit->max_bytes && held <= limit->max_bytes - n_bytes)
    if (atomic_compare_exchange_weak (&limit->held_bytes, &held, held + n_bytes))
      return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_RESOURCE_EXHAUSTED,
               "table %s needs %" G_GSIZE_FORMAT " bytes, but tables hold %" G_GSIZE_FORMAT
               " of at most %" G_GSIZE_FORMAT " bytes",
               table, n_bytes, held, limit->max_bytes);
  return FALSE;
}

void
tps_memory_limit_release (TpsMemoryLimit *limit, gsize n_bytes)
{
  atomic_fetch_sub (&limit->held_bytes, n_bytes);
}

gsize
tps_memory_limit_get_held (TpsMemoryLimit *limit)
{
  return atomic_load (&limit->held_bytes);
}

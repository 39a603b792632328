/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* How much memory the tables of a process may take together; counted before it is taken. */

#pragma once

#include <glib.h>

#include "runtime/base/sync.h"

G_BEGIN_DECLS

typedef struct
{
  gsize max_bytes;
  atomic_size_t held_bytes;
} TpsMemoryLimit;

void tps_memory_limit_init (TpsMemoryLimit *limit, gsize max_bytes);

/* Errors: TPS_ERROR_RESOURCE_EXHAUSTED naming the table, what it needs, what is held and the bound. Thread: any. */
gboolean tps_memory_limit_reserve (TpsMemoryLimit *limit, const gchar *table, gsize n_bytes,
                                   GError **error);
void tps_memory_limit_release (TpsMemoryLimit *limit, gsize n_bytes);
gsize tps_memory_limit_get_held (TpsMemoryLimit *limit);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory that both ends of a raw connection map: one half for requests, one for replies. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A mapping. */
typedef struct
{
  guint8 *requests; /* NULL = no mapping */
  guint8 *answers;
  gsize n_bytes; /* size of each half */
} TpsTransferSharedMemory;

/* Creates the memory and sends its descriptor, with a byte, to `fd`. Returns FALSE on failure. */
gboolean tps_transfer_shared_memory_offer (TpsTransferSharedMemory *memory, gsize n_bytes, gint fd);

/* Receives and maps the memory of `n_bytes` from the other end. Returns FALSE on failure. */
gboolean tps_transfer_shared_memory_accept (TpsTransferSharedMemory *memory, gsize n_bytes,
                                            gint fd);
/* Unmaps the memory. */
void tps_transfer_shared_memory_clear (TpsTransferSharedMemory *memory);

G_END_DECLS

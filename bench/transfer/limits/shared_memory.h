/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Memory that the two ends of a raw connection map: a half for requests, a half for answers, of the
 * same size. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint8 *requests; /* NULL: none */
  guint8 *answers;
  gsize n_bytes; /* of each half */
} TpsTransferSharedMemory;

/* Makes it and sends it with one byte through `fd`, a Unix socket. FALSE: it could not. */
gboolean tps_transfer_shared_memory_offer (TpsTransferSharedMemory *memory, gsize n_bytes, gint fd);

/* Receives the offer of the other end, of the same `n_bytes`. */
gboolean tps_transfer_shared_memory_accept (TpsTransferSharedMemory *memory, gsize n_bytes,
                                            gint fd);

void tps_transfer_shared_memory_clear (TpsTransferSharedMemory *memory);

G_END_DECLS

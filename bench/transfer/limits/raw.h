/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits that sockets and shared memory set: the least that two processes have to do to move
 * the same bytes. A server process and a load generator each, as in bench/transfer/ours.h; blocking
 * sockets, a thread a connection.
 *
 * A request is a TpsTransferRawHead. On a plain socket the bytes of a push or an echo follow it,
 * and the answer is the bytes of a pull or an echo, one byte for a push. With shared memory (Unix
 * sockets) the sender copies the bytes to memory that both sides map, and wakes the receiver: the
 * head in one direction, one byte in the other. The receiver reads the bytes in place.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct
{
  guint64 op; /* TpsTransferOp */
  guint64 n_bytes;
  guint64 offset; /* in shared memory */
} TpsTransferRawHead;

gint tps_transfer_serve_raw (const gchar *address, gsize max_bytes);
gint tps_transfer_load_raw (const gchar *address, gsize max_bytes);

gint tps_transfer_serve_raw_shared (const gchar *address, gsize max_bytes);
gint tps_transfer_load_raw_shared (const gchar *address, gsize max_bytes);

/* One thread's memcpy of the same sizes; an echo is two. There is no server. */
gint tps_transfer_load_memcpy (const gchar *address, gsize max_bytes);

G_END_DECLS

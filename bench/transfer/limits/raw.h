/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits of sockets and shared memory: the minimum of work with which two processes can move
 * the same bytes. As in bench/transfer/ours.h, there are a server process and a load generator.
 * They use blocking sockets, and a thread for each connection.
 *
 * A request is a TpsTransferRawHead. On a plain socket, the bytes of a push or an echo follow. The
 * reply is the bytes of a pull or an echo, or one byte for a push. With shared memory (on Unix
 * sockets), the sender copies the bytes to memory that both processes map. It then wakes the
 * receiver with the head, or with one byte as the reply. The receiver reads the bytes in place. */

#pragma once

#include <glib.h>

/* The head of a request. */
typedef struct
{
  guint64 op; /* TpsTransferOp */
  guint64 n_bytes;
  guint64 offset; /* in shared memory */
} TpsTransferRawHead;

/* Run a server or a load generator with sockets. `max_bytes` is the maximum of bytes in flight on a
 * connection. Return the exit status. Block. */
gint tps_transfer_serve_raw (const gchar *address, gsize max_bytes, const gchar *certificate);
gint tps_transfer_load_raw (const gchar *address, gsize max_bytes, const gchar *certificate);

/* The same with shared memory. */
gint tps_transfer_serve_raw_shared (const gchar *address, gsize max_bytes,
                                    const gchar *certificate);
gint tps_transfer_load_raw_shared (const gchar *address, gsize max_bytes, const gchar *certificate);

/* Runs a load generator without a server: one thread that copies the same sizes with memcpy(),
 * twice for an echo. Returns the exit status. Blocks. */
gint tps_transfer_load_memcpy (const gchar *address, gsize max_bytes, const gchar *certificate);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* ThriftPS in the transfer benchmark: a server process and a load generator. Both return the exit
 * status.
 *
 * The server offers Node, and the service Transfer of bench/peers/transfer.thrift with the Tensor
 * of thrift/tensor.thrift; it listens at `address`, prints "listening on ADDRESS" and ends with its
 * standard input. To the load generator rows come on standard input, their times go to standard
 * output (row.h). `max_bytes`: of all that is in flight on a connection.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

gint tps_transfer_serve_ours (const gchar *address, gsize max_bytes);

/* The same, but frames of 32 MiB are the largest it takes: larger requests come in chunks. */
gint tps_transfer_serve_ours_chunked (const gchar *address, gsize max_bytes);

/* TpsClients that share no memory. The callback of a call starts the next one. */
gint tps_transfer_load_ours (const gchar *address, gsize max_bytes);

/* Both over TLS: every client checks the server's certificate, which stands with its key in the
 * file `certificate` and has issued itself. */
gint tps_transfer_serve_ours_tls (const gchar *address, gsize max_bytes, const gchar *certificate);
gint tps_transfer_load_ours_tls (const gchar *address, gsize max_bytes, const gchar *certificate);

/* The same through shared memory: a row is not right where large tensors still go through the
 * socket. */
gint tps_transfer_load_ours_shared (const gchar *address, gsize max_bytes);

G_END_DECLS

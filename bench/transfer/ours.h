/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* ThriftPS in the transfer benchmark: a server process and a load generator. All functions return
 * the exit status, and block until the end of the standard input.
 *
 * The server has the service Node, and the service Transfer of bench/peers/thrift/transfer.thrift
 * with the Tensor of thrift/tensor.thrift. It listens on `address` and prints "listening on
 * ADDRESS". The load generator reads rows from its standard input and writes their times to its
 * standard output (row.h). `max_bytes` is the maximum of bytes in flight on a connection. */

#pragma once

#include <glib.h>

/* Runs the server, also with TLS: `certificate` has a self-signed certificate and its key. */
gint tps_transfer_serve_ours (const gchar *address, gsize max_bytes, const gchar *certificate);
gint tps_transfer_serve_ours_tls (const gchar *address, gsize max_bytes, const gchar *certificate);

/* Runs the load generator with clients that do not share memory; with clients that do, where the
 * check of a row fails if large tensors still go through the socket; or over TLS, where clients
 * check the server against `certificate`. The callback of a call starts the next call. */
gint tps_transfer_load_ours (const gchar *address, gsize max_bytes, const gchar *certificate);
gint tps_transfer_load_ours_shared (const gchar *address, gsize max_bytes,
                                    const gchar *certificate);
gint tps_transfer_load_ours_tls (const gchar *address, gsize max_bytes, const gchar *certificate);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The servers that the transfer benchmark talks to, each a process: it listens at `address`, prints "listening on ADDRESS"
 * and ends with its standard input. They return the exit status.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Ours: Node, and the service Transfer of bench/peers/transfer.thrift. */
gint tps_transfer_serve_ours (const gchar *address);

/* The limit: blocking sockets, a thread a connection. A request is 16 bytes in the machine's order (guint64 operation, guint64
 * bytes) and the bytes of a push or echo; the answer the bytes of a pull or echo, one byte for a push. */
gint tps_transfer_serve_raw (const gchar *address);

G_END_DECLS

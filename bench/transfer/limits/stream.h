/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Blocking stream sockets, as plain as possible: the raw socket is the limit of the comparison.
 * Addresses are "127.0.0.1:PORT" (TCP with TCP_NODELAY) and "unix:/path". */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A listening socket, or -1. Port 0: the kernel picks one. `bound` gets the address to connect to;
 * owned by the caller. */
gint tps_stream_listen (const gchar *address, gchar **bound, GError **error);

/* The next connection, or -1. */
gint tps_stream_accept (gint listener);

/* Or -1 with TPS_ERROR_CONNECTION_LOST. */
gint tps_stream_connect (const gchar *address, GError **error);

/* FALSE when the connection ends first. */
gboolean tps_stream_send_all (gint fd, gconstpointer data, gsize n_bytes);
gboolean tps_stream_receive_all (gint fd, gpointer data, gsize n_bytes);

G_END_DECLS

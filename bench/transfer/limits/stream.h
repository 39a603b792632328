/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Blocking stream sockets, as simple as possible, for the limits of the comparison. Addresses are
 * "127.0.0.1:PORT" (TCP with TCP_NODELAY) and "unix:/path". */

#pragma once

#include <glib.h>

/* Returns a listening socket; -1 with the error CONNECTION_LOST. With port 0, the kernel chooses a
 * port. `*bound` receives the address for clients, owned by the caller. */
gint tps_stream_listen (const gchar *address, gchar **bound, GError **error);

/* Returns the next connection; -1 on failure. Blocks. */
gint tps_stream_accept (gint listener);

/* Returns a connection; -1 with the error CONNECTION_LOST. Blocks. */
gint tps_stream_connect (const gchar *address, GError **error);

/* Send or receive `n_bytes`. Return FALSE if the connection ends earlier. Block. */
gboolean tps_stream_send_all (gint fd, gconstpointer data, gsize n_bytes);
gboolean tps_stream_receive_all (gint fd, gpointer data, gsize n_bytes);

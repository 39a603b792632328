/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Blocking TCP on loopback with TCP_NODELAY: what a raw socket does, as the limit to compare
 * with. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* A listening socket on a port that the kernel picks, or -1. */
gint tps_tcp_listen (guint16 *port, GError **error);

/* The next connection, or -1. */
gint tps_tcp_accept (gint listener);

/* Or -1 with TPS_ERROR_CONNECTION_LOST. */
gint tps_tcp_connect (guint16 port, GError **error);

/* FALSE when the connection ends first. */
gboolean tps_tcp_send_all (gint fd, gconstpointer data, gsize n_bytes);
gboolean tps_tcp_receive_all (gint fd, gpointer data, gsize n_bytes);

G_END_DECLS

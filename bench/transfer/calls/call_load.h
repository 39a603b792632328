/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Small calls of several clients, as fast as possible: the same load for every server under test.
 * Each client is a thread with a blocking socket and one call in flight. The call is
 * Node.clear_metrics, framed, with the binary protocol: 30 bytes in each direction. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_CALL_LOAD_N_CLIENTS 8 /* number of clients in all figures */

/* Runs the load for `seconds`. Returns the calls per second of all clients together; negative with
 * an error: a client cannot connect, or a reply is wrong. Blocks. */
gdouble tps_call_load_run (const gchar *address, guint n_clients, gdouble seconds, GError **error);

/* Makes one call on the connection `fd`. Returns FALSE if there is no reply or a wrong one.
 * Blocks. */
gboolean tps_call_load_call (gint fd);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Small calls as fast as several clients can make them, each a thread with a blocking socket and
 * one call in flight: the same load for every server under test. The call is Node.clear_metrics,
 * framed, binary protocol: 30 bytes each way.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

#define TPS_CALL_LOAD_N_CLIENTS 8 /* in all figures */

/* Calls a second of all clients together, over `seconds`. Negative when a client could not connect
 * or got a wrong answer; `error` says which. */
gdouble tps_call_load_run (const gchar *address, guint n_clients, gdouble seconds, GError **error);

/* One call. FALSE: no answer, or a wrong one. */
gboolean tps_call_load_call (gint fd);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The load generators of the transfer benchmark, each a process: rows come on standard input, their times go to standard
 * output (row.h). Answers are checked. They return the exit status.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* TpsClients; what follows a call is started from its callback. */
gint tps_transfer_load_ours (const gchar *address);

/* Blocking sockets, a thread a connection; calls in flight only where one side sends little (not echo). */
gint tps_transfer_load_raw (const gchar *address);

G_END_DECLS

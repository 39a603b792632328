/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Small calls: of some clients, and beside many idle connections. */

#pragma once

#include <glib.h>

#include "bench/process/child.h"

G_BEGIN_DECLS

/* -- call load -- */

/* Small calls of several clients, as fast as possible: the same load for every server under test.
 * Each client is a thread with a blocking socket and one call in flight. The call is
 * Node.clear_metrics, framed, with the binary protocol: 30 bytes in each direction. */

#define TPS_CALL_LOAD_N_CLIENTS 8 /* number of clients in all figures */

/* Runs the load for `seconds`. Returns the calls per second of all clients together; negative with
 * an error: a client cannot connect, or a reply is wrong. Blocks. */
gdouble tps_call_load_run (const gchar *address, guint n_clients, gdouble seconds, GError **error);

/* Makes one call on the connection `fd`. Returns FALSE without the right reply. Blocks. */
gboolean tps_call_load_call (gint fd);

/* -- idle -- */

/* Small calls of some clients while many other connections are idle, alternating with the same
 * calls alone. The idle connections belong to a child process. Each of them has made one call, so
 * the server is known to serve it. */

/* The results of the rounds, and the state of a measurement. */
typedef struct
{
  guint n_idle;
  GArray *alone;  /* of gdouble, the calls per second of each round without idle connections */
  GArray *beside; /* the same with the idle connections */
  gdouble bytes;  /* memory of the server for the idle connections, the maximum of all rounds */

  /* The state of a measurement. */
  TpsChild *child;
  const TpsChild *server;
  const gchar *address;
  gdouble seconds;
} TpsTransferIdle;

#define TPS_TRANSFER_IDLE_CONNECT_S 0.0002 /* the approximate time to open and close a connection */

/* tps_transfer_idle_init() initialises the results for `n_idle` idle connections, and
 * tps_transfer_idle_clear() frees them. */
void tps_transfer_idle_init (TpsTransferIdle *idle, guint n_idle);
void tps_transfer_idle_clear (TpsTransferIdle *idle);

/* Starts the child, which is this program with --load=idle. `server` listens on `address`. Both are
 * borrowed until tps_transfer_idle_stop(), which closes the child's pipes. Errors: UNAVAILABLE. */
gboolean tps_transfer_idle_start (TpsTransferIdle *idle, TpsSupervisor *supervisor,
                                  const TpsChild *server, const gchar *address, gdouble seconds,
                                  GError **error);
void tps_transfer_idle_stop (TpsTransferIdle *idle);

/* Measure a round of `seconds`, without and with the idle connections. Block. Errors: those of the
 * child or of a client; ABORTED after an interrupt. */
gboolean tps_transfer_idle_measure_alone (TpsTransferIdle *idle, GError **error);
gboolean tps_transfer_idle_measure_beside (TpsTransferIdle *idle, GError **error);

/* Runs the child: reads "open N" and "close" from the standard input, and replies "ok" or "error
 * TEXT". Returns the exit status. Blocks. */
gint tps_transfer_load_idle (const gchar *address, gsize max_bytes, const gchar *certificate);

G_END_DECLS

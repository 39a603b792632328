/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The listening sockets of a server. Accepts connections on the first event loop and assigns them
 * to all loops in turn. Inside plugin/server only. */

#pragma once

#include "plugin/server/session.h"

typedef struct TpsAcceptor TpsAcceptor;

/* Creates an acceptor without sockets, owned by the caller. */
TpsAcceptor *tps_acceptor_new (void);

/* Frees the acceptor and closes all sockets that are still open. The acceptor must have been
 * stopped, or never started. */
void tps_acceptor_free (TpsAcceptor *acceptor);

/* Opens one more socket, at the address `text`. Clients may connect at once and are served after
 * the start. Errors: those of tps_address_listen(). Must be called before the start. */
gboolean tps_acceptor_listen (TpsAcceptor *acceptor, const gchar *text, GError **error);

/* As tps_acceptor_listen(), but with a socket that a different process has opened. Takes over `fd`;
 * after an error, `fd` still belongs to the caller. Errors: those of tps_passed_socket_prepare().
 * Must be called before the start. */
gboolean tps_acceptor_take_socket (TpsAcceptor *acceptor, gint fd, GError **error);

/* Returns the addresses as clients should write them, in the order in which the sockets were added;
 * ended by NULL, borrowed. */
const gchar *const *tps_acceptor_get_addresses (TpsAcceptor *acceptor);

/* Starts to accept connections. `io`, [n_io] with n_io > 0, is borrowed until the stop. Errors:
 * RESOURCE_EXHAUSTED (see tps_loop_add_watch()); no connection is then accepted. Must not be called
 * on a loop. */
gboolean tps_acceptor_start (TpsAcceptor *acceptor, TpsIoThread *io, guint n_io, GError **error);

/* Stops accepting connections and closes all sockets: no session begins after this call. Removes
 * the files of Unix sockets that tps_acceptor_listen() created. Must not be called on a loop. */
void tps_acceptor_stop (TpsAcceptor *acceptor);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The listening sockets of a server: accepts on the first loop, deals connections round-robin.
 * Inside plugin/server only. */

#pragma once

#include "plugin/server/session.h"

G_BEGIN_DECLS

typedef struct TpsAcceptor TpsAcceptor;

TpsAcceptor *tps_acceptor_new (void);

/* Stopped, or never started. Closes what is still open. */
void tps_acceptor_free (TpsAcceptor *acceptor);

/* Opens one more socket; clients may already connect, and are served when the acceptor starts.
 * Errors: those of tps_address_listen(). Before start. */
gboolean tps_acceptor_listen (TpsAcceptor *acceptor, const gchar *text, GError **error);

/* The same with a socket that another process has opened; takes over `fd`, which stays the caller's
 * after an error. Errors: those of tps_passed_socket_prepare(). Before start. */
gboolean tps_acceptor_take_socket (TpsAcceptor *acceptor, gint fd, GError **error);

/* As clients should write them, in the order of listen; ended by NULL, borrowed. */
const gchar *const *tps_acceptor_get_addresses (TpsAcceptor *acceptor);

/* `io` (borrowed until stop) has at least one. Errors: RESOURCE_EXHAUSTED (see
 * tps_loop_add_watch()); nothing is accepted then. Not from a loop. */
gboolean tps_acceptor_start (TpsAcceptor *acceptor, TpsIoThread *io, guint n_io, GError **error);

/* When this returns no further session begins; Unix sockets are gone from the file system. Not from
 * a loop. */
void tps_acceptor_stop (TpsAcceptor *acceptor);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sockets that another process has opened and handed to this one: systemd's socket activation. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Checks that `fd` is a stream socket that listens, TCP or Unix, and makes it what
 * tps_address_listen() returns: non-blocking, closed on exec, without descriptors from peers.
 * `address`, owned by the caller, gets the address as clients should write it ("unix:@NAME" for an
 * abstract socket). Errors: INVALID_ARGUMENT; `fd` stays the caller's. Thread: any. */
gboolean tps_passed_socket_prepare (gint fd, gchar **address, GError **error);

G_END_DECLS

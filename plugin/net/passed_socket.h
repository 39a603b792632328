/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Sockets that another process opened and passed to this one: systemd's socket activation. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Prepares `fd`, which must be a listening stream socket, TCP or Unix, as tps_address_listen()
 * does: non-blocking, close-on-exec, without descriptors from peers. `address`, owned by the
 * caller, becomes the address for clients ("unix:@NAME" for an abstract socket). The caller still
 * owns `fd`. Errors: INVALID_ARGUMENT. Thread: any. */
gboolean tps_passed_socket_prepare (gint fd, gchar **address, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The addresses of this machine for other hosts. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* Returns the numeric local address of packets to `host`, owned by the caller. Sends no packet.
 * Errors: TPS_ERROR_INVALID_ARGUMENT if the host cannot be resolved or reached. */
gchar *tps_reachable_address (const gchar *host, GError **error);

/* Returns TRUE if a numeric address is loopback, which other hosts cannot reach. FALSE for
 * names. */
gboolean tps_reachable_is_loopback (const gchar *address);

/* Returns TRUE if `address`, a numeric address, belongs to this host, so that it can listen
 * there. */
gboolean tps_reachable_is_here (const gchar *address);

/* Returns the first address of `host`, numeric; NULL if it has none. Owned by the caller. */
gchar *tps_reachable_resolve (const gchar *host);

/* Returns the addresses of this host for other hosts, separated by commas; "" if there are none.
 * Owned by the caller. */
gchar *tps_reachable_list (void);

G_END_DECLS

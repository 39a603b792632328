/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Addresses of this machine, as other hosts can reach them. */

#pragma once

#include <glib.h>

/* Returns the numeric local address from which packets to `host` are sent. Sends no packet. The
 * caller owns the result. Errors: INVALID_ARGUMENT if the host cannot be resolved or reached. */
gchar *tps_reachable_address (const gchar *host, GError **error);

/* Returns TRUE if `address` is a numeric loopback address, which other hosts cannot reach. */
gboolean tps_reachable_is_loopback (const gchar *address);

/* Returns TRUE if the numeric address belongs to this host, which can then listen there. */
gboolean tps_reachable_is_here (const gchar *address);

/* Returns the first address of `host` in numeric form; NULL if there is none. The caller owns the
 * result. Blocks for the name service. */
gchar *tps_reachable_resolve (const gchar *host);

/* Returns the addresses of this host that other hosts may be able to reach, separated by ", "; ""
 * if there are none. The caller owns the result. */
gchar *tps_reachable_list (void);

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Which of this machine's addresses others reach it at. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The local address, numeric, from which packets to `host` leave; owned. No packet is sent.
 * Errors: TPS_ERROR_INVALID_ARGUMENT when the host cannot be resolved or reached. */
gchar *tps_reachable_address (const gchar *host, GError **error);

/* Whether a numeric address is loopback, so that other hosts cannot reach it. FALSE for names. */
gboolean tps_reachable_is_loopback (const gchar *address);

/* Whether packets to `address`, a numeric address, arrive at this host, so that it can listen
 * there. */
gboolean tps_reachable_is_here (const gchar *address);

/* The first address of `host`, numeric; NULL where it has none. Owned. */
gchar *tps_reachable_resolve (const gchar *host);

/* This host's addresses that other hosts may reach, comma-separated; "" where there is none.
 * Owned. */
gchar *tps_reachable_list (void);

G_END_DECLS

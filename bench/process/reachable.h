/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Which of this machine's addresses others reach it at. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

/* The local address, numeric, from which packets to `host` leave; owned. No packet is sent.
 * Errors: TPS_ERROR_INVALID_ARGUMENT when the host cannot be resolved or reached. */
gchar *tps_reachable_address (const gchar *host, GError **error);

G_END_DECLS

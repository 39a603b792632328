/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The store of runtime/trainer over the Rendezvous service.
 *
 * `get` waits on the server, not by asking again and again. A lost connection is tried once more on
 * a new one: putting, getting and removing twice is the same as once.
 */

#pragma once

#include "plugin/net/tls/tls.h"
#include "runtime/trainer/ports/store.h"

G_BEGIN_DECLS

/* `address` as for a client; `timeout_ns` is for one put or remove (0 = 30 s). Does not connect
 * yet. Errors: INVALID_ARGUMENT for an address that cannot be understood. Freed with its ops. */
TpsStore *tps_remote_store_new (const gchar *address, gint64 timeout_ns, GError **error);

/* The same over TLS and with a token, see TpsClientOptions; with NULL for both as above. */
TpsStore *tps_remote_store_new_secure (const gchar *address, TpsTls *tls, const gchar *token,
                                       gint64 timeout_ns, GError **error);

G_END_DECLS

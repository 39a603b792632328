/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Implements TpsStore (runtime/ports/store.h) over the service Rendezvous.
 *
 * `get` does not poll: the server replies when the key exists. After a lost connection, a call is
 * retried once on a new connection, because a repeated put, get or remove has no further effect.
 */

#pragma once

#include "plugin/net/tls/tls.h"
#include "runtime/ports/store.h"

G_BEGIN_DECLS

/* Creates a store, which does not connect yet. The caller frees it through its ops. `address` has
 * the format of TpsClientOptions.address; `timeout_ns` is the timeout of a put or remove (0 = 30
 * s). Errors: INVALID_ARGUMENT if the address cannot be parsed. Thread: any. */
TpsStore *tps_remote_store_new (const gchar *address, gint64 timeout_ns, GError **error);

/* As tps_remote_store_new(), but with TLS and a token (see TpsClientOptions); either may be
 * NULL. */
TpsStore *tps_remote_store_new_secure (const gchar *address, TpsTls *tls, const gchar *token,
                                       gint64 timeout_ns, GError **error);

G_END_DECLS

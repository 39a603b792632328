/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Implements TpsStore (runtime/ports/store.h) over the service Rendezvous.
 *
 * `get` does not poll: the server replies when the key exists. After a lost connection, a call is
 * retried once on a new connection, because a repeated put, get or remove has no further effect.
 */

#pragma once

#include <thriftps/access.h>

#include "runtime/ports/store.h"

G_BEGIN_DECLS

typedef struct
{
  const gchar *address; /* of the server; see TpsClientOptions */
  gint64 timeout_ns;    /* of a put or remove; 0 = 30 s */
  TpsTls *tls;          /* see TpsClientOptions */
  const gchar *token;   /* see TpsClientOptions */
} TpsRemoteStoreOptions;

/* Creates a store, which does not connect yet. The caller frees it through its ops. Errors:
 * INVALID_ARGUMENT if the address cannot be parsed. Thread: any. */
TpsStore *tps_remote_store_new (const TpsRemoteStoreOptions *options, GError **error);

G_END_DECLS

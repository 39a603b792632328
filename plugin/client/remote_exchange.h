/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The exchange of runtime/trainer over one client per parameter server.
 *
 * Gradients go out from where they lie, averages refer to the buffers that they were received into:
 * neither is copied. Those in memory of a device are copied there, into memory that the server's
 * process shares; while there is none they go by way of the host, and a server that shares none is
 * not given any more of them.
 *
 * What is tried again, within the deadline of the call:
 *   CONNECTION_LOST      once, on a new connection. The server may have counted the first push: the
 *                        same bytes in the same round get the same answer, so a second one does no
 *                        harm.
 *   RESOURCE_EXHAUSTED   with retry_after_ms: after that time, as often as the deadline allows.
 * Everything else, and what comes too late to be tried again, goes to `done` as it is.
 */

#pragma once

#include "plugin/net/tls/tls.h"
#include "runtime/trainer/ports/exchange.h"

G_BEGIN_DECLS

typedef struct
{
  gint32 trainer;                /* who we are */
  const gchar *const *addresses; /* of the servers, in their order */
  guint n_addresses;
  gsize max_message_bytes; /* of an answer; 0 = 1 GiB */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* the same */
  /* Whose copies averages are the source of: large ones are received into memory that it need not
   * stage. NULL = none. */
  TpsDevice *device;
} TpsRemoteExchangeOptions;

/* Does not connect yet. Errors: INVALID_ARGUMENT for an address that cannot be understood. Freed
 * with its ops. */
TpsExchange *tps_remote_exchange_new (const TpsRemoteExchangeOptions *options, GError **error);

G_END_DECLS

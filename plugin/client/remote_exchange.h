/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Implements TpsExchange (runtime/ports/exchange.h) with one client per parameter server.
 *
 * Gradients are sent from their own memory, and averages refer to the receive buffers, so neither
 * gradients nor averages are copied. Gradients in memory of a device are copied within the device,
 * into memory that the server's process shares. While no shared memory is available, the gradients
 * are copied to the host. A server that shares no device memory receives all later gradients from
 * host memory.
 *
 * At most 32 gradients are in flight at a server; further gradients are sent in order as replies
 * arrive. The server's --max-inflight must not be less than 32: otherwise rounds can expire after a
 * lost connection. After the loss, trainers may send their gradients in different orders, and the
 * server stops reading from a connection with --max-inflight pending calls. All pending calls of
 * one trainer could then wait for gradients of another trainer that the server does not read.
 *
 * Retries within the deadline of the call:
 *
 *   CONNECTION_LOST      The gradient is sent again once, on a new connection. The server may have
 *                        counted the first one. The repeat then has no further effect, because
 *                        the same bytes in the same round get the same reply.
 *   RESOURCE_EXHAUSTED, UNAVAILABLE
 *                        If the error has retry_after_ms, the gradient is sent again after this
 *                        time, until the deadline.
 *
 * All other errors are passed to `done` unchanged, and so are errors that come too late for a
 * retry.
 */

#pragma once

#include <thriftps/access.h>

#include "runtime/ports/exchange.h"

G_BEGIN_DECLS

typedef struct
{
  gint32 trainer;                /* the number of this trainer */
  const gchar *const *addresses; /* of the servers, in their order */
  guint n_addresses;
  gsize max_message_bytes; /* limit of a reply; 0 = 1 GiB */
  TpsTls *tls;             /* see TpsClientOptions */
  const gchar *token;      /* see TpsClientOptions */
  /* The device to which averages will be copied. Large averages are received into memory from which
   * the device can copy directly. NULL = none. */
  TpsDevice *device;
} TpsRemoteExchangeOptions;

/* Creates an exchange, which the caller frees through its ops. It does not connect yet. Errors:
 * INVALID_ARGUMENT if an address cannot be parsed. Thread: any. */
TpsExchange *tps_remote_exchange_new (const TpsRemoteExchangeOptions *options, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One encrypted connection, as a channel of plugin/net/net_channel.h. */

#pragma once

#include "plugin/net/net_channel.h"
#include "plugin/net/tls/tls.h"
#include "runtime/base/budget.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* Bytes that OpenSSL holds for a connection at most: a record each way, keys, the certificates of a
 * peer. */
#define TPS_TLS_CONNECTION_BYTES ((gsize) 96 << 10)

/* Each may be NULL. */
typedef struct
{
  TpsCounter *done; /* handshakes */
  TpsCounter *failed;
  TpsGauge *current;  /* handshakes that have not ended */
  TpsCounter *kernel; /* connections whose sent bytes the kernel encrypts */
} TpsTlsCounts;

/* The client's side. `peer` must be named by the server's certificate: a host name, an IP address,
 * or a URI such as "spiffe://cluster/server". Both arguments are borrowed for the call. The caller
 * owns the channel. Errors: RESOURCE_EXHAUSTED, INVALID_ARGUMENT (`peer`). The handshake fails with
 * UNAUTHENTICATED if the certificate is refused. */
TpsNetChannel *tps_tls_connect (TpsTls *tls, const gchar *peer, GError **error);

/* The server's side. TPS_TLS_CONNECTION_BYTES are charged to `budget` (NULL = none) for as long
 * as the channel lives. `workers` and the numbers of `counts` are borrowed, and must outlive the
 * channel. A handshake whose channel is freed before its end counts as failed. Errors:
 * RESOURCE_EXHAUSTED. */
TpsNetChannel *tps_tls_accept (TpsTls *tls, TpsWorkerPool *workers, TpsBudget *budget,
                               const TpsTlsCounts *counts, GError **error);

G_END_DECLS

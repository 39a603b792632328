/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The channel of an encrypted connection (plugin/net/net_channel.h). */

#pragma once

#include <openssl/x509.h>
#include <thriftps/access.h>

#include "plugin/net/net_channel.h"
#include "runtime/base/budget.h"
#include "runtime/base/counters.h"

G_BEGIN_DECLS

/* The memory that OpenSSL uses for a connection: a record in each direction, keys, and a usual
 * certificate of the peer. Longer chains of clients are charged in addition. During the handshake,
 * OpenSSL also allocates a message of up to 128 KiB as soon as the peer announces its length. */
#define TPS_TLS_CONNECTION_BYTES ((gsize) 96 << 10)
#define TPS_TLS_HANDSHAKE_BYTES ((gsize) 224 << 10)

/* Counters of encrypted connections; each may be NULL. */
typedef struct
{
  TpsCounter *done; /* handshakes */
  TpsCounter *failed;
  TpsGauge *current;  /* handshakes that have not ended */
  TpsCounter *kernel; /* connections whose sent bytes the kernel encrypts */
} TpsTlsCounts;

/* Creates the channel of a client, owned by the caller. The server's certificate must contain
 * `peer`: a host name, an IP address, or a URI. Borrowed for the call. Errors: RESOURCE_EXHAUSTED,
 * INVALID_ARGUMENT (`peer`). A refused certificate fails the handshake with UNAUTHENTICATED. */
TpsNetChannel *tps_tls_connect (TpsTls *tls, const gchar *peer, GError **error);

/* Creates the channel of a server, owned by the caller. TPS_TLS_HANDSHAKE_BYTES are charged to
 * `budget` (may be NULL), and TPS_TLS_CONNECTION_BYTES to its parent from the end of the handshake
 * on. `workers` and the counters in `counts` must outlive the channel. Errors:
 * RESOURCE_EXHAUSTED. */
TpsNetChannel *tps_tls_accept (TpsTls *tls, TpsWorkerPool *workers, TpsBudget *budget,
                               const TpsTlsCounts *counts, GError **error);

/* Returns the first of these names of the certificate: a SAN URI spiffe://DOMAIN/PATH; a SAN DNS
 * name, as "dns:NAME"; the last common name of the subject, as "cn:NAME". Names with bytes other
 * than printable ASCII are ignored. Owned by the caller; NULL if there is none. */
gchar *tps_certificate_dup_name (X509 *certificate);

G_END_DECLS

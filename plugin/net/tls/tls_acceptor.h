/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tells encrypted connections from plain ones, on the same port: a TLS handshake begins with the
 * byte 0x16. As the first byte of a frame's length it would announce 352 MiB or more, which no
 * client sends first. */

#pragma once

#include "plugin/net/tls/tls_channel.h"

G_BEGIN_DECLS

typedef struct TpsTlsAcceptor TpsTlsAcceptor;

typedef struct
{
  TpsTls *tls;            /* a reference is taken */
  gboolean is_required;   /* plain connections are closed: PERMISSION_DENIED */
  TpsWorkerPool *workers; /* of handshakes; borrowed, must be freed before the loops */
  TpsBudget *budget;      /* charged for encrypted connections; a reference is taken */
  TpsCounters *counters;  /* borrowed, outlives the acceptor; NULL = none */
} TpsTlsAcceptorOptions;

/* Counts tls_handshakes_total, with the label result, and tls_kernel_connections_total. The gauge
 * tls_handshakes_in_progress counts from the first byte of a connection on;
 * tls_certificate_expiry_timestamp_seconds is the time at which the certificate expires, in seconds
 * since 1970. */
TpsTlsAcceptor *tps_tls_acceptor_new (const TpsTlsAcceptorOptions *options);

/* All connections must have been opened or closed. NULL is fine. */
void tps_tls_acceptor_free (TpsTlsAcceptor *acceptor);

/* The channel that an accepted TCP connection begins with. Borrowed: all connections share it. */
TpsNetChannel *tps_tls_acceptor_get_channel (TpsTlsAcceptor *acceptor);

G_END_DECLS

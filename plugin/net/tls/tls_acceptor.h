/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Distinguishes encrypted from plain connections on the same port by their first byte: a TLS
 * handshake begins with 0x16. At the beginning of a plain connection, this byte would announce a
 * frame of 352 MiB to just below 368 MiB, which no client sends first. */

#pragma once

#include "plugin/net/tls/tls_channel.h"

G_BEGIN_DECLS

typedef struct TpsTlsAcceptor TpsTlsAcceptor;

typedef struct
{
  TpsTls *tls;            /* a reference is taken */
  gboolean is_required;   /* plain connections are closed (PERMISSION_DENIED) */
  TpsWorkerPool *workers; /* run the handshakes; borrowed, must be freed before the loops */
  TpsBudget *budget;      /* charged for handshakes, and its parent for encrypted connections; a
                           * reference is taken */
  TpsCounters *counters;  /* borrowed, must outlive the acceptor; NULL = none */
} TpsTlsAcceptorOptions;

/* Creates an acceptor, owned by the caller, with its metrics: tls_handshakes_total (by result),
 * tls_kernel_connections_total, tls_handshakes_in_progress (from the first byte of a connection)
 * and tls_certificate_expiry_timestamp_seconds. */
TpsTlsAcceptor *tps_tls_acceptor_new (const TpsTlsAcceptorOptions *options);
/* Frees the acceptor, which may be NULL. No connection may still be waiting for its first byte. */
void tps_tls_acceptor_free (TpsTlsAcceptor *acceptor);

/* Returns the first channel of all accepted TCP connections, borrowed. */
TpsNetChannel *tps_tls_acceptor_get_channel (TpsTlsAcceptor *acceptor);

G_END_DECLS

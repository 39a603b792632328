/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The OpenSSL side of a TpsTls. Inside plugin/net/tls only. */

#pragma once

#include <openssl/ssl.h>

#include "plugin/net/tls/tls.h"

G_BEGIN_DECLS

#define TPS_TLS_RECORD_BYTES ((gsize) SSL3_RT_MAX_PLAIN_LENGTH)

/* A connection with the files that were read last; owned by the caller. NULL: no memory. Thread:
 * any. */
SSL *tps_tls_new_connection (TpsTls *tls);

/* Whether servers ask clients for a certificate. */
gboolean tps_tls_has_authorities (const TpsTls *tls);

/* Why the last call of OpenSSL on this thread failed: static text. Empties the thread's queue of
 * errors. */
const gchar *tps_tls_take_reason (void);

G_END_DECLS

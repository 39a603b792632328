/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The OpenSSL objects of a TpsTls (thriftps/access.h), for this folder. OpenSSL implements TLS. */

#pragma once

#include <openssl/ssl.h>
#include <thriftps/access.h>

#define TPS_TLS_RECORD_BYTES ((gsize) SSL3_RT_MAX_PLAIN_LENGTH)

/* Returns a new OpenSSL connection that uses the last contents of the files. The caller owns it.
 * Returns NULL if there is no memory. Thread: any. */
SSL *tps_tls_new_connection (TpsTls *tls);

/* TRUE: the options name authorities, so servers request certificates. Thread: any. */
gboolean tps_tls_has_authorities (const TpsTls *tls);

/* Returns the reason why the last call to OpenSSL on this thread failed, as static text, and clears
 * the thread's error queue. */
const gchar *tps_tls_take_reason (void);

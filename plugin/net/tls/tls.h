/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The certificate of a process, its key and the authorities that it trusts, for encrypted TCP
 * connections of servers and clients. OpenSSL implements TLS 1.3, and TLS 1.2 if allowed, without
 * tickets, resumption, early data, compression and renegotiation. Unix sockets are never
 * encrypted. */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsTls TpsTls;

/* Names of PEM files, which are copied. They must be regular files of at most 1 MiB, or 16 MiB for
 * `authorities`. */
typedef struct
{
  /* The certificate of this process, followed by the intermediate certificates up to its authority.
   * NULL = none; servers must have one. */
  const gchar *certificate;
  const gchar *key; /* the private key, without a passphrase; NULL = it is in `certificate` */
  /* Authorities that may issue the certificates of peers. If the file contains revocation lists, it
   * must contain that of every issuer. If NULL, a server requests no certificates, and a client
   * trusts the authorities of the system. */
  const gchar *authorities;
  gboolean allow_tls_1_2; /* FALSE: TLS 1.3 only */
} TpsTlsOptions;

/* Reads the files. The caller owns a reference. Errors: INVALID_ARGUMENT, with the file and the
 * reason (the file cannot be read or is too large, the key does not match the certificate, the
 * certificate has expired); RESOURCE_EXHAUSTED. */
TpsTls *tps_tls_new (const TpsTlsOptions *options, GError **error);

/* Take and release a reference. unref() accepts NULL. Thread: any. */
TpsTls *tps_tls_ref (TpsTls *tls);
void tps_tls_unref (TpsTls *tls);

/* Reads the files again. Later connections use the new contents; open connections are not affected.
 * Errors: those of tps_tls_new(); the old contents then remain in use. Blocks. Thread: any. */
gboolean tps_tls_reload (TpsTls *tls, GError **error);

/* Returns the time at which the certificate expires, in seconds since 1970; 0 if there is no
 * certificate. Thread: any. */
gint64 tps_tls_get_expiry_s (TpsTls *tls);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTls, tps_tls_unref)

G_END_DECLS

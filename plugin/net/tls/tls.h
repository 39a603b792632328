/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The certificate of a process, its key and the authorities that it trusts, for encrypted TCP
 * connections.
 *
 *   TpsTlsOptions options = { .certificate = "node.pem", .key = "node.key", .authorities = "ca.pem" };
 *   g_autoptr (TpsTls) tls = tps_tls_new (&options, &error);
 *
 * One TpsTls serves both roles: a server gives it to TpsServerOptions, a client to
 * TpsClientOptions. TLS 1.3 by OpenSSL, without tickets, resumption, early data, compression and
 * renegotiation. Unix sockets are never encrypted: the kernel keeps other users away from them.
 */

#pragma once

#include <glib.h>

G_BEGIN_DECLS

typedef struct TpsTls TpsTls;

/* Names of PEM files, copied. They must be regular files, of at most 1 MiB; that of the authorities
 * of at most 16 MiB. */
typedef struct
{
  /* The certificate of this process, then those between it and its authority. Must be given for
   * servers. NULL = none. */
  const gchar *certificate;
  const gchar *key; /* the private key, without a passphrase; NULL = it is in `certificate` */
  /* Certificates of authorities, of which one must have issued the certificate of a peer. If the
   * file has revocation lists, each certificate is looked for in the list of its issuer, which
   * must be there. A server without it asks clients for no certificate; a client without it
   * trusts the authorities of the system. */
  const gchar *authorities;
  gboolean allow_tls_1_2; /* FALSE: TLS 1.3 only */
} TpsTlsOptions;

/* Reads the files. Errors: INVALID_ARGUMENT, which names the file and the reason (it cannot be
 * read, is too large, the key is another certificate's, the certificate has expired). */
TpsTls *tps_tls_new (const TpsTlsOptions *options, GError **error);
TpsTls *tps_tls_ref (TpsTls *tls);
void tps_tls_unref (TpsTls *tls);

/* Reads the files again. Later connections use the new contents; open connections go on unchanged.
 * Errors: as tps_tls_new(); everything stays as it was then. Blocks. Thread: any. */
gboolean tps_tls_reload (TpsTls *tls, GError **error);

/* When the certificate expires, in seconds since 1970; 0 without one. Thread: any. */
gint64 tps_tls_get_expiry_s (TpsTls *tls);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTls, tps_tls_unref)

G_END_DECLS

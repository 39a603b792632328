/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Encryption of TCP connections, and the rights of callers.
 *
 *   TpsTlsOptions files = TPS_INIT (TpsTlsOptions);
 *   files.certificate = "node.pem", files.key = "node.key", files.authorities = "ca.pem";
 *   tls = tps_tls_new (&files, &error);         -> TpsServerOptions.tls, TpsClientOptions.tls
 *
 *   TpsAccessOptions rules = TPS_INIT (TpsAccessOptions);
 *   rules.rules_file = "rules.json", rules.token_file = "tokens";
 *   access = tps_access_new (&rules, &error);   -> TpsPluginOptions.access
 *
 * A caller is a principal: the name in its certificate, the owner of its token, the user of its
 * Unix socket, or "anonymous". Rules allow principals to call methods that need a right, and to use
 * tables. OPERATING.md describes both files, tenants and their limits. Without rules, every caller
 * may do everything.
 */

#pragma once

#include <thriftps/error.h>

G_BEGIN_DECLS

/* ---- encryption ------------------------------------------------------------------------------ */

/* The certificate of a process, its key and the authorities that it trusts. It may be used in both
 * roles, by servers and clients. The protocol is TLS 1.3, and TLS 1.2 if allowed, without tickets,
 * resumption, early data, compression and renegotiation. Unix sockets are never encrypted, because
 * the kernel denies other users access to them. */
typedef struct TpsTls TpsTls;

/* Names of PEM files, which are copied. They must be regular files of at most 1 MiB, or 16 MiB for
 * `authorities`. */
typedef struct
{
  gsize size; /* see TPS_INIT() */
  /* The certificate of this process, followed by the intermediate certificates up to its authority.
   * NULL = none; servers must have one. */
  const gchar *certificate;
  const gchar *key; /* the private key, without a passphrase; NULL = it is in `certificate` */
  /* Certificates of the authorities that may issue the certificates of peers. If the file contains
   * revocation lists, it must contain the list of every issuer, and revoked certificates are
   * refused. If NULL, a server does not request certificates from clients, and a client trusts the
   * authorities of the system. */
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

/* ---- rights ---------------------------------------------------------------------------------- */

/* The rights that methods require and rules grant. */
typedef enum
{
  TPS_RIGHT_UNSET = 0,     /* invalid: a service with such a method is refused */
  TPS_RIGHT_READ = 1 << 0, /* reads state */
  TPS_RIGHT_PUSH = 1 << 1, /* takes part in training: changes values, creates and drops nothing */
  /* creates and drops state, reads and writes files, changes the server */
  TPS_RIGHT_ADMIN = 1 << 2,
  TPS_RIGHT_ANY = 7, /* any of these three: for methods that carry or prepare calls */
  /* for methods only: any peer may call the method, even before authentication */
  TPS_RIGHT_OPEN = 1 << 3,
} TpsRight;

/* The rules and tokens of a server. */
typedef struct TpsAccess TpsAccess;

typedef struct
{
  gsize size;              /* see TPS_INIT() */
  const gchar *rules_file; /* copied; NULL = everything is allowed */
  const gchar *token_file; /* copied; NULL = there are no tokens */
} TpsAccessOptions;

/* Creates a TpsAccess from both files. The caller owns the result, which is reference-counted.
 * Errors: INVALID_ARGUMENT, which names file, line and reason. */
TpsAccess *tps_access_new (const TpsAccessOptions *options, GError **error);

/* Takes a reference, or drops one. Thread: any. */
TpsAccess *tps_access_ref (TpsAccess *access);
void tps_access_unref (TpsAccess *access);

/* Reads both files again, atomically: a connection uses the new rules and tokens from its next
 * call. Blocks. Errors: those of tps_access_new(); rules and tokens are then unchanged. Thread:
 * any. */
gboolean tps_access_reload (TpsAccess *access, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsAccess, tps_access_unref)

/* Creates a token for `name` ([A-Za-z0-9_.:/@-]{1,128}), and its `line` for the token file.
 * `tenant` may be NULL. The caller owns the token and the line. Errors: INVALID_ARGUMENT,
 * UNAVAILABLE (no random bytes). Thread: any. */
gchar *tps_token_make (const gchar *name, const gchar *tenant, gchar **line, GError **error);

/* ---- callers --------------------------------------------------------------------------------- */

typedef enum
{
  TPS_PRINCIPAL_ANONYMOUS = 0,   /* "anonymous": a TCP peer without a certificate or token */
  TPS_PRINCIPAL_UID = 1,         /* "uid:1000": the user of the peer on a Unix socket */
  TPS_PRINCIPAL_CERTIFICATE = 2, /* the name in the peer's certificate: "spiffe://fleet/trainer" */
  TPS_PRINCIPAL_TOKEN = 3,       /* "token:trainer": the name of its token in the token file */
} TpsPrincipalKind;

/* The name of a caller in rules, quotas, metrics and the log; see tps_call_get_principal() in
 * service.h. Immutable. */
typedef struct TpsPrincipal TpsPrincipal;

/* Return the kind, the name and the tenant of the principal. Thread: any. */
TpsPrincipalKind tps_principal_get_kind (const TpsPrincipal *principal);
const gchar *tps_principal_get_name (const TpsPrincipal *principal);   /* borrowed */
const gchar *tps_principal_get_tenant (const TpsPrincipal *principal); /* borrowed, never NULL */

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules and tokens of a server (thriftps/access.h), and the identities of its connections.
 *
 * Each connection has a TpsIdentity, which has a TpsGrant (grant.h) under the newest rules. A
 * reload replaces rules and tokens atomically; a connection uses the new ones from its next call.
 */

#pragma once

#include <thriftps/access.h>

#include "plugin/access/grant.h"
#include "plugin/access/tokens.h"
#include "runtime/base/counters.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

/* A connection is closed after this number of wrong tokens. */
#define TPS_ACCESS_MAX_FAILURES 3
#define TPS_TOKEN_MAX_BYTES 4096

/* Registers a method and sets its `id`, so that the rules are searched for it once per connection
 * instead of for each call. A method that is already registered keeps its id. Thread: any. */
void tps_access_add_method (TpsAccess *access, TpsGuardedMethod *method);

/* Sets the counters of authentications, and of calls and refusals per principal; takes a reference.
 * Only the first call has an effect, because principals refer to the counters: servers that share
 * a TpsAccess count together. Must be called before the first connection. */
void tps_access_set_counters (TpsAccess *access, TpsCounters *counters);

/* Applies the limits of tenants in the rules file to `quotas`, now and after each reload; takes a
 * reference. Must be called before the first connection. */
void tps_access_set_quotas (TpsAccess *access, TpsQuotas *quotas);

/* ---- the identity of a connection ------------------------------------------------------------ */

/* The identity of a connection, in the owner's storage. Thread: one at a time. */
typedef struct
{
  TpsAccess *access;       /* a reference; NULL = every call is allowed */
  TpsPrincipal *principal; /* established by the connection itself */
  TpsGrant *grant;         /* NULL without `access`, and before its first use */
  guint version;           /* version of the rules and tokens of `grant` */
  gboolean has_token;      /* authenticated by the token with the hash `digest` */
  guint8 digest[TPS_TOKEN_DIGEST_BYTES];
  guint n_failures; /* number of wrong tokens */
} TpsIdentity;

/* Initializes an anonymous identity, which takes a reference to `access`. `access` may be NULL. The
 * caller must clear the identity. */
void tps_identity_init (TpsIdentity *identity, TpsAccess *access);
void tps_identity_clear (TpsIdentity *identity);

/* Sets the principal established by the connection itself: the user of its Unix socket, or its
 * certificate. Copies `name`. */
void tps_identity_show (TpsIdentity *identity, TpsPrincipalKind kind, const gchar *name);

/* Returns a reference to the grant under the newest rules; NULL without `access`. If a reload has
 * removed the token of the connection, the grant is that of the principal established by
 * the connection itself. */
TpsGrant *tps_identity_get_grant (TpsIdentity *identity);

/* Returns the current principal, borrowed until the identity changes. */
const TpsPrincipal *tps_identity_get_principal (const TpsIdentity *identity);

/* Returns TRUE if the connection has been authenticated by this token. */
gboolean tps_identity_has_token (const TpsIdentity *identity, const gchar *token);

/* Makes the owner of `token` the principal of the connection. Errors: UNAUTHENTICATED if the token
 * is unknown (`n_failures` grows by one); UNAVAILABLE if the server has no tokens. */
gboolean tps_identity_authenticate (TpsIdentity *identity, const gchar *token, GError **error);

G_END_DECLS

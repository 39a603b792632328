/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules and tokens of a server, and the identities of its connections.
 *
 *   options = { .rules_file = "rules.json", .token_file = "tokens" };
 *   access = tps_access_new (&options, &error);      -> TpsPluginOptions.access
 *
 * Each connection has a TpsIdentity, which has a TpsGrant (grant.h) under the newest rules. A
 * reload replaces rules and tokens atomically; a connection uses them from its next call.
 */

#pragma once

#include "plugin/access/grant.h"
#include "plugin/access/tokens.h"
#include "runtime/base/counters.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

/* A connection is closed after this number of wrong tokens. */
#define TPS_ACCESS_MAX_FAILURES 3
#define TPS_TOKEN_MAX_BYTES 4096

typedef struct TpsAccess TpsAccess;

typedef struct
{
  const gchar *rules_file; /* copied; NULL = everything is allowed */
  const gchar *token_file; /* copied; NULL = there are no tokens */
} TpsAccessOptions;

/* Reads both files. The caller owns the result, which is reference-counted. Errors:
 * INVALID_ARGUMENT, which names file, line and reason. */
TpsAccess *tps_access_new (const TpsAccessOptions *options, GError **error);
TpsAccess *tps_access_ref (TpsAccess *access);
void tps_access_unref (TpsAccess *access);

/* Reads both files again. Blocks. Errors: those of tps_access_new(); rules and tokens then stay as
 * they were. Thread: any. */
gboolean tps_access_reload (TpsAccess *access, GError **error);

/* Registers a method, so that the decision about it is made once per connection and not for each
 * call, and sets its `id`. A known method keeps its id. Thread: any. */
void tps_access_add_method (TpsAccess *access, TpsGuardedMethod *method);

/* Sets the counters of authentications, and of calls and refusals per principal; takes a reference.
 * The first counters stay, because principals refer to them: servers that share an access count
 * together. Must be called before the first connection. */
void tps_access_set_counters (TpsAccess *access, TpsCounters *counters);

/* Applies the limits of tenants in the file of rules to `quotas`, now and after each reload; takes
 * a reference. Must be called before the first connection. */
void tps_access_set_quotas (TpsAccess *access, TpsQuotas *quotas);

/* ---- the identity of a connection ------------------------------------------------------------ */

/* In the owner's storage. Thread: one at a time. */
typedef struct
{
  TpsAccess *access;       /* a reference; NULL = every call is allowed */
  TpsPrincipal *principal; /* the principal that the connection itself proves */
  TpsGrant *grant;         /* under the newest known rules; NULL without `access` */
  guint version;
  gboolean has_token; /* authenticated by the token with this hash: */
  guint8 digest[TPS_TOKEN_DIGEST_BYTES];
  guint n_failures;
} TpsIdentity;

/* Initializes an anonymous identity. `access` may be NULL. */
void tps_identity_init (TpsIdentity *identity, TpsAccess *access);
void tps_identity_clear (TpsIdentity *identity);

/* Sets the principal that the connection itself proves. Copies `name`. */
void tps_identity_show (TpsIdentity *identity, TpsPrincipalKind kind, const gchar *name);

/* Returns a reference of the grant under the newest rules; NULL without access. A token that a
 * reload has removed is no longer valid. */
TpsGrant *tps_identity_get_grant (TpsIdentity *identity);

/* Returns the current principal, borrowed until the identity changes. */
const TpsPrincipal *tps_identity_get_principal (const TpsIdentity *identity);

/* Returns whether the connection is authenticated by this token. */
gboolean tps_identity_has_token (const TpsIdentity *identity, const gchar *token);

/* Makes the owner of `token` the principal. Errors: UNAUTHENTICATED (and n_failures grows by one),
 * UNAVAILABLE (there are no tokens). */
gboolean tps_identity_authenticate (TpsIdentity *identity, const gchar *token, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsAccess, tps_access_unref)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules and tokens of a server, and who its connections are.
 *
 *   options = { .rules_file = "rules.json", .token_file = "tokens" };
 *   access = tps_access_new (&options, &error);      -> TpsPluginOptions.access
 *
 * Each connection has a TpsIdentity, which has a TpsGrant (grant.h) of the newest rules. A reload
 * replaces rules and tokens at once; a connection notices at its next call.
 */

#pragma once

#include "plugin/access/grant.h"
#include "plugin/access/tokens.h"
#include "runtime/base/counters.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

/* A connection is closed after so many wrong tokens. */
#define TPS_ACCESS_MAX_FAILURES 3
#define TPS_TOKEN_MAX_BYTES 4096

typedef struct TpsAccess TpsAccess;

typedef struct
{
  const gchar *rules_file; /* copied; NULL = everything is allowed */
  const gchar *token_file; /* copied; NULL = there are no tokens */
} TpsAccessOptions;

/* Errors: INVALID_ARGUMENT, which names file, line and reason. */
TpsAccess *tps_access_new (const TpsAccessOptions *options, GError **error);
TpsAccess *tps_access_ref (TpsAccess *access);
void tps_access_unref (TpsAccess *access);

/* Reads both files again. Errors: as above; everything stays as it was then. Blocks. Thread:
 * any. */
gboolean tps_access_reload (TpsAccess *access, GError **error);

/* Decides about this method when a connection begins, rather than for each call: sets its `id`. One
 * that is known already has the same id. Thread: any. */
void tps_access_add_method (TpsAccess *access, TpsGuardedMethod *method);

/* Where authentications, and calls and refusals of each principal are counted. A reference is
 * taken. Before the first connection. */
void tps_access_set_counters (TpsAccess *access, TpsCounters *counters);

/* Has the limits of tenants, which the rules' file has, hold in `quotas`: now and after each
 * reload. A reference is taken. Before the first connection. */
void tps_access_set_quotas (TpsAccess *access, TpsQuotas *quotas);

/* ---- who a connection is --------------------------------------------------------------------- */

/* In the owner's storage; one thread at a time. */
typedef struct
{
  TpsAccess *access;       /* a reference; NULL = nothing is checked */
  TpsPrincipal *principal; /* that the connection itself shows */
  TpsGrant *grant;         /* of the newest version that was seen; NULL without `access` */
  guint version;
  gboolean has_token; /* authenticated, with: */
  guint8 digest[TPS_TOKEN_DIGEST_BYTES];
  guint n_failures;
} TpsIdentity;

/* An anonymous one. `access` may be NULL. */
void tps_identity_init (TpsIdentity *identity, TpsAccess *access);
void tps_identity_clear (TpsIdentity *identity);

/* The connection shows this. Copies `name`. */
void tps_identity_show (TpsIdentity *identity, TpsPrincipalKind kind, const gchar *name);

/* The grant of the newest rules, a reference; NULL without access. A token that a reload has
 * removed does not count any more. */
TpsGrant *tps_identity_get_grant (TpsIdentity *identity);

/* The principal now, borrowed until the identity changes. */
const TpsPrincipal *tps_identity_get_principal (const TpsIdentity *identity);

/* Whether it is authenticated with just this token. */
gboolean tps_identity_has_token (const TpsIdentity *identity, const gchar *token);

/* Becomes the owner of `token`. Errors: UNAUTHENTICATED (n_failures is one more), UNAVAILABLE
 * (there are no tokens). */
gboolean tps_identity_authenticate (TpsIdentity *identity, const gchar *token, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsAccess, tps_access_unref)

G_END_DECLS

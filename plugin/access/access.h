/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules and tokens of a server (thriftps/access.h), and the identities of its connections.
 *
 * Each connection has a TpsIdentity, which has a TpsGrant under the newest rules. A reload replaces
 * rules and tokens atomically; a connection uses the new ones from its next call.
 */

#pragma once

#include <thriftps/access.h>

#include <glib.h>

#include "plugin/access/principal.h"
#include "plugin/access/rules.h"
#include "plugin/access/tokens.h"
#include "runtime/base/counters.h"
#include "runtime/base/sync.h"
#include "runtime/base/trace.h"
#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

/* Patterns of names: '*' matches any number of bytes, including none; '?' matches one byte; any
 * other byte matches itself. */

/* Returns TRUE if `pattern` matches the whole `text`. Names come from peers, so the time is
 * limited: it is at most proportional to the product of both lengths. Thread: any. */
gboolean tps_glob_matches (const gchar *pattern, const gchar *text);

/* Returns TRUE if one of `patterns`, ended by NULL, matches. Thread: any. */
gboolean tps_glob_matches_any (const gchar *const *patterns, const gchar *text);

/* ---- grants ---------------------------------------------------------------------------------- */

/* A method that rules can allow; immutable. */
typedef struct
{
  gchar *name; /* "Service:method" */
  TpsRight right;
  guint id; /* index in TpsAccess; TPS_METHOD_NO_ID = the rules are searched for each call */
} TpsGuardedMethod;

#define TPS_METHOD_NO_ID G_MAXUINT

/* Log rates and metrics of a principal, shared by its connections. */
typedef struct
{
  TpsTraceEvent admin_call;
  TpsTraceEvent access_refused;
  TpsHistogram *durations; /* of its calls; NULL = no metrics */
  TpsCounter *refused;     /* its refused calls; NULL = no metrics */
} TpsAudit;

/* The permissions of one principal under one version of the rules, decided at its creation, so that
 * a check is a table lookup. Immutable, reference-counted. Thread: any. A NULL grant allows
 * everything: there are no rules, or a different component has checked the caller.
 *
 * `principal` and `audit` may be read by users; the other fields are private. */
typedef struct
{
  TpsRefcount refcount;
  TpsPrincipal *principal;
  TpsRules *rules;      /* NULL = everything is allowed */
  const TpsRule **mine; /* the rules that name the principal; borrowed from `rules` */
  guint n_mine;
  guint n_words; /* of a set */
  guint n_methods;
  guint64 *sets; /* n_words for each method */
  guint8 *may;   /* per method: MAY_CALL, ALL_TABLES */
  TpsAudit *audit;
  gpointer owner;
  GDestroyNotify release_owner;
} TpsGrant;

/* Creates a grant, owned by the caller, which takes references to `principal` and `rules` (NULL:
 * everything is allowed). `methods` has elements of TpsGuardedMethod, indexed by `id`. `audit`
 * lives as long as `owner`, which the grant releases with `release_owner`. */
TpsGrant *tps_grant_new (const TpsPrincipal *principal, TpsRules *rules, const GPtrArray *methods,
                         TpsAudit *audit, gpointer owner, GDestroyNotify release_owner);
TpsGrant *tps_grant_ref (const TpsGrant *grant);
void tps_grant_unref (TpsGrant *grant);

/* Returns TRUE if some rule names the principal. */
gboolean tps_grant_has_rights (const TpsGrant *grant);

/* Returns TRUE if the principal may call `method`, which the peer sent as `sent`. Errors of this
 * check and the next two: UNAUTHENTICATED for an anonymous principal, otherwise PERMISSION_DENIED.
 * They name the method or table, but do not reveal whether it exists. */
gboolean tps_grant_check_method (const TpsGrant *grant, const TpsGuardedMethod *method,
                                 const gchar *sent, GError **error);

/* Returns TRUE if the peer may learn that the method `name` does not exist: if the rules of its
 * principal allow a method of this name with every right. A principal that lacks a right would be
 * refused if the method existed and needed that right. */
gboolean tps_grant_check_name (const TpsGrant *grant, const gchar *name, GError **error);

/* Return TRUE if a call of `method` may use `table` with `right`. `table` NULL stands for all
 * present and future tables. */
gboolean tps_grant_check_table (const TpsGrant *grant, const TpsGuardedMethod *method,
                                const gchar *table, TpsRight right, GError **error);
gboolean tps_grant_allows_table (const TpsGrant *grant, const TpsGuardedMethod *method,
                                 const gchar *table, TpsRight right);

/* Get and set the grant under which this thread runs code of the program, which may call services
 * itself; NULL = none. The grant is borrowed while it is set. tps_grant_set_current() returns the
 * previous one. */
const TpsGrant *tps_grant_get_current (void);
const TpsGrant *tps_grant_set_current (const TpsGrant *grant);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsGrant, tps_grant_unref)

/* ---- the rules and tokens of a server -------------------------------------------------------- */

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

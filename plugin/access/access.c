/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/access/access.h"

#include <stdatomic.h>
#include <string.h>

#include <openssl/crypto.h>

#include "runtime/base/error.h"
#include "runtime/base/sized.h"
#include "runtime/base/sync.h"

/* ---- patterns -------------------------------------------------------------------------------- */

/* After a mismatch, the last '*' takes one more byte of the text. Earlier stars need not be tried
 * again: each has already matched the shortest possible text, and the last star can match the
 * rest. */
gboolean
tps_glob_matches (const gchar *pattern, const gchar *text)
{
  const gchar *star = NULL;
  const gchar *after = NULL; /* position in the text after the bytes that `star` matches */

  while (*text != '\0')
    if (*pattern == '*')
      {
        star = pattern++;
        after = text;
      }
    else if (*pattern == '?' || *pattern == *text)
      {
        pattern++;
        text++;
      }
    else if (star != NULL)
      {
        pattern = star + 1;
        text = ++after;
      }
    else
      return FALSE;
  while (*pattern == '*')
    pattern++;
  return *pattern == '\0';
}

gboolean
tps_glob_matches_any (const gchar *const *patterns, const gchar *text)
{
  for (; *patterns != NULL; patterns++)
    if (tps_glob_matches (*patterns, text))
      return TRUE;
  return FALSE;
}

/* ---- grants ---------------------------------------------------------------------------------- */

#define BITS 64

#define MAY_CALL 1   /* the set of the method is not empty, or the method is open */
#define ALL_TABLES 2 /* one rule of the set allows all tables with the right of the method */

static _Thread_local const TpsGrant *current; /* see tps_grant_set_current() */

/* A grant keeps the rules that name its principal. For each method it has a set of these rules, as
 * bits: the rules that allow the method. A call may use a table if one of the rules in the set of
 * its method allows the table. */

/* Methods with the right ANY carry other calls, for example in chunks. The carried calls are
 * checked separately. */
static gboolean
rule_allows_method (const TpsRule *rule, const TpsGuardedMethod *method)
{
  return method->right == TPS_RIGHT_OPEN || method->right == TPS_RIGHT_ANY
         || ((rule->rights & (guint) method->right) != 0
             && tps_glob_matches_any ((const gchar *const *) rule->methods, method->name));
}

static gboolean
rule_allows_table (const TpsRule *rule, const gchar *table, TpsRight right)
{
  if ((rule->rights & (guint) right) == 0)
    return FALSE;
  return table != NULL ? tps_glob_matches_any ((const gchar *const *) rule->tables, table)
                       : g_strv_contains ((const gchar *const *) rule->tables, "*");
}

/* Returns TRUE if the decisions about `method` were made when the grant was created. Methods that
 * were registered later, or have no id, are looked up in the rules. */
static gboolean
has_id (const TpsGrant *grant, const TpsGuardedMethod *method)
{
  return method->id < grant->n_methods;
}

static gboolean
some_rule_allows_method (const TpsGrant *grant, const TpsGuardedMethod *method)
{
  for (guint i = 0; i < grant->n_mine; i++)
    if (rule_allows_method (grant->mine[i], method))
      return TRUE;
  return FALSE;
}

/* Returns TRUE if the rule with the index `rule` in `mine` allows the method. */
static gboolean
is_in_set (const TpsGrant *grant, const TpsGuardedMethod *method, guint rule)
{
  if (!has_id (grant, method))
    return rule_allows_method (grant->mine[rule], method);
  return (grant->sets[(gsize) method->id * grant->n_words + rule / BITS] >> rule % BITS & 1) != 0;
}

gboolean
tps_grant_allows_table (const TpsGrant *grant, const TpsGuardedMethod *method, const gchar *table,
                        TpsRight right)
{
  if (grant == NULL || grant->rules == NULL)
    return TRUE;
  if (right == method->right && has_id (grant, method)
      && (grant->may[method->id] & ALL_TABLES) != 0)
    return TRUE;
  for (guint i = 0; i < grant->n_mine; i++)
    if (is_in_set (grant, method, i) && rule_allows_table (grant->mine[i], table, right))
      return TRUE;
  return FALSE;
}

static gboolean
refuse (const TpsGrant *grant, const gchar *kind, const gchar *name, GError **error)
{
  if (tps_principal_get_kind (grant->principal) == TPS_PRINCIPAL_ANONYMOUS)
    return tps_fail (
        error, TPS_ERROR_UNAUTHENTICATED,
        "%s%s: not allowed without authentication: use Session.authenticate or a client "
        "certificate",
        kind, name);
  return tps_fail (error, TPS_ERROR_PERMISSION_DENIED, "%s%s: not allowed for %s", kind, name,
                   tps_principal_get_name (grant->principal));
}

gboolean
tps_grant_has_rights (const TpsGrant *grant)
{
  return grant == NULL || grant->rules == NULL || grant->n_mine > 0;
}

gboolean
tps_grant_check_method (const TpsGrant *grant, const TpsGuardedMethod *method, const gchar *sent,
                        GError **error)
{
  if (grant == NULL || grant->rules == NULL
      || (has_id (grant, method)
              ? (grant->may[method->id] & MAY_CALL) != 0
              : method->right == TPS_RIGHT_OPEN || some_rule_allows_method (grant, method)))
    return TRUE;
  return refuse (grant, "", sent, error);
}

gboolean
tps_grant_check_name (const TpsGrant *grant, const gchar *name, GError **error)
{
  guint rights = 0;

  if (grant == NULL || grant->rules == NULL)
    return TRUE;
  for (guint i = 0; i < grant->n_mine; i++)
    if (tps_glob_matches_any ((const gchar *const *) grant->mine[i]->methods, name))
      rights |= grant->mine[i]->rights;
  return (rights & TPS_RIGHT_ANY) == TPS_RIGHT_ANY || refuse (grant, "", name, error);
}

gboolean
tps_grant_check_table (const TpsGrant *grant, const TpsGuardedMethod *method, const gchar *table,
                       TpsRight right, GError **error)
{
  return tps_grant_allows_table (grant, method, table, right)
         || refuse (grant, "table ", table != NULL ? table : "*", error);
}

TpsGrant *
tps_grant_new (const TpsPrincipal *principal, TpsRules *rules, const GPtrArray *methods,
               TpsAudit *audit, gpointer owner, GDestroyNotify release_owner)
{
  TpsGrant *grant = g_new0 (TpsGrant, 1);
  const TpsRule *const *all;
  guint n_rules;

  tps_refcount_init (&grant->refcount);
  grant->principal = tps_principal_ref (principal);
  grant->audit = audit;
  grant->owner = owner;
  grant->release_owner = release_owner;
  if (rules == NULL)
    return grant;
  grant->rules = tps_rules_ref (rules);
  all = tps_rules_get (grant->rules, &n_rules);
  grant->mine = g_new0 (const TpsRule *, MAX (n_rules, 1));
  for (guint i = 0; i < n_rules; i++)
    if (tps_glob_matches_any ((const gchar *const *) all[i]->principals,
                              tps_principal_get_name (grant->principal)))
      grant->mine[grant->n_mine++] = all[i];
  grant->n_methods = methods->len;
  grant->n_words = (grant->n_mine + BITS - 1) / BITS;
  grant->sets = g_new0 (guint64, MAX ((gsize) grant->n_words * methods->len, 1));
  grant->may = g_new0 (guint8, MAX (methods->len, 1));
  for (guint m = 0; m < methods->len; m++)
    {
      const TpsGuardedMethod *method = methods->pdata[m];

      if (method->right == TPS_RIGHT_OPEN)
        grant->may[m] = MAY_CALL;
      for (guint i = 0; i < grant->n_mine; i++)
        {
          if (!rule_allows_method (grant->mine[i], method))
            continue;
          grant->sets[(gsize) m * grant->n_words + i / BITS] |= (guint64) 1 << i % BITS;
          grant->may[m] |= MAY_CALL;
          if (rule_allows_table (grant->mine[i], NULL, method->right))
            grant->may[m] |= ALL_TABLES;
        }
    }
  return grant;
}

TpsGrant *
tps_grant_ref (const TpsGrant *grant)
{
  TpsGrant *counted = (TpsGrant *) (gsize) grant;

  tps_refcount_inc (&counted->refcount);
  return counted;
}

void
tps_grant_unref (TpsGrant *grant)
{
  if (!tps_refcount_dec (&grant->refcount))
    return;
  tps_principal_unref (grant->principal);
  g_clear_pointer (&grant->rules, tps_rules_unref);
  g_free (grant->mine);
  g_free (grant->sets);
  g_free (grant->may);
  if (grant->release_owner != NULL)
    grant->release_owner (grant->owner);
  g_free (grant);
}

const TpsGrant *
tps_grant_get_current (void)
{
  return current;
}

const TpsGrant *
tps_grant_set_current (const TpsGrant *grant)
{
  const TpsGrant *before = current;

  current = grant;
  return before;
}

#define MAX_AUDITED 4096 /* principals with separate log rates; all others share one TpsAudit */
#define MAX_COUNTED 200  /* principals with separate metrics */

struct TpsAccess
{
  TpsRefcount refcount;
  gchar *rules_file;
  gchar *token_file;
  TpsCounter *accepted;
  TpsCounter *refused;
  atomic_uint version; /* incremented after each change of `rules` and `tokens` */

  TpsMutex lock;         /* guards everything below */
  TpsQuotas *quotas;     /* NULL = tenants have no limits */
  TpsRules *rules;       /* NULL = everything is allowed */
  TpsTokens *tokens;     /* NULL = there are no tokens */
  GPtrArray *methods;    /* of TpsGuardedMethod, by id */
  GHashTable *audits;    /* from the name of a principal to its TpsAudit */
  TpsAudit others;       /* of all principals beyond MAX_AUDITED */
  TpsCounters *counters; /* NULL = no metrics */
};

/* ---- files ---------------------------------------------------------------------------------- */

static gboolean
read_files (const TpsAccess *access, TpsRules **rules, TpsTokens **tokens, GError **error)
{
  g_autoptr (TpsRules) read = NULL;

  if (access->rules_file != NULL)
    read = tps_rules_read (access->rules_file, error);
  if (access->rules_file != NULL && read == NULL)
    return FALSE;
  if (access->token_file != NULL)
    *tokens = tps_tokens_read (access->token_file, error);
  if (access->token_file != NULL && *tokens == NULL)
    return FALSE;
  *rules = g_steal_pointer (&read);
  return TRUE;
}

/* Applies the limits of the current rules to the quotas. The lock must be held. */
static void
set_limits (TpsAccess *access)
{
  const GArray *tenants = access->rules != NULL ? tps_rules_get_tenants (access->rules) : NULL;

  if (access->quotas != NULL)
    tps_quotas_set_limits (access->quotas,
                           tenants != NULL ? (const TpsTenantEntry *) (gconstpointer) tenants->data
                                           : NULL,
                           tenants != NULL ? tenants->len : 0);
}

void
tps_access_set_quotas (TpsAccess *access, TpsQuotas *quotas)
{
  TpsQuotas *before;

  tps_mutex_lock (&access->lock);
  before = access->quotas;
  access->quotas = tps_quotas_ref (quotas);
  set_limits (access);
  tps_mutex_unlock (&access->lock);
  g_clear_pointer (&before, tps_quotas_unref);
}

gboolean
tps_access_reload (TpsAccess *access, GError **error)
{
  TpsRules *rules = NULL, *old_rules;
  TpsTokens *tokens = NULL, *old_tokens;

  if (!read_files (access, &rules, &tokens, error))
    return FALSE;
  tps_mutex_lock (&access->lock);
  old_rules = access->rules;
  old_tokens = access->tokens;
  access->rules = rules;
  access->tokens = tokens;
  set_limits (access);
  /* tps_identity_get_grant() reads the version without the lock. */
  atomic_fetch_add_explicit (&access->version, 1, memory_order_release);
  tps_mutex_unlock (&access->lock);
  g_clear_pointer (&old_rules, tps_rules_unref);
  g_clear_pointer (&old_tokens, tps_tokens_free);
  return TRUE;
}

/* ---- creation and release ------------------------------------------------------------------- */

static void
free_method (gpointer data)
{
  TpsGuardedMethod *method = data;

  g_free (method->name);
  g_free (method);
}

static const TpsFamily authentications = TPS_FAMILY (
    COUNTER, "authentications_total", "Authentications with a token, by result: done or failed.",
    .labels = { "result" });
static const TpsFamily durations = TPS_FAMILY (
    HISTOGRAM, "principal_request_duration_seconds",
    "Time from the arrival of a request to its reply, by the principal that made it.",
    .labels = { "principal" }, .max_series = MAX_COUNTED);
static const TpsFamily refused = TPS_FAMILY (
    COUNTER, "principal_refused_requests_total",
    "Requests that the rules refused, by the principal that made them.", .labels = { "principal" },
    .max_series = MAX_COUNTED);

static TpsAudit
new_audit (TpsCounters *counters, const gchar *name)
{
  return (TpsAudit) { TPS_TRACE_EVENT ("admin_call", TPS_TRACE_INFO),
                      TPS_TRACE_EVENT ("access_refused", TPS_TRACE_WARNING),
                      tps_counters_use_histogram (counters, &durations, name, NULL),
                      tps_counters_use_counter (counters, &refused, name, NULL) };
}

TpsAccess *
tps_access_new (const TpsAccessOptions *given, GError **error)
{
  TpsAccessOptions options;
  g_autoptr (TpsAccess) access = g_new0 (TpsAccess, 1);

  tps_refcount_init (&access->refcount);
  tps_mutex_init (&access->lock);
  TPS_SIZED_COPY (options, given);
  access->rules_file = g_strdup (options.rules_file);
  access->token_file = g_strdup (options.token_file);
  access->methods = g_ptr_array_new_with_free_func (free_method);
  access->audits = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  access->others = new_audit (NULL, NULL);
  atomic_init (&access->version, 0);
  return tps_access_reload (access, error) ? g_steal_pointer (&access) : NULL;
}

TPS_DEFINE_REF (TpsAccess, tps_access)

void
tps_access_unref (TpsAccess *access)
{
  if (!tps_refcount_dec (&access->refcount))
    return;
  g_clear_pointer (&access->rules, tps_rules_unref);
  g_clear_pointer (&access->tokens, tps_tokens_free);
  g_clear_pointer (&access->quotas, tps_quotas_unref);
  g_ptr_array_unref (access->methods);
  g_hash_table_unref (access->audits);
  g_clear_pointer (&access->counters, tps_counters_unref);
  tps_mutex_clear (&access->lock);
  g_free (access->rules_file);
  g_free (access->token_file);
  g_free (access);
}

void
tps_access_set_counters (TpsAccess *access, TpsCounters *counters)
{
  TPS_LOCK_SCOPE (&access->lock);
  if (access->counters == NULL)
    {
      access->counters = tps_counters_ref (counters);
      access->accepted = tps_counters_use_counter (counters, &authentications, "done", NULL);
      access->refused = tps_counters_use_counter (counters, &authentications, "failed", NULL);
      access->others = new_audit (counters, TPS_OTHER_VALUES);
    }
}

static gboolean
is_same_method (const TpsGuardedMethod *a, const TpsGuardedMethod *b)
{
  return a->right == b->right && strcmp (a->name, b->name) == 0;
}

void
tps_access_add_method (TpsAccess *access, TpsGuardedMethod *method)
{
  guint id = 0;

  TPS_LOCK_SCOPE (&access->lock);
  while (id < access->methods->len && !is_same_method (access->methods->pdata[id], method))
    id++;
  if (id == access->methods->len)
    {
      TpsGuardedMethod *copy = g_new (TpsGuardedMethod, 1);

      *copy = (TpsGuardedMethod) { g_strdup (method->name), method->right, id };
      g_ptr_array_add (access->methods, copy);
    }
  method->id = id;
}

/* ---- the grant of a principal ---------------------------------------------------------------- */

/* Returns the audit of a principal, which is created if necessary and freed with the access. The
 * lock must be held. */
static TpsAudit *
find_audit (TpsAccess *access, const gchar *name)
{
  TpsAudit *audit = g_hash_table_lookup (access->audits, name);

  if (audit != NULL)
    return audit;
  if (g_hash_table_size (access->audits) >= MAX_AUDITED)
    return &access->others;
  audit = g_new (TpsAudit, 1);
  *audit = new_audit (access->counters, name);
  g_hash_table_insert (access->audits, g_strdup (name), audit);
  return audit;
}

/* Returns the tenant of the first rule that names the principal and has a tenant; NULL = there is
 * no such rule. The lock must be held. */
static const gchar *
find_tenant (const TpsAccess *access, const gchar *name)
{
  guint n_rules = 0;
  const TpsRule *const *rules = access->rules != NULL ? tps_rules_get (access->rules, &n_rules)
                                                      : NULL;

  for (guint i = 0; i < n_rules; i++)
    if (rules[i]->tenant != NULL
        && tps_glob_matches_any ((const gchar *const *) rules[i]->principals, name))
      return rules[i]->tenant;
  return NULL;
}

static void
unref_access (gpointer access)
{
  tps_access_unref (access);
}

/* Creates a grant under the current rules. A NULL `tenant` is looked up in the rules. The lock must
 * be held. */
static TpsGrant *
make_grant (TpsAccess *access, TpsPrincipalKind kind, const gchar *name, const gchar *tenant)
{
  g_autoptr (TpsPrincipal) principal = tps_principal_new (
      kind, name, tenant != NULL ? tenant : find_tenant (access, name));

  return tps_grant_new (principal, access->rules, access->methods, find_audit (access, name),
                        tps_access_ref (access), unref_access);
}

/* ---- identities ----------------------------------------------------------------------------- */

void
tps_identity_init (TpsIdentity *identity, TpsAccess *access)
{
  *identity = (TpsIdentity) { .access = access != NULL ? tps_access_ref (access) : NULL,
                              .principal = tps_principal_ref (tps_principal_get_anonymous ()) };
}

void
tps_identity_clear (TpsIdentity *identity)
{
  g_clear_pointer (&identity->grant, tps_grant_unref);
  tps_principal_unref (identity->principal);
  g_clear_pointer (&identity->access, tps_access_unref);
}

void
tps_identity_show (TpsIdentity *identity, TpsPrincipalKind kind, const gchar *name)
{
  tps_principal_unref (identity->principal);
  identity->principal = tps_principal_new (kind, name, NULL);
  g_clear_pointer (&identity->grant, tps_grant_unref);
}

/* Replaces the grant by a grant under the newest rules. If the token of the identity no longer
 * exists, the grant is for the principal established by the connection itself. The lock of `access`
 * must be held. */
static void
renew_grant (TpsIdentity *identity)
{
  TpsAccess *access = identity->access;
  const TpsPrincipal *shown = identity->principal;
  const TpsTokenOwner *owner = identity->has_token && access->tokens != NULL
                                   ? tps_tokens_find (access->tokens, identity->digest)
                                   : NULL;

  g_clear_pointer (&identity->grant, tps_grant_unref);
  identity->version = atomic_load_explicit (&access->version, memory_order_relaxed);
  identity->grant = owner != NULL
                        ? make_grant (access, TPS_PRINCIPAL_TOKEN, owner->name, owner->tenant)
                        : make_grant (access, tps_principal_get_kind (shown),
                                      tps_principal_get_name (shown), NULL);
}

TpsGrant *
tps_identity_get_grant (TpsIdentity *identity)
{
  TpsAccess *access = identity->access;

  if (access == NULL)
    return NULL;
  if (identity->grant == NULL
      || identity->version != atomic_load_explicit (&access->version, memory_order_acquire))
    {
      tps_mutex_lock (&access->lock);
      renew_grant (identity);
      tps_mutex_unlock (&access->lock);
    }
  return tps_grant_ref (identity->grant);
}

const TpsPrincipal *
tps_identity_get_principal (const TpsIdentity *identity)
{
  return identity->grant != NULL ? identity->grant->principal : identity->principal;
}

/* Makes the owner of the token with this digest the principal of the identity. The lock of `access`
 * must be held. */
static gboolean
take_token (TpsIdentity *identity, const guint8 *digest, GError **error)
{
  const TpsTokens *tokens = identity->access->tokens;

  if (tokens == NULL)
    g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                         "this server has no tokens (--token-file)");
  else if (tps_tokens_find (tokens, digest) == NULL)
    {
      identity->n_failures++;
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_UNAUTHENTICATED,
                           "token: unknown to this server");
    }
  else
    {
      identity->has_token = TRUE;
      memcpy (identity->digest, digest, TPS_TOKEN_DIGEST_BYTES);
      renew_grant (identity);
      return TRUE;
    }
  return FALSE;
}

gboolean
tps_identity_has_token (const TpsIdentity *identity, const gchar *token)
{
  guint8 digest[TPS_TOKEN_DIGEST_BYTES];

  if (!identity->has_token)
    return FALSE;
  tps_token_hash (token, digest);
  return CRYPTO_memcmp (digest, identity->digest, TPS_TOKEN_DIGEST_BYTES) == 0;
}

gboolean
tps_identity_authenticate (TpsIdentity *identity, const gchar *token, GError **error)
{
  TpsAccess *access = identity->access;
  guint8 digest[TPS_TOKEN_DIGEST_BYTES] = { 0 };
  gboolean ok;

  if (access == NULL)
    return tps_fail (error, TPS_ERROR_UNAVAILABLE, "this server has no tokens (--token-file)");
  /* A token that is too long is not hashed. The zero digest makes it an unknown token. */
  if (strnlen (token, TPS_TOKEN_MAX_BYTES + 1) <= TPS_TOKEN_MAX_BYTES)
    tps_token_hash (token, digest);
  tps_mutex_lock (&access->lock);
  ok = take_token (identity, digest, error);
  tps_mutex_unlock (&access->lock);
  tps_counter_add (ok ? access->accepted : access->refused, 1);
  return ok;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A grant keeps the rules that name its principal. For each method it has a set of these rules, as
 * bits: the rules that allow the method. A call may use a table if one of the rules in the set of
 * its method allows the table. */

#include "plugin/access/grant.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

/* -- glob -- */

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

#define BITS 64

#define MAY_CALL 1   /* the set of the method is not empty, or the method is open */
#define ALL_TABLES 2 /* one rule of the set allows all tables with the right of the method */

static _Thread_local const TpsGrant *current; /* see tps_grant_set_current() */

/* ---- decisions ------------------------------------------------------------------------------ */

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

/* ---- refusals ------------------------------------------------------------------------------- */

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

/* ---- creation and release ------------------------------------------------------------------- */

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

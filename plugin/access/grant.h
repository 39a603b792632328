/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The permissions of one principal under one version of the rules.
 *
 * All decisions about methods are made when a grant is created, so that a check is a table lookup.
 * A grant is immutable and reference-counted. Thread: any. A NULL grant allows everything: another
 * component has checked the caller, or there are no rules.
 */

#pragma once

#include "plugin/access/principal.h"
#include "plugin/access/rules.h"
#include "runtime/base/counters.h"
#include "runtime/base/trace.h"

G_BEGIN_DECLS

typedef struct TpsGrant TpsGrant;

/* A method, for rules; immutable. */
typedef struct
{
  gchar *name; /* "Service:method" */
  TpsRight right;
  guint id; /* index in TpsAccess; TPS_METHOD_NO_ID: the rules are searched for each call */
} TpsGuardedMethod;

#define TPS_METHOD_NO_ID G_MAXUINT

/* Log rates and metrics of a principal, shared by its connections. */
typedef struct
{
  TpsTraceEvent admin_call;
  TpsTraceEvent access_refused;
  TpsHistogram *durations; /* of its calls; this and the next field: NULL = no metrics */
  TpsCounter *refused;
} TpsAudit;

/* Creates a grant. `rules` NULL: everything is allowed. It takes references of `principal` and
 * `rules`. `methods`, of TpsGuardedMethod, are the methods whose id is below their number. `owner`
 * keeps `audit` alive; the grant releases it with `release_owner`. */
TpsGrant *tps_grant_new (const TpsPrincipal *principal, TpsRules *rules, const GPtrArray *methods,
                         TpsAudit *audit, gpointer owner, GDestroyNotify release_owner);
TpsGrant *tps_grant_ref (const TpsGrant *grant);
void tps_grant_unref (TpsGrant *grant);

const TpsPrincipal *tps_grant_get_principal (const TpsGrant *grant); /* borrowed */
TpsAudit *tps_grant_get_audit (const TpsGrant *grant);               /* borrowed */

/* The errors of the checks below are UNAUTHENTICATED for an anonymous principal, and
 * PERMISSION_DENIED otherwise. They name the method or table of the call, but do not reveal whether
 * it exists. `sent` is the name of the method as the peer sent it. */
gboolean tps_grant_check_method (const TpsGrant *grant, const TpsGuardedMethod *method,
                                 const gchar *sent, GError **error);

/* Returns whether the peer may learn that `name` is not a method: whether a rule names it. */
gboolean tps_grant_check_name (const TpsGrant *grant, const gchar *name, GError **error);

/* `table` NULL: all present and future tables. */
gboolean tps_grant_check_table (const TpsGrant *grant, const TpsGuardedMethod *method,
                                const gchar *table, TpsRight right, GError **error);
gboolean tps_grant_allows_table (const TpsGrant *grant, const TpsGuardedMethod *method,
                                 const gchar *table, TpsRight right);

/* The grant under which this thread runs the program's own code, which may call services itself;
 * NULL = none. Setting it returns the previous one. */
const TpsGrant *tps_grant_get_current (void);
const TpsGrant *tps_grant_set_current (const TpsGrant *grant);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsGrant, tps_grant_unref)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What one principal may do under one version of the rules.
 *
 * All decisions about methods are made when a grant begins, so that a check is a look into a
 * table. A grant is immutable and reference-counted. Thread: any. A NULL grant allows everything:
 * the caller of such a call was checked elsewhere, or nothing is checked here.
 */

#pragma once

#include "plugin/access/principal.h"
#include "plugin/access/rules.h"
#include "runtime/base/counters.h"
#include "runtime/base/trace.h"

G_BEGIN_DECLS

typedef struct TpsGrant TpsGrant;

/* A method as rules see it; immutable. */
typedef struct
{
  gchar *name; /* "Service:method" */
  TpsRight right;
  guint id; /* index in TpsAccess; TPS_METHOD_NO_ID: rules are asked for each call */
} TpsGuardedMethod;

#define TPS_METHOD_NO_ID G_MAXUINT

/* Rates of what is logged about a principal, and numbers of it, shared by its connections. */
typedef struct
{
  TpsTraceEvent admin_call;
  TpsTraceEvent access_refused;
  TpsHistogram *durations; /* of its calls; NULL, as the next one: not counted */
  TpsCounter *refused;
} TpsAudit;

/* `rules` NULL: everything is allowed. References of `principal` and `rules` are taken; `methods`,
 * of TpsGuardedMethod, are the ones with an id below their number. `owner` keeps `audit` alive; it
 * is released with `release_owner`. */
TpsGrant *tps_grant_new (const TpsPrincipal *principal, TpsRules *rules, const GPtrArray *methods,
                         TpsAudit *audit, gpointer owner, GDestroyNotify release_owner);
TpsGrant *tps_grant_ref (const TpsGrant *grant);
void tps_grant_unref (TpsGrant *grant);

const TpsPrincipal *tps_grant_get_principal (const TpsGrant *grant); /* borrowed */
TpsAudit *tps_grant_get_audit (const TpsGrant *grant);               /* borrowed */

/* Errors of the checks below: UNAUTHENTICATED for an anonymous principal, otherwise
 * PERMISSION_DENIED. They name what was asked for and do not tell whether it exists. `sent`: the
 * name of the method as the peer sent it. */
gboolean tps_grant_check_method (const TpsGrant *grant, const TpsGuardedMethod *method,
                                 const gchar *sent, GError **error);

/* Whether `name`, which is no method, may be told so: whether a rule names it. */
gboolean tps_grant_check_name (const TpsGrant *grant, const gchar *name, GError **error);

/* `table` NULL: every table that there is or will be. */
gboolean tps_grant_check_table (const TpsGrant *grant, const TpsGuardedMethod *method,
                                const gchar *table, TpsRight right, GError **error);
gboolean tps_grant_allows_table (const TpsGrant *grant, const TpsGuardedMethod *method,
                                 const gchar *table, TpsRight right);

/* The grant under which this thread runs code of the program's own, which may call services in its
 * turn; NULL = none. Setting it returns the one before. */
const TpsGrant *tps_grant_get_current (void);
const TpsGrant *tps_grant_set_current (const TpsGrant *grant);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsGrant, tps_grant_unref)

G_END_DECLS

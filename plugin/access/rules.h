/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Who may do what, from a file in JSON:
 *
 *   { "rules": [
 *     { "principals": ["spiffe://fleet/trainer-*", "token:trainer"], "rights": ["read", "push"],
 *       "methods": ["EmbeddingTable", "ParameterServer:*"], "tables": ["ads.*"], "tenant": "ads" },
 *     { "principals": ["uid:0"], "rights": ["read", "push", "admin"], "tables": ["*"] } ] }
 *
 * A call is allowed if one rule names its principal, its method and a right that the method needs;
 * a table, if one of these rules names it too. Everything else is refused. All names are patterns
 * (glob.h). A rule without "methods" is for all of them, one without "tables" for no table.
 * "Service" is short for "Service:*". The first rule with a tenant that names a principal decides
 * its tenant. Beside "rules" the file may have "tenants", the limits of tenants (tenants.h).
 *
 * A TpsRules is immutable and reference-counted. Thread: any.
 */

#pragma once

#include "plugin/access/right.h"

G_BEGIN_DECLS

#define TPS_RULES_MAX_BYTES ((gsize) 1 << 20) /* of a file */

typedef struct TpsRules TpsRules;

/* Lists end with NULL and have at least one pattern, but for `tables`. */
typedef struct
{
  gchar **principals;
  gchar **methods; /* "Service:method" */
  gchar **tables;
  guint rights;  /* of TpsRight */
  gchar *tenant; /* NULL = none is said */
} TpsRule;

/* Errors: INVALID_ARGUMENT, "FILE:LINE: reason". */
TpsRules *tps_rules_read (const gchar *file, GError **error);
/* The same of a text; `file` is for errors. */
TpsRules *tps_rules_parse (const gchar *file, const gchar *text, GError **error);
TpsRules *tps_rules_ref (TpsRules *rules);
void tps_rules_unref (TpsRules *rules);

/* In the order of the file; borrowed. */
const TpsRule *const *tps_rules_get (const TpsRules *rules, guint *n_rules);

/* The limits of tenants (tenants.h): an array of TpsTenantEntry; borrowed. */
GArray *tps_rules_get_tenants (const TpsRules *rules);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRules, tps_rules_unref)

G_END_DECLS

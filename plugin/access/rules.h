/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rules of a server, from a file in JSON:
 *
 *   { "rules": [
 *     { "principals": ["spiffe://fleet/trainer-*", "token:trainer"], "rights": ["read", "push"],
 *       "methods": ["EmbeddingTable", "ParameterServer:*"], "tables": ["ads.*"], "tenant": "ads" },
 *     { "principals": ["uid:0"], "rights": ["read", "push", "admin"], "tables": ["*"] } ] }
 *
 * A call is allowed if a rule names its principal, its method and the right that the method needs.
 * A call may use a table if one of these rules also names the table. All other calls are refused,
 * with two exceptions: every principal may call methods with the right OPEN, and every
 * principal that a rule names may call methods with the right ANY. All names are patterns
 * (access.h). A rule without "methods" applies to all methods; a rule without "tables" applies to no
 * table.
 * "Service" is short for "Service:*". The tenant of a principal is that of the first rule that
 * names the principal and has a tenant. The file may also have "tenants", the limits of tenants
 * (tenants.h).
 *
 * A TpsRules is immutable and reference-counted. Thread: any.
 */

#pragma once

#include <thriftps/access.h>

#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

typedef struct _JsonNode JsonNode; /* of json-glib */

/* -- tenants -- */

/* The limits of tenants, in the member "tenants" of a file of rules:
 *
 *   "tenants": {
 *     "ads": { "calls_per_s": 20000, "calls_burst": 40000, "rows_per_s": 5000000,
 *              "bytes_in_per_s": 200000000, "bytes_out_per_s": 400000000,
 *              "table_bytes": 8000000000, "calls_in_flight": 256 },
 *     "*": { "calls_per_s": 100 } }
 *
 * The entry "*" applies to each tenant without a separate entry. An absent limit means no limit.
 * Values must be whole numbers from 1. The burst of a limit X_per_s is X_burst; its default is the
 * amount of one second.
 */

#define TPS_TENANT_MAX_NAME 128

/* Parses the entries into an array of TpsTenantEntry, which owns the names. The caller owns the
 * array. If `node` is NULL, the array is empty. Errors: INVALID_ARGUMENT, "tenants.ads.calls_per_s:
 * reason"; `*culprit` (may be NULL) is then the node with the error, borrowed. */
GArray *tps_tenants_parse (JsonNode *node, JsonNode **culprit, GError **error);

#define TPS_RULES_MAX_BYTES ((gsize) 1 << 20) /* of a file */

typedef struct TpsRules TpsRules;

/* All lists end with NULL; all but `tables` have at least one pattern. */
typedef struct
{
  gchar **principals;
  gchar **methods; /* "Service:method" */
  gchar **tables;
  guint rights;  /* bits of TpsRight */
  gchar *tenant; /* NULL = the rule names none */
} TpsRule;

/* Reads a file of rules, owned by the caller. Errors: INVALID_ARGUMENT, "FILE:LINE: reason". */
TpsRules *tps_rules_read (const gchar *file, GError **error);
/* Parses the rules in `text`; `file` is the file name for errors. The caller owns the result.
 * Errors: INVALID_ARGUMENT, "FILE:LINE: reason". */
TpsRules *tps_rules_parse (const gchar *file, const gchar *text, GError **error);
TpsRules *tps_rules_ref (TpsRules *rules);
void tps_rules_unref (TpsRules *rules);

/* Returns the rules in the order of the file; borrowed. */
const TpsRule *const *tps_rules_get (const TpsRules *rules, guint *n_rules);

/* Returns the limits of tenants (tenants.h): an array of TpsTenantEntry; borrowed. */
GArray *tps_rules_get_tenants (const TpsRules *rules);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsRules, tps_rules_unref)

G_END_DECLS

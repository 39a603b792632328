/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

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

#pragma once

#include <json-glib/json-glib.h>

#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

#define TPS_TENANT_MAX_NAME 128

/* Parses the entries into an array of TpsTenantEntry, which owns the names. The caller owns the
 * array. If `node` is NULL, the array is empty. Errors: INVALID_ARGUMENT, "tenants.ads.calls_per_s:
 * reason"; `*culprit` (may be NULL) is then the node with the error, borrowed. */
GArray *tps_tenants_parse (JsonNode *node, JsonNode **culprit, GError **error);

G_END_DECLS

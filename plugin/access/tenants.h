/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The limits of tenants, as the member "tenants" of a file of rules:
 *
 *   "tenants": {
 *     "ads": { "calls_per_s": 20000, "calls_burst": 40000, "rows_per_s": 5000000,
 *              "bytes_in_per_s": 200000000, "bytes_out_per_s": 400000000,
 *              "table_bytes": 8000000000, "calls_in_flight": 256 },
 *     "*": { "calls_per_s": 100 } }
 *
 * The entry "*" is for each tenant without an entry of its own. A limit that an entry does not have
 * is none. Values are whole numbers from 1. The burst of a limit X_per_s is X_burst, by default the
 * number of one second.
 */

#pragma once

#include <json-glib/json-glib.h>

#include "runtime/server/quota/quotas.h"

G_BEGIN_DECLS

#define TPS_TENANT_MAX_NAME 128

/* An array of TpsTenantEntry, which owns the names; the caller's. `node` NULL = an empty one.
 * Errors: INVALID_ARGUMENT, "tenants.ads.calls_per_s: reason"; `*culprit` (may be NULL) is then the
 * node that is wrong, borrowed. */
GArray *tps_tenants_parse (JsonNode *node, JsonNode **culprit, GError **error);

G_END_DECLS

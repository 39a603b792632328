/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tenants of one server, by name, and their limits.
 *
 * Limits are given as a list of names. Each named tenant has the limits of its entry alone; every
 * other tenant has limits of its own, with the values of the entry "*". Callers choose names of
 * tenants within the rules of the server, so the number of tenants without an entry is bounded.
 * Beyond the bound, further names share a single tenant with the name "(others)".
 *
 * Thread: any. Functions that find, change or list tenants take a lock. The calls of clients do not
 * need it: tps_quotas_find() is called once for a connection, and not for each call.
 */

#pragma once

#include "runtime/server/quota/tenant.h"

G_BEGIN_DECLS

#define TPS_QUOTAS_DEFAULT_NAME "*"
#define TPS_QUOTAS_OTHERS_NAME "(others)"
#define TPS_QUOTAS_MAX_UNLISTED 1000

typedef struct TpsQuotas TpsQuotas;

typedef struct
{
  TpsTenantOptions tenants; /* a reference to the budget is taken */
  guint max_unlisted;       /* tenants without an entry; 0 = TPS_QUOTAS_MAX_UNLISTED */
} TpsQuotasOptions;

/* Without limits at first. */
TpsQuotas *tps_quotas_new (const TpsQuotasOptions *options);
TpsQuotas *tps_quotas_ref (TpsQuotas *quotas);
/* With the last reference, all calls must have ended and all tables of tenants must have been
 * freed. */
void tps_quotas_unref (TpsQuotas *quotas);

typedef struct
{
  const gchar *name; /* "*" = every tenant that has no entry */
  TpsTenantLimits limits;
} TpsTenantEntry;

/* Replaces all entries, and makes the tenants that they name. Tenants keep the state of their
 * buckets; a tenant whose entry has been removed has the limits of "*", or none. If two entries
 * have the same name, the last one applies. */
void tps_quotas_set_limits (TpsQuotas *quotas, const TpsTenantEntry *entries, guint n_entries);

/* Calls tps_tenant_enforce_table_bytes() for all tenants, present and future. */
void tps_quotas_enforce_table_bytes (TpsQuotas *quotas);

/* The tenant of that name, made if it is new. Borrowed, and never NULL. */
TpsTenant *tps_quotas_find (TpsQuotas *quotas, const gchar *name);

/* The use of its limits by each tenant, in the order of the names: an array of TpsTenantStatus,
 * whose texts live as long as `quotas`. The caller owns the array. */
GArray *tps_quotas_list (TpsQuotas *quotas);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsQuotas, tps_quotas_unref)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tenants of one server, by name, and their limits. A tenant without an entry has the limits of
 * the entry "*", which it does not share. Because clients may choose names, the number of such
 * tenants is bounded; beyond it, names share the tenant "(others)". Thread: any; calls of clients
 * take no lock, because tps_quotas_find() is called once for a connection. */

#pragma once

#include "runtime/base/counters.h"
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

/* Creates quotas without entries. `options` is copied. The caller owns the reference. */
TpsQuotas *tps_quotas_new (const TpsQuotasOptions *options);
TpsQuotas *tps_quotas_ref (TpsQuotas *quotas);
/* Before the last reference is released, all calls must have ended and all tables of tenants must
 * have been freed. */
void tps_quotas_unref (TpsQuotas *quotas);

typedef struct
{
  const gchar *name; /* "*" = every tenant without an entry of its own */
  TpsTenantLimits limits;
} TpsTenantEntry;

/* Replaces all entries, which are copied, and creates the tenants that they name. Tenants keep the
 * state of their buckets. A tenant whose entry has been removed has the limits of "*", or none if
 * there is no such entry. If two entries have the same name, the last one applies. */
void tps_quotas_set_limits (TpsQuotas *quotas, const TpsTenantEntry *entries, guint n_entries);

/* Calls tps_tenant_enforce_table_bytes() for all tenants, present and future. */
void tps_quotas_enforce_table_bytes (TpsQuotas *quotas);

/* Returns the tenant `name`, or "(others)"; creates it if it is new. Borrowed; never NULL. */
TpsTenant *tps_quotas_find (TpsQuotas *quotas, const gchar *name);

/* Returns the limits of all tenants and their use, in the order of the names: an array of
 * TpsTenantStatus, owned by the caller. Its strings live as long as `quotas`. */
GArray *tps_quotas_list (TpsQuotas *quotas);

/* Adds a sample of every tenant to each metric family. This is a TpsCollect for
 * tps_counters_add_collector(), with a TpsQuotas as `user_data`, which must outlive the collector.
 * Tenants beyond the maximum number of `quotas` or of a family are added up in one sample. */
void tps_quotas_collect (TpsReading *reading, gpointer quotas);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsQuotas, tps_quotas_unref)

G_END_DECLS

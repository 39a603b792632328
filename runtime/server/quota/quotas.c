/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/quota/quotas.h"

#include <string.h>

#include "runtime/base/sync.h"

struct TpsQuotas
{
  TpsRefcount refcount;
  TpsTenantOptions options;
  guint max_unlisted;

  TpsMutex lock;       /* guards everything below */
  GHashTable *entries; /* TpsTenantLimits, by name */
  GHashTable *tenants; /* TpsTenant, by name; the tenant owns the key */
  guint n_unlisted;    /* tenants that were made without an entry */
  gboolean enforces_table_bytes;
};

TpsQuotas *
tps_quotas_new (const TpsQuotasOptions *options)
{
  TpsQuotas *quotas = g_new0 (TpsQuotas, 1);

  tps_refcount_init (&quotas->refcount);
  quotas->options = options->tenants;
  tps_budget_ref (quotas->options.tables);
  quotas->max_unlisted = options->max_unlisted > 0 ? options->max_unlisted
                                                   : TPS_QUOTAS_MAX_UNLISTED;
  tps_mutex_init (&quotas->lock);
  quotas->entries = g_hash_table_new_full (g_str_hash, g_str_equal, g_free, g_free);
  quotas->tenants = g_hash_table_new_full (g_str_hash, g_str_equal, NULL,
                                           (GDestroyNotify) tps_tenant_free);
  return quotas;
}

TPS_DEFINE_REF (TpsQuotas, tps_quotas)

void
tps_quotas_unref (TpsQuotas *quotas)
{
  if (!tps_refcount_dec (&quotas->refcount))
    return;
  g_hash_table_unref (quotas->tenants);
  g_hash_table_unref (quotas->entries);
  tps_budget_unref (quotas->options.tables);
  tps_mutex_clear (&quotas->lock);
  g_free (quotas);
}

/* ---- look-ups (lock held) -------------------------------------------------------------------- */

static const TpsTenantLimits *
find_limits (const TpsQuotas *quotas, const gchar *name)
{
  static const TpsTenantLimits none;
  const TpsTenantLimits *limits = g_hash_table_lookup (quotas->entries, name);

  if (limits == NULL)
    limits = g_hash_table_lookup (quotas->entries, TPS_QUOTAS_DEFAULT_NAME);
  return limits != NULL ? limits : &none;
}

static TpsTenant *
add_tenant (TpsQuotas *quotas, const gchar *name)
{
  TpsTenant *tenant = tps_tenant_new (name, &quotas->options);

  tps_tenant_set_limits (tenant, find_limits (quotas, name));
  if (quotas->enforces_table_bytes)
    tps_tenant_enforce_table_bytes (tenant);
  g_hash_table_insert (quotas->tenants, (gpointer) (guintptr) tps_tenant_get_name (tenant), tenant);
  return tenant;
}

static TpsTenant *
provide_tenant (TpsQuotas *quotas, const gchar *name)
{
  TpsTenant *tenant = g_hash_table_lookup (quotas->tenants, name);

  return tenant != NULL ? tenant : add_tenant (quotas, name);
}

/* ---- tenants --------------------------------------------------------------------------------- */

TpsTenant *
tps_quotas_find (TpsQuotas *quotas, const gchar *name)
{
  TpsTenant *tenant;

  TPS_LOCK_SCOPE (&quotas->lock);
  tenant = g_hash_table_lookup (quotas->tenants, name);
  if (tenant != NULL)
    return tenant;
  if (!g_hash_table_contains (quotas->entries, name))
    {
      if (quotas->n_unlisted >= quotas->max_unlisted)
        return provide_tenant (quotas, TPS_QUOTAS_OTHERS_NAME);
      quotas->n_unlisted++;
    }
  return add_tenant (quotas, name);
}

void
tps_quotas_set_limits (TpsQuotas *quotas, const TpsTenantEntry *entries, guint n_entries)
{
  GHashTableIter tenants;
  gpointer name, tenant;

  TPS_LOCK_SCOPE (&quotas->lock);
  g_hash_table_remove_all (quotas->entries);
  for (guint i = 0; i < n_entries; i++)
    g_hash_table_insert (quotas->entries, g_strdup (entries[i].name),
                         g_memdup2 (&entries[i].limits, sizeof entries[i].limits));
  for (guint i = 0; i < n_entries; i++)
    if (strcmp (entries[i].name, TPS_QUOTAS_DEFAULT_NAME) != 0)
      provide_tenant (quotas, entries[i].name);
  g_hash_table_iter_init (&tenants, quotas->tenants);
  while (g_hash_table_iter_next (&tenants, &name, &tenant))
    tps_tenant_set_limits (tenant, find_limits (quotas, name));
}

void
tps_quotas_enforce_table_bytes (TpsQuotas *quotas)
{
  GHashTableIter tenants;
  gpointer tenant;

  TPS_LOCK_SCOPE (&quotas->lock);
  quotas->enforces_table_bytes = TRUE;
  g_hash_table_iter_init (&tenants, quotas->tenants);
  while (g_hash_table_iter_next (&tenants, NULL, &tenant))
    tps_tenant_enforce_table_bytes (tenant);
}

static gint
compare_names (gconstpointer a, gconstpointer b)
{
  const TpsTenantStatus *left = a;
  const TpsTenantStatus *right = b;

  return strcmp (left->name, right->name);
}

GArray *
tps_quotas_list (TpsQuotas *quotas)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (TpsTenantStatus));
  GHashTableIter tenants;
  gpointer tenant;

  tps_mutex_lock (&quotas->lock);
  g_hash_table_iter_init (&tenants, quotas->tenants);
  while (g_hash_table_iter_next (&tenants, NULL, &tenant))
    {
      TpsTenantStatus status;

      tps_tenant_get_status (tenant, &status);
      g_array_append_val (all, status);
    }
  tps_mutex_unlock (&quotas->lock);
  g_array_sort (all, compare_names);
  return all;
}

/* ---- metrics --------------------------------------------------------------------------------- */

static const TpsFamily refused = TPS_FAMILY (
    COUNTER, "tenant_refused_total",
    "Calls and tables that were refused because their tenant was at a limit.",
    .labels = { "tenant", "limit" }, .max_series = TPS_FAMILY_MAX_SERIES * TPS_N_QUOTAS);
static const TpsFamily throttled = TPS_FAMILY (COUNTER, "tenant_throttled_seconds_total",
                                               "Sum of the retry delays of refused calls.",
                                               .labels = { "tenant" }, .n_decimals = 3);
static const TpsFamily limits = TPS_FAMILY (
    GAUGE, "tenant_limit",
    "Limits of tenants, if set: calls, rows or bytes per second; calls in flight; bytes.",
    .labels = { "tenant", "limit" }, .max_series = TPS_FAMILY_MAX_SERIES * TPS_N_QUOTAS);
static const TpsFamily levels = TPS_FAMILY (
    GAUGE, "tenant_tokens",
    "The part of a limit that a tenant may still use at once; negative while it is in debt.",
    .labels = { "tenant", "limit" }, .max_series = TPS_FAMILY_MAX_SERIES * TPS_N_RATES);
static const TpsFamily in_flight = TPS_FAMILY (
    GAUGE, "tenant_calls_in_flight",
    "Calls of a tenant that have been admitted and not been answered.", .labels = { "tenant" });
static const TpsFamily table_bytes = TPS_FAMILY (
    GAUGE, "tenant_table_bytes",
    "Memory of the tables that a tenant has created, in the host and on devices.",
    .labels = { "tenant" });

static guint64
get_limit (const TpsTenantLimits *said, TpsQuotaKind kind)
{
  if (kind == TPS_QUOTA_CALLS_IN_FLIGHT)
    return said->calls_in_flight;
  return kind == TPS_QUOTA_TABLE_BYTES ? said->table_bytes : said->rates[kind].per_s;
}

static void
add_limit (TpsReading *reading, const TpsTenantStatus *status, TpsQuotaKind kind)
{
  const gchar *name = tps_quota_kind_name (kind);
  guint64 limit = get_limit (&status->limits, kind);

  if (limit > 0 || status->n_refused[kind] > 0)
    tps_reading_add (reading, &refused, status->name, name, (gint64) status->n_refused[kind]);
  if (limit == 0)
    return;
  tps_reading_add (reading, &limits, status->name, name, (gint64) limit);
  if (kind < TPS_N_RATES)
    tps_reading_add (reading, &levels, status->name, name, status->levels[kind]);
}

void
tps_quotas_collect (TpsReading *reading, gpointer quotas)
{
  g_autoptr (GArray) all = tps_quotas_list (quotas);

  for (guint i = 0; i < all->len; i++)
    {
      const TpsTenantStatus *status = &g_array_index (all, TpsTenantStatus, i);

      tps_reading_add (reading, &throttled, status->name, NULL, (gint64) status->throttled_ms);
      tps_reading_add (reading, &in_flight, status->name, NULL, (gint64) status->n_calls_in_flight);
      tps_reading_add (reading, &table_bytes, status->name, NULL, (gint64) status->n_table_bytes);
      for (guint kind = 0; kind < TPS_N_QUOTAS; kind++)
        add_limit (reading, status, (TpsQuotaKind) kind);
    }
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "runtime/server/quota/quota_metrics.h"

static const TpsFamily refused = {
  .name = "tenant_refused_total",
  .help = "Calls and tables that were refused because their tenant was at a limit.",
  .labels = { "tenant", "limit" },
  .max_series = TPS_FAMILY_MAX_SERIES * TPS_N_QUOTAS,
};

static const TpsFamily throttled = {
  .name = "tenant_throttled_seconds_total",
  .help = "Sum of the retry delays of refused calls.",
  .labels = { "tenant" },
  .n_decimals = 3,
};

static const TpsFamily limits = {
  .name = "tenant_limit",
  .help = "Limits of tenants, if set: calls, rows or bytes per second; calls in flight; bytes.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "tenant", "limit" },
  .max_series = TPS_FAMILY_MAX_SERIES * TPS_N_QUOTAS,
};

static const TpsFamily levels = {
  .name = "tenant_tokens",
  .help = "The part of a limit that a tenant may still use at once; negative while it is in debt.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "tenant", "limit" },
  .max_series = TPS_FAMILY_MAX_SERIES * TPS_N_RATES,
};

static const TpsFamily in_flight = {
  .name = "tenant_calls_in_flight",
  .help = "Calls of a tenant that have been admitted and not been answered.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "tenant" },
};

static const TpsFamily table_bytes = {
  .name = "tenant_table_bytes",
  .help = "Memory of the tables that a tenant has created, in the host and on devices.",
  .kind = TPS_FAMILY_GAUGE,
  .labels = { "tenant" },
};

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

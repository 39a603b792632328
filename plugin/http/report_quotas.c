/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/http/reports.h"
#include "runtime/server/quota/quotas.h"

#define MAX_TENANTS 1000

static void
add_limit (TpsJsonWriter *json, TpsQuotaKind kind, gint64 used, guint64 max)
{
  if (max == 0)
    return;
  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "kind", tps_quota_kind_name (kind));
  tps_json_add_int (json, "used", used);
  tps_json_add_uint (json, "max", max);
  tps_json_close (json, '}');
}

/* For a rate, "used" is the number of tokens that the bucket lacks until it is full. */
static void
add_limits (TpsJsonWriter *json, const TpsTenantStatus *status)
{
  const TpsTenantLimits *limits = &status->limits;

  tps_json_open (json, "limits", '[');
  for (guint i = 0; i < TPS_N_RATES; i++)
    {
      const TpsRateLimit *rate = &limits->rates[i];
      guint64 burst = rate->burst > 0 ? rate->burst : rate->per_s;

      add_limit (json, (TpsQuotaKind) i, (gint64) burst - status->levels[i],
                 rate->per_s > 0 ? burst : 0);
    }
  add_limit (json, TPS_QUOTA_CALLS_IN_FLIGHT, (gint64) status->n_calls_in_flight,
             limits->calls_in_flight);
  add_limit (json, TPS_QUOTA_TABLE_BYTES, (gint64) status->n_table_bytes, limits->table_bytes);
  tps_json_close (json, ']');
}

static void
add_tenant (TpsJsonWriter *json, const TpsTenantStatus *status)
{
  guint64 n_refused = 0;

  for (guint i = 0; i < TPS_N_QUOTAS; i++)
    n_refused += status->n_refused[i];
  tps_json_open (json, NULL, '{');
  tps_json_add_text (json, "tenant", status->name);
  tps_json_add_uint (json, "in_flight", status->n_calls_in_flight);
  tps_json_add_uint (json, "table_bytes", status->n_table_bytes);
  tps_json_add_uint (json, "refused", n_refused);
  tps_json_add_real (json, "throttled_s", (gdouble) status->throttled_ms / 1e3, 3);
  add_limits (json, status);
  tps_json_close (json, '}');
}

void
tps_reports_add_quotas (const TpsReports *reports, TpsJsonWriter *json)
{
  TpsQuotas *quotas = tps_plugin_get_quotas (reports->plugin);
  g_autoptr (GArray) tenants = quotas != NULL ? tps_quotas_list (quotas) : NULL;

  tps_json_open (json, "quotas", '[');
  for (guint i = 0; tenants != NULL && i < tenants->len && i < MAX_TENANTS; i++)
    add_tenant (json, &g_array_index (tenants, TpsTenantStatus, i));
  tps_json_close (json, ']');
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Making a table in the place that its specification names, with memory, budgets, lanes and
 * metrics. */

#include "runtime/server/tables/table_store_private.h"

#include "runtime/base/error.h"
#include "runtime/server/tables/row_store.h"

/* Returns the lanes of a device, which are made on first use and live as long as the store. */
static TpsDeviceLanes *
provide_lanes (TpsTableStore *store, TpsDevice *device)
{
  TpsDeviceLanes *lanes;

  tps_mutex_lock (&store->making_lock);
  lanes = g_hash_table_lookup (store->lanes, device);
  if (lanes == NULL)
    {
      lanes = tps_device_lanes_new (device, store->answer_budget, store->scratch_budget,
                                    store->kept_budget);
      g_hash_table_insert (store->lanes, device, lanes);
    }
  tps_mutex_unlock (&store->making_lock);
  return lanes;
}

/* Sets the budgets of a table. Its host memory is charged to the budget of its tenant; without a
 * tenant, to the budget of all tables. */
static void
find_budgets (TpsTableStore *store, const TpsTableSpec *spec, TpsTableOptions *options)
{
  TpsTenant *tenant = spec->tenant != NULL && store->quotas != NULL
                          ? tps_quotas_find (store->quotas, spec->tenant)
                          : NULL;

  options->budget = tenant != NULL ? tps_tenant_get_table_budget (tenant) : NULL;
  options->quota = tenant != NULL ? tps_tenant_get_table_quota (tenant) : NULL;
  if (options->budget == NULL)
    options->budget = store->budget;
}

static TpsTable *
make_on_device (TpsTableStore *store, const TpsTableSpec *spec, const TpsTableOptions *options,
                GError **error)
{
  TpsBudget *budget = spec->place.is_host_memory ? options->budget : store->device_budget;
  TpsDevice *device;

  device = store->find_device (spec->place.device, error);
  if (device == NULL)
    {
      g_prefix_error (error, "spec.device: ");
      return NULL;
    }
  return tps_table_new_on_device (spec, provide_lanes (store, device), budget, options, error);
}

TpsTable *
tps_table_store_make_table (TpsTableStore *store, const TpsTableSpec *spec, gboolean is_unfilled,
                            GError **error)
{
  TpsTableOptions options = { .workers = store->workers,
                              .keeps_lsns = store->keeps_row_lsns,
                              .is_unfilled = is_unfilled };
  gboolean is_on_host = g_str_equal (spec->place.device, TPS_TABLE_STORE_HOST);
  TpsTable *table;

  find_budgets (store, spec, &options);
  table = is_on_host ? tps_table_new (spec, &options, error)
                     : make_on_device (store, spec, &options, error);
  if (table == NULL)
    return NULL;
  table->row_store = is_on_host ? &tps_rows_on_host : &tps_rows_on_device;
  table->numbers = tps_table_numbers_new (store->counters, &table->spec);
  return table;
}

TpsTable *
tps_table_store_make_restored (TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  TpsTable *table = tps_table_store_make_table (store, spec, TRUE, error);

  /* A store without a log (durability 0) cannot keep the durability of the snapshot. */
  if (table != NULL && (table->spec.durability == 0 || store->durability == 0))
    table->spec.durability = store->durability;
  return table;
}

TpsTable *
tps_table_store_make_unfilled (TpsTableStore *store, const TpsTableSpec *spec, GError **error)
{
  if (g_str_equal (spec->place.device, TPS_TABLE_STORE_HOST))
    return tps_table_store_make_restored (store, spec, error);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "table %s: only tables in the host's memory are imported, and this one is on %s",
               spec->name, spec->place.device);
  return NULL;
}

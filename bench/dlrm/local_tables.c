/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/local_tables.h"

#include "bench/dlrm/table_names.h"
#include "runtime/server/tables/table_store.h"

typedef struct
{
  TpsTableClient base; /* must be the first member */
  TpsTableStore *store;
} LocalTables;

static void
lookup_bags (TpsTableClient *client, const TpsBagQuery *queries, guint n_queries,
             G_GNUC_UNUSED gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  g_autoptr (GError) error = NULL;
  g_autofree TpsTensor *outputs = g_new0 (TpsTensor, n_queries);

  if (tps_table_store_lookup_bags (((LocalTables *) client)->store, queries, n_queries, outputs,
                                   &error))
    done (user_data, outputs, NULL);
  else
    done (user_data, NULL, error);
  for (guint i = 0; i < n_queries; i++)
    tps_tensor_clear (&outputs[i]);
}

static void
apply_bags (TpsTableClient *client, const TpsBagGradient *gradients, guint n_gradients,
            G_GNUC_UNUSED gint64 deadline_ns, TpsTablesApplied done, gpointer user_data)
{
  g_autoptr (GError) error = NULL;

  tps_table_store_apply_bags (((LocalTables *) client)->store, gradients, n_gradients, &error);
  done (user_data, error);
}

/* Does nothing: no call is in flight after the function that starts it has returned. */
static void
cancel (G_GNUC_UNUSED TpsTableClient *client)
{
}

static void
free_tables (TpsTableClient *client)
{
  tps_table_store_free (((LocalTables *) client)->store);
  g_free (client);
}

TpsTableClient *
tps_dlrm_local_tables_new (const TpsDlrmOptions *options, GError **error)
{
  static const TpsTableClientOps ops = {
    .lookup_bags = lookup_bags, .apply_bags = apply_bags, .cancel = cancel, .free = free_tables
  };
  TpsTableStoreOptions none = { 0 };
  LocalTables *tables = g_new0 (LocalTables, 1);

  tables->base.ops = &ops;
  tables->store = tps_table_store_new (&none);
  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    {
      g_auto (TpsTableSpec) spec = { 0 };

      tps_dlrm_table_spec_init (&spec, options, t);
      if (tps_table_spec_resolve (&spec, error)
          && tps_table_store_create (tables->store, &spec, error))
        continue;
      free_tables (&tables->base);
      return NULL;
    }
  return &tables->base;
}

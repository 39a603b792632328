/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Remote tables as the TpsTableClient of a trainer. */

#include "plugin/client/remote_tables.h"

typedef struct
{
  TpsTableClient base;
  TpsRemoteTables *tables;
} RemoteTableClient;

static void
client_lookup_bags (TpsTableClient *base, const TpsBagQuery *queries, guint n_queries,
                    gint64 deadline_ns, TpsTablesLookedUp done, gpointer user_data)
{
  tps_remote_tables_lookup_bags (((RemoteTableClient *) base)->tables, queries, n_queries,
                                 deadline_ns, done, user_data);
}

static void
client_apply_bags (TpsTableClient *base, const TpsBagGradient *gradients, guint n_gradients,
                   gint64 deadline_ns, TpsTablesApplied done, gpointer user_data)
{
  tps_remote_tables_apply_bags (((RemoteTableClient *) base)->tables, gradients, n_gradients,
                                deadline_ns, done, user_data);
}

static void
client_cancel (TpsTableClient *base)
{
  tps_remote_tables_cancel (((RemoteTableClient *) base)->tables);
}

static void
client_free (TpsTableClient *base)
{
  tps_remote_tables_free (((RemoteTableClient *) base)->tables);
  g_free (base);
}

TpsTableClient *
tps_remote_tables_as_client (TpsRemoteTables *tables)
{
  static const TpsTableClientOps ops = {
    .lookup_bags = client_lookup_bags,
    .apply_bags = client_apply_bags,
    .cancel = client_cancel,
    .free = client_free,
  };
  RemoteTableClient *client = g_new (RemoteTableClient, 1);

  *client = (RemoteTableClient) { .base = { .ops = &ops }, .tables = tables };
  return &client->base;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "plugin/trainer/trainer_links.h"

#include <thriftps/client.h>

#include "runtime/trainer/pass/partition.h"

/* Returns the number under which the servers know the trainer. If each server averages only its own
 * trainers, it numbers them from 0. */
static gint32
get_trainer_number (const TpsTrainPlan *plan)
{
  guint n_servers = plan->n_servers;
  guint first;
  guint n;

  if (!plan->partition_by_trainer || n_servers == 0)
    return (gint32) plan->rank;
  tps_partition_get_trainers (tps_partition_find_server (plan->rank, plan->world_size, n_servers),
                              plan->world_size, n_servers, &first, &n);
  return (gint32) (plan->rank - first);
}

/* Returns the addresses of the servers. The elements are borrowed. */
static GPtrArray *
list_addresses (const TpsTrainPlan *plan)
{
  GPtrArray *addresses = g_ptr_array_new ();

  for (guint i = 0; i < plan->n_servers; i++)
    g_ptr_array_add (addresses, plan->servers[i].address);
  return addresses;
}

static TpsExchange *
connect_servers (gpointer user_data, const TpsTrainPlan *plan, GError **error)
{
  const TpsTrainerReach *reach = user_data;
  g_autoptr (GPtrArray) addresses = list_addresses (plan);
  TpsRemoteExchangeOptions options = { .trainer = get_trainer_number (plan),
                                       .tls = reach->tls,
                                       .token = reach->token };

  options.addresses = (const gchar *const *) addresses->pdata;
  options.n_addresses = addresses->len;
  options.device = plan->chosen;
  return tps_remote_exchange_new (&options, error);
}

static TpsStore *
connect_store (gpointer user_data, const TpsTrainPlan *plan, GError **error)
{
  const TpsTrainerReach *reach = user_data;
  TpsRemoteStoreOptions options = { .address = reach->master,
                                    .tls = reach->tls,
                                    .token = reach->token };

  if (plan->rendezvous[0] != '\0')
    options.address = plan->rendezvous;
  if (options.address != NULL)
    return tps_remote_store_new (&options, error);
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                       "spec.rendezvous is empty, and this process has no rendezvous of its own");
  return NULL;
}

/* Returns a client that already knows all tables on the servers. */
static TpsTableClient *
connect_tables (gpointer user_data, const TpsTrainPlan *plan, TpsDevice *lookup_device,
                GError **error)
{
  const TpsTrainerReach *reach = user_data;
  g_autoptr (GPtrArray) addresses = list_addresses (plan);
  TpsRemoteTablesOptions options = {
    .tls = reach->tls,
    .token = reach->token,
    .addresses = (const gchar *const *) addresses->pdata,
    .n_addresses = addresses->len,
    .lookup_device = lookup_device,
  };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, error);

  if (tables == NULL
      || !tps_remote_tables_discover (tables, g_get_monotonic_time () * 1000 + plan->rpc_timeout_ns,
                                      error))
    return NULL;
  return tps_remote_tables_as_client (g_steal_pointer (&tables));
}

static TpsModelClient *
connect_model (gpointer user_data, const TpsTrainPlan *plan, GError **error)
{
  const TpsTrainerReach *reach = user_data;
  TpsRemoteModelOptions options = {
    .tls = reach->tls,
    .token = reach->token,
    .address = plan->servers[0].address,
    .trainer = (gint32) plan->rank,
  };

  return tps_remote_model_new (&options, error);
}

TpsTrainerLinks
tps_trainer_links (const TpsTrainerReach *reach)
{
  static const TpsTrainerReach nothing;

  return (TpsTrainerLinks) {
    .connect_servers = connect_servers,
    .connect_store = connect_store,
    .connect_tables = connect_tables,
    .connect_model = connect_model,
    .user_data = (gpointer) (gsize) (reach != NULL ? reach : &nothing),
  };
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/load.h"

#define N_SETS 16 /* number of sets of ids; drawn in advance, outside the measured time */
#define SEED 17

typedef struct
{
  const TpsDurabilityLoad *load;
  TpsRemoteTables *tables;
  gint64 *ids; /* [N_SETS, n_ids] */
  guint set;
} Client;

struct TpsDurabilityLoad
{
  const TpsDurabilityLoadShape *shape;
  gfloat *values;     /* [n_ids, dim], all -1: a step of SGD with the learning rate 1 then adds 1 */
  GPtrArray *clients; /* of Client */
  TpsCallers *callers; /* NULL = not started */
};

static void
client_free (gpointer data)
{
  Client *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  g_free (client->ids);
  g_free (client);
}

static gboolean
call_once (gpointer data, GError **error)
{
  Client *client = data;
  const TpsDurabilityLoadShape *shape = client->load->shape;
  const TpsDurabilityTable *table = shape->table;
  TpsTensorView ids = tps_view_ids (client->ids + client->set++ % N_SETS * shape->n_ids,
                                    shape->n_ids);
  g_auto (TpsTensor) rows = { 0 };

  if (shape->is_push)
    return tps_remote_tables_apply_rows_sync (
        client->tables, table->name, ids,
        tps_view_rows (client->load->values, shape->n_ids, table->dim), tps_served_get_deadline (),
        error);
  return tps_remote_tables_lookup_rows_sync (client->tables, table->name, ids,
                                             tps_served_get_deadline (), &rows, error);
}

static gboolean
connect_client (TpsDurabilityLoad *load, const gchar *address, GError **error)
{
  const TpsDurabilityLoadShape *shape = load->shape;
  Client *client = g_new0 (Client, 1);
  g_autoptr (GRand) dice = g_rand_new_with_seed (SEED + load->clients->len);

  g_ptr_array_add (load->clients, client);
  client->load = load;
  client->ids = g_new (gint64, N_SETS * shape->n_ids);
  for (gsize i = 0; i < N_SETS * shape->n_ids; i++)
    client->ids[i] = g_rand_int_range (dice, 0, (gint32) shape->table->n_rows);
  client->tables = tps_served_connect (address, NULL, NULL, error);
  return client->tables != NULL;
}

TpsDurabilityLoad *
tps_durability_load_start (const gchar *address, const TpsDurabilityLoadShape *shape,
                           GError **error)
{
  g_autoptr (TpsDurabilityLoad) load = g_new0 (TpsDurabilityLoad, 1);

  load->shape = shape;
  load->values = g_new (gfloat, shape->n_ids * shape->table->dim);
  for (gsize i = 0; i < shape->n_ids * shape->table->dim; i++)
    load->values[i] = -1;
  load->clients = g_ptr_array_new_with_free_func (client_free);
  for (guint i = 0; i < shape->n_clients; i++)
    if (!connect_client (load, address, error))
      return NULL;
  load->callers = tps_callers_start (load->clients->pdata, load->clients->len, call_once, 0, 0);
  return g_steal_pointer (&load);
}

void
tps_durability_load_free (TpsDurabilityLoad *load)
{
  for (guint i = 0; load->callers != NULL && i < load->clients->len; i++)
    tps_remote_tables_cancel (((Client *) load->clients->pdata[i])->tables);
  if (load->callers != NULL)
    {
      GArray *calls = tps_callers_stop (load->callers, NULL);

      g_clear_pointer (&calls, g_array_unref);
    }
  g_ptr_array_unref (load->clients);
  g_free (load->values);
  g_free (load);
}

GArray *
tps_durability_load_stop (TpsDurabilityLoad *load, GError **error)
{
  g_autoptr (TpsDurabilityLoad) stopped = load;

  return tps_callers_stop (g_steal_pointer (&load->callers), error);
}

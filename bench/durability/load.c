/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/load.h"

#include <stdatomic.h>

#include "runtime/base/sync.h"

#define N_SETS 16 /* number of sets of ids; drawn in advance, outside the measured time */
#define SEED 17

/* A client. Its thread owns `calls` and `error` until the thread has ended. */
typedef struct
{
  TpsDurabilityLoad *load;
  TpsRemoteTables *tables;
  gint64 *ids;   /* [N_SETS, n_ids] */
  GArray *calls; /* of TpsDurabilityCall */
  GError *error;
  TpsThread thread;
  gboolean is_started;
} Client;

struct TpsDurabilityLoad
{
  const TpsDurabilityLoadShape *shape;
  gfloat *values; /* [n_ids, dim], all -1: a step of SGD with the learning rate 1 then adds 1 */
  Client *clients;
  atomic_bool ends; /* set by the owner to end the threads */
};

/* -- calls -- */

static gboolean
call_once (const Client *client, const gint64 *ids, gint64 deadline_ns, GError **error)
{
  const TpsDurabilityLoadShape *shape = client->load->shape;
  const TpsDurabilityTable *table = shape->table;
  TpsTensorView view = tps_durability_view_ids (ids, shape->n_ids);
  g_auto (TpsTensor) rows = { 0 };

  if (shape->is_push)
    return tps_remote_tables_apply_rows_sync (
        client->tables, table->name, view,
        tps_durability_view_rows (client->load->values, shape->n_ids, table->dim), deadline_ns,
        error);
  return tps_remote_tables_lookup_rows_sync (client->tables, table->name, view, deadline_ns, &rows,
                                             error);
}

static gpointer
call_until_the_end (gpointer data)
{
  Client *client = data;

  for (guint i = 0; !atomic_load (&client->load->ends); i++)
    {
      const gint64 *ids = client->ids + i % N_SETS * client->load->shape->n_ids;
      TpsDurabilityCall call = { .begin_ns = tps_clock_now_ns () };

      if (!call_once (client, ids, call.begin_ns + TPS_DURABILITY_CALL_NS, &client->error))
        break;
      call.end_ns = tps_clock_now_ns ();
      g_array_append_val (client->calls, call);
    }
  return NULL;
}

/* -- life -- */

static gboolean
connect_client (TpsDurabilityLoad *load, guint number, const gchar *address, GError **error)
{
  const TpsDurabilityLoadShape *shape = load->shape;
  Client *client = &load->clients[number];
  GRand *dice = g_rand_new_with_seed (SEED + number);

  client->load = load;
  client->calls = g_array_new (FALSE, FALSE, sizeof (TpsDurabilityCall));
  client->ids = g_new (gint64, N_SETS * shape->n_ids);
  for (gsize i = 0; i < N_SETS * shape->n_ids; i++)
    client->ids[i] = g_rand_int_range (dice, 0, (gint32) shape->table->n_rows);
  g_rand_free (dice);
  client->tables = tps_durability_server_connect (address, error);
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
  load->clients = g_new0 (Client, shape->n_clients);
  for (guint i = 0; i < shape->n_clients; i++)
    if (!connect_client (load, i, address, error))
      return NULL;
  for (guint i = 0; i < shape->n_clients; i++)
    {
      Client *client = &load->clients[i];

      tps_sync_check (pthread_create (&client->thread, NULL, call_until_the_end, client));
      client->is_started = TRUE;
    }
  return g_steal_pointer (&load);
}

static void
join (TpsDurabilityLoad *load)
{
  atomic_store (&load->ends, TRUE);
  for (guint i = 0; i < load->shape->n_clients; i++)
    {
      Client *client = &load->clients[i];

      if (client->is_started)
        tps_sync_check (pthread_join (client->thread, NULL));
      client->is_started = FALSE;
    }
}

void
tps_durability_load_free (TpsDurabilityLoad *load)
{
  for (guint i = 0; i < load->shape->n_clients; i++)
    if (load->clients[i].tables != NULL)
      tps_remote_tables_cancel (load->clients[i].tables);
  join (load);
  for (guint i = 0; i < load->shape->n_clients; i++)
    {
      Client *client = &load->clients[i];

      g_clear_pointer (&client->tables, tps_remote_tables_free);
      g_clear_pointer (&client->calls, g_array_unref);
      g_clear_error (&client->error);
      g_free (client->ids);
    }
  g_free (load->clients);
  g_free (load->values);
  g_free (load);
}

GArray *
tps_durability_load_stop (TpsDurabilityLoad *load, GError **error)
{
  g_autoptr (TpsDurabilityLoad) stopped = load;
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (TpsDurabilityCall));

  join (load);
  for (guint i = 0; i < load->shape->n_clients; i++)
    {
      Client *client = &load->clients[i];

      if (client->error != NULL)
        {
          g_propagate_error (error, g_steal_pointer (&client->error));
          return NULL;
        }
      g_array_append_vals (all, client->calls->data, client->calls->len);
    }
  return g_steal_pointer (&all);
}

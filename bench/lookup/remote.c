/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/remote.h"

#include <string.h>

#include "bench/lookup/bags.h"
#include "bench/process/child.h"
#include "bench/process/runfiles.h"
#include "plugin/client/remote_tables.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define TABLE "rows"
#define ROWS_AT_ONCE 65536
#define CALL_NS G_GINT64_CONSTANT (60000000000)
#define NS_PER_S 1e9
#define SEED 11

struct TpsLookupRemote
{
  TpsLookupRemoteShape shape;
  TpsChild *server;
  gchar *addresses[TPS_LOOKUP_N_TRANSPORTS];
};

/* Somebody who looks rows up, on a thread of its own under load. */
typedef struct
{
  const TpsLookupRemoteShape *shape;
  TpsRemoteTables *tables;
  GRand *dice;
  gint64 *ids;      /* [n_ids] */
  gfloat *expected; /* [dim] */
  TpsTensor rows;   /* of the newest call */

  gint64 end_ns; /* of load */
  guint n_lookups;
  GError *error;
} Client;

const gchar *
tps_lookup_transport_name (guint transport)
{
  static const gchar *const names[TPS_LOOKUP_N_TRANSPORTS] = { "unix", "tcp" };

  return names[transport];
}

void
tps_lookup_remote_times_clear (TpsLookupRemoteTimes *times)
{
  g_clear_pointer (&times->ms, g_array_unref);
}

static TpsTensorView
view_of (TpsDType dtype, gconstpointer data, gsize n, gsize dim)
{
  TpsTensorView view = {
    .shape = { .dtype = dtype, .n_dims = dim > 0 ? 2 : 1, .dims = { (gint64) n, (gint64) dim } },
    .data = data
  };

  return view;
}

/* -- clients -- */

static void
client_clear (Client *client)
{
  g_clear_pointer (&client->tables, tps_remote_tables_free);
  g_clear_pointer (&client->dice, g_rand_free);
  g_clear_pointer (&client->ids, g_free);
  g_clear_pointer (&client->expected, g_free);
  tps_tensor_clear (&client->rows);
  g_clear_error (&client->error);
}

static gboolean
client_init (Client *client, const TpsLookupRemote *remote, guint transport, guint number,
             GError **error)
{
  const gchar *address = remote->addresses[transport];
  TpsRemoteTablesOptions options = { .addresses = &address, .n_addresses = 1 };

  *client = (Client) { .shape = &remote->shape };
  client->dice = g_rand_new_with_seed (SEED + number);
  client->ids = g_new (gint64, remote->shape.n_ids);
  client->expected = g_new (gfloat, remote->shape.dim);
  client->tables = tps_remote_tables_new (&options, error);
  return client->tables != NULL
         && tps_remote_tables_discover (client->tables, tps_clock_now_ns () + CALL_NS, error);
}

static void
draw_ids (Client *client)
{
  for (gsize i = 0; i < client->shape->n_ids; i++)
    client->ids[i] = g_rand_int_range (client->dice, 0, (gint32) client->shape->n_rows);
}

static gboolean
look_up (Client *client, GError **error)
{
  TpsTensor rows = { 0 };

  if (!tps_remote_tables_lookup_rows_sync (
          client->tables, TABLE, view_of (TPS_DTYPE_INT64, client->ids, client->shape->n_ids, 0),
          tps_clock_now_ns () + CALL_NS, &rows, error))
    return FALSE;
  tps_tensor_move (&client->rows, &rows);
  return TRUE;
}

static gboolean
check_rows (Client *client, GError **error)
{
  gsize dim = client->shape->dim;
  const gfloat *rows = tps_tensor_data (&client->rows);

  for (gsize i = 0; i < client->shape->n_ids; i++)
    {
      tps_lookup_fill_rows (client->expected, (gsize) client->ids[i], 1, dim, 1);
      if (memcmp (client->expected, rows + i * dim, dim * sizeof rows[0]) == 0)
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong row %" G_GINT64_FORMAT,
                   client->ids[i]);
      return FALSE;
    }
  return TRUE;
}

/* -- the server -- */

static gboolean
receive_address (TpsLookupRemote *remote, guint transport, GError **error)
{
  g_autofree gchar *line = tps_child_receive (remote->server, error);

  if (line == NULL)
    return FALSE;
  if (g_str_has_prefix (line, "listening on "))
    {
      remote->addresses[transport] = g_strdup (line + strlen ("listening on "));
      return TRUE;
    }
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "the server did not come up: %s", line);
  return FALSE;
}

static gboolean
start_server (TpsLookupRemote *remote, TpsSupervisor *supervisor, const gchar *socket_dir,
              GError **error)
{
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *flag = g_strdup_printf ("--serve=%s", socket_dir);
  gchar *argv[] = { program, flag, NULL };

  remote->server = tps_child_start (supervisor, "server", argv, error);
  if (remote->server == NULL)
    return FALSE;
  for (guint i = 0; i < TPS_LOOKUP_N_TRANSPORTS; i++)
    if (!receive_address (remote, i, error))
      return FALSE;
  return TRUE;
}

/* A step of SGD with learning rate 1 from 0, against the values. */
static gboolean
fill_some (const TpsLookupRemote *remote, TpsRemoteTables *tables, gsize first, gsize n,
           GError **error)
{
  gsize dim = remote->shape.dim;
  g_autofree gint64 *ids = g_new (gint64, n);
  g_autofree gfloat *values = g_new (gfloat, n * dim);

  for (gsize i = 0; i < n; i++)
    ids[i] = (gint64) (first + i);
  tps_lookup_fill_rows (values, first, n, dim, -1);
  return tps_remote_tables_apply_rows_sync (tables, TABLE, view_of (TPS_DTYPE_INT64, ids, n, 0),
                                            view_of (TPS_DTYPE_FLOAT32, values, n, dim),
                                            tps_clock_now_ns () + CALL_NS, error);
}

static gboolean
fill_table (const TpsLookupRemote *remote, GError **error)
{
  TpsRemoteTablesOptions options = { .addresses = (const gchar *const *) remote->addresses,
                                     .n_addresses = 1 };
  TpsTablePlacement placement = { .kind = TPS_SHARD_WHOLE };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, error);
  g_auto (TpsTableSpec) spec;

  tps_table_spec_init (&spec, TABLE, (gint64) remote->shape.n_rows, (gint32) remote->shape.dim);
  spec.initializer.kind = TPS_INITIALIZER_ZEROS;
  spec.optimizer = tps_optimizer_spec (TPS_OPTIMIZER_SGD, 1);
  spec.place = remote->shape.place;
  if (tables == NULL
      || !tps_remote_tables_create (tables, &spec, &placement, tps_clock_now_ns () + CALL_NS,
                                    error))
    return FALSE;
  for (gsize first = 0; first < remote->shape.n_rows; first += ROWS_AT_ONCE)
    if (!fill_some (remote, tables, first, MIN (ROWS_AT_ONCE, remote->shape.n_rows - first), error))
      return FALSE;
  return TRUE;
}

TpsLookupRemote *
tps_lookup_remote_new (TpsSupervisor *supervisor, const gchar *socket_dir,
                       const TpsLookupRemoteShape *shape, GError **error)
{
  g_autoptr (TpsLookupRemote) remote = g_new0 (TpsLookupRemote, 1);

  remote->shape = *shape;
  if (!start_server (remote, supervisor, socket_dir, error) || !fill_table (remote, error))
    return NULL;
  return g_steal_pointer (&remote);
}

void
tps_lookup_remote_free (TpsLookupRemote *remote)
{
  g_clear_pointer (&remote->server, tps_child_free);
  for (guint i = 0; i < TPS_LOOKUP_N_TRANSPORTS; i++)
    g_free (remote->addresses[i]);
  g_free (remote);
}

/* -- one call after the other -- */

static gboolean
measure_calls (const TpsLookupRemote *remote, guint transport, GArray *ms, GError **error)
{
  Client client;
  gboolean ok = client_init (&client, remote, transport, 0, error);

  for (guint i = 0; ok && i < remote->shape.n_calls; i++)
    {
      gint64 start_ns;
      gdouble took_ms;

      draw_ids (&client);
      start_ns = tps_clock_now_ns ();
      ok = look_up (&client, error);
      took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
      g_array_append_val (ms, took_ms);
      ok = ok && check_rows (&client, error);
    }
  client_clear (&client);
  return ok;
}

/* -- load -- */

static gpointer
look_up_until_the_end (gpointer data)
{
  Client *client = data;

  do
    {
      draw_ids (client);
      if (!look_up (client, &client->error))
        return NULL;
      client->n_lookups++;
    }
  while (tps_clock_now_ns () < client->end_ns);
  check_rows (client, &client->error);
  return NULL;
}

/* Returns the lookups of all clients together; -1 on error. */
static gint64
run_clients (Client *clients, guint n_clients, gint64 end_ns, GError **error)
{
  g_autofree TpsThread *threads = g_new (TpsThread, n_clients);
  gint64 n_lookups = 0;

  for (guint i = 0; i < n_clients; i++)
    {
      clients[i].end_ns = end_ns;
      tps_sync_check (pthread_create (&threads[i], NULL, look_up_until_the_end, &clients[i]));
    }
  for (guint i = 0; i < n_clients; i++)
    {
      tps_sync_check (pthread_join (threads[i], NULL));
      if (clients[i].error != NULL && n_lookups >= 0)
        {
          g_propagate_error (error, g_steal_pointer (&clients[i].error));
          n_lookups = -1;
        }
      if (n_lookups >= 0)
        n_lookups += clients[i].n_lookups;
    }
  return n_lookups;
}

static gboolean
measure_load (const TpsLookupRemote *remote, guint transport, TpsLookupRemoteTimes *times,
              GError **error)
{
  guint n_clients = remote->shape.n_clients;
  g_autofree Client *clients = g_new0 (Client, n_clients);
  gint64 n_lookups = -1, start_ns;
  gdouble cpu_s;
  gboolean ok = TRUE;

  for (guint i = 0; ok && i < n_clients; i++)
    ok = client_init (&clients[i], remote, transport, i + 1, error);
  cpu_s = tps_child_get_cpu (remote->server);
  start_ns = tps_clock_now_ns ();
  if (ok)
    n_lookups = run_clients (clients, n_clients,
                             start_ns + (gint64) (remote->shape.seconds * NS_PER_S), error);
  times->lookups_per_s = (gdouble) n_lookups
                         / ((gdouble) (tps_clock_now_ns () - start_ns) / NS_PER_S);
  times->lookups_per_cpu_s = (gdouble) n_lookups / (tps_child_get_cpu (remote->server) - cpu_s);
  for (guint i = 0; i < n_clients; i++)
    client_clear (&clients[i]);
  return n_lookups >= 0;
}

gboolean
tps_lookup_remote_run (TpsLookupRemote *remote, guint transport, TpsLookupRemoteTimes *times,
                       GError **error)
{
  *times = (TpsLookupRemoteTimes) { .ms = g_array_new (FALSE, FALSE, sizeof (gdouble)) };
  if (measure_calls (remote, transport, times->ms, error)
      && measure_load (remote, transport, times, error))
    return TRUE;
  tps_lookup_remote_times_clear (times);
  return FALSE;
}

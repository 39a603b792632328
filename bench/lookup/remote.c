/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/remote.h"

#include <string.h>

#include "bench/lookup/bags.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/cpu/kernels/elementwise.h"

#define TABLE "rows"
#define SEED 11

typedef struct
{
  const TpsLookupRemoteShape *shape;
  TpsRemoteTables *tables;
  TpsLookupIdSource *source;
  gint64 *ids;      /* [n_ids] */
  gfloat *expected; /* [dim] */
  guint8 *row;      /* the expected row in the dtype of the table */
  TpsTensor rows;   /* the result of the last call */
} Client;

void
tps_lookup_remote_times_clear (TpsLookupRemoteTimes *times)
{
  g_clear_pointer (&times->ms, g_array_unref);
}

gboolean
tps_lookup_remote_prepare (const TpsLookupServer *server, const TpsLookupRemoteShape *shape,
                           GError **error)
{
  TpsLookupTable table = {
    .name = TABLE,
    .n_rows = shape->n_rows,
    .dim = shape->dim,
    .dtype = shape->dtype,
    .place = &shape->place,
  };

  return tps_lookup_server_make_filled_table (server, &table, error);
}

/* -- clients -- */

static void
client_free (gpointer data)
{
  Client *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  tps_lookup_id_source_free (client->source);
  g_free (client->ids);
  g_free (client->expected);
  g_free (client->row);
  tps_tensor_clear (&client->rows);
  g_free (client);
}

/* Creates a client; NULL with an error. */
static Client *
client_new (const TpsLookupServer *server, const TpsLookupRemoteShape *shape, guint transport,
            guint number, GError **error)
{
  Client *client = g_new0 (Client, 1);

  client->shape = shape;
  client->source = tps_lookup_id_source_new (&shape->ids, shape->n_rows, SEED + number);
  client->ids = g_new (gint64, shape->n_ids);
  client->expected = g_new (gfloat, shape->dim);
  client->row = g_malloc (shape->dim * tps_dtype_size (shape->dtype));
  client->tables = tps_lookup_server_connect (server, transport, NULL, error);
  if (client->tables != NULL)
    return client;
  client_free (client);
  return NULL;
}

static void
draw_ids (Client *client)
{
  tps_lookup_id_source_draw (client->source, client->ids, client->shape->n_ids);
}

static gboolean
look_up (Client *client, GError **error)
{
  TpsTensor rows = { 0 };

  if (!tps_remote_tables_lookup_rows_sync (client->tables, TABLE,
                                           tps_lookup_view_ids (client->ids, client->shape->n_ids),
                                           tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, &rows, error))
    return FALSE;
  tps_tensor_move (&client->rows, &rows);
  return TRUE;
}

static gboolean
look_up_others (gpointer client, GError **error)
{
  draw_ids (client);
  return look_up (client, error);
}

static gboolean
check_rows (Client *client, GError **error)
{
  gsize dim = client->shape->dim;
  TpsDType dtype = client->shape->dtype;
  gsize row_bytes = dim * tps_dtype_size (dtype);
  const guint8 *rows = tps_tensor_data (&client->rows);

  for (gsize i = 0; i < client->shape->n_ids; i++)
    {
      tps_lookup_fill_rows (client->expected, (gsize) client->ids[i], 1, dim, 1);
      tps_cpu_cast (dtype, client->row, TPS_DTYPE_FLOAT32, client->expected, dim);
      if (memcmp (client->row, rows + i * row_bytes, row_bytes) == 0)
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong row %" G_GINT64_FORMAT,
                   client->ids[i]);
      return FALSE;
    }
  return TRUE;
}

/* -- runs -- */

/* Makes one call after another, and checks each result. */
static gboolean
measure_calls (Client *client, GArray *ms, GError **error)
{
  for (guint i = 0; i < client->shape->n_calls; i++)
    {
      gint64 start_ns;
      gdouble took_ms;

      draw_ids (client);
      start_ns = tps_clock_now_ns ();
      if (!look_up (client, error))
        return FALSE;
      took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
      g_array_append_val (ms, took_ms);
      if (!check_rows (client, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
check_all (GPtrArray *clients, GError **error)
{
  for (guint i = 0; i < clients->len; i++)
    if (!check_rows (clients->pdata[i], error))
      return FALSE;
  return TRUE;
}

gboolean
tps_lookup_remote_run (const TpsLookupServer *server, const TpsLookupRemoteShape *shape,
                       guint transport, TpsLookupRemoteTimes *times, GError **error)
{
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (client_free);

  *times = (TpsLookupRemoteTimes) { .ms = g_array_new (FALSE, FALSE, sizeof (gdouble)) };
  for (guint i = 0; i < MAX (shape->n_clients, 1); i++)
    {
      Client *client = client_new (server, shape, transport, i, error);

      if (client == NULL)
        return FALSE;
      g_ptr_array_add (clients, client);
    }
  return measure_calls (clients->pdata[0], times->ms, error)
         && tps_lookup_server_load (server, clients->pdata, clients->len, look_up_others,
                                    shape->seconds, &times->load, error)
         && check_all (clients, error);
}

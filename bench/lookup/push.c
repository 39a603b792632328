/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/push.h"

#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define N_SETS 16 /* number of sets of ids; drawn in advance, outside the measured time */
#define SEED 13

static const TpsLookupPattern patterns[TPS_LOOKUP_N_PATTERNS] = {
  { "push 2000 x 64", "push/2000x64", 2000, 64, 4 }, /* the batch of a trainer */
  { "push 1 x 16", "push/1x16", 1, 16, 8 },          /* 64 bytes, for the fixed cost of a push */
};

typedef struct
{
  const TpsLookupPattern *pattern;
  TpsRemoteTables *tables;
  gint64 *ids;    /* [N_SETS, n_ids] */
  gfloat *values; /* [n_ids, dim], all -1: a step of SGD with the learning rate 1 then adds 1 */
  guint set;
} Client;

static void
client_free (gpointer data)
{
  Client *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  g_free (client->ids);
  g_free (client->values);
  g_free (client);
}

/* Creates a client; NULL with an error. */
static Client *
client_new (const TpsLookupPushes *pushes, const TpsLookupServer *server, guint transport,
            guint number, GError **error)
{
  const TpsLookupPattern *pattern = pushes->pattern;
  Client *client = g_new0 (Client, 1);
  g_autoptr (TpsLookupIdSource)
      source = tps_lookup_id_source_new (&pushes->ids, pushes->n_rows, SEED + number);

  client->pattern = pattern;
  client->ids = g_new (gint64, N_SETS * pattern->n_ids);
  client->values = g_new (gfloat, pattern->n_ids * pattern->dim);
  tps_lookup_id_source_draw (source, client->ids, N_SETS * pattern->n_ids);
  for (gsize i = 0; i < pattern->n_ids * pattern->dim; i++)
    client->values[i] = -1;
  client->tables = tps_lookup_server_connect (server, transport, NULL, error);
  if (client->tables != NULL)
    return client;
  client_free (client);
  return NULL;
}

static gboolean
push (gpointer data, GError **error)
{
  Client *client = data;
  const TpsLookupPattern *pattern = client->pattern;
  const gint64 *ids = client->ids + client->set++ % N_SETS * pattern->n_ids;

  return tps_remote_tables_apply_rows_sync (
      client->tables, pattern->table, tps_lookup_view_ids (ids, pattern->n_ids),
      tps_lookup_view_rows (client->values, pattern->n_ids, pattern->dim),
      tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, error);
}

/* -- the table -- */

gboolean
tps_lookup_pushes_prepare (TpsLookupPushes *pushes, const TpsLookupServer *server, guint i,
                           gsize n_rows, const TpsTablePlace *place, GError **error)
{
  TpsLookupTable table = {
    .name = patterns[i].table, .n_rows = n_rows, .dim = patterns[i].dim, .place = place
  };

  *pushes = (TpsLookupPushes) { .pattern = &patterns[i], .n_rows = n_rows };
  return tps_lookup_server_make_table (server, &table, error);
}

/* Sums the elements of the table. Elements are whole numbers, so the sum does not depend on the
 * order of the pushes. */
static gboolean
sum_up (const TpsLookupPushes *pushes, TpsRemoteTables *tables, gdouble *sum, GError **error)
{
  g_autofree gint64 *ids = g_new (gint64, TPS_LOOKUP_ROWS_AT_ONCE);

  *sum = 0;
  for (gsize first = 0; first < pushes->n_rows; first += TPS_LOOKUP_ROWS_AT_ONCE)
    {
      gsize n = MIN (TPS_LOOKUP_ROWS_AT_ONCE, pushes->n_rows - first);
      g_auto (TpsTensor) rows = { 0 };
      const gfloat *elements;

      for (gsize i = 0; i < n; i++)
        ids[i] = (gint64) (first + i);
      if (!tps_remote_tables_lookup_rows_sync (
              tables, pushes->pattern->table, tps_lookup_view_ids (ids, n),
              tps_clock_now_ns () + TPS_LOOKUP_CALL_NS, &rows, error))
        return FALSE;
      elements = tps_tensor_data (&rows);
      for (gsize i = 0; i < n * pushes->pattern->dim; i++)
        *sum += (gdouble) elements[i];
    }
  return TRUE;
}

static gboolean
check_table (const TpsLookupPushes *pushes, const TpsLookupServer *server, guint transport,
             GError **error)
{
  const TpsLookupPattern *pattern = pushes->pattern;
  gdouble expected = (gdouble) pushes->n_pushes * (gdouble) (pattern->n_ids * pattern->dim);
  g_autoptr (TpsRemoteTables) tables = tps_lookup_server_connect (server, transport, NULL, error);
  gdouble sum;

  if (tables == NULL || !sum_up (pushes, tables, &sum, error))
    return FALSE;
  if (sum == expected)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "%s: the table's sum is %.17g after %" G_GINT64_FORMAT " pushes, expected %.17g",
               pattern->name, sum, pushes->n_pushes, expected);
  return FALSE;
}

gboolean
tps_lookup_pushes_run (TpsLookupPushes *pushes, const TpsLookupServer *server, guint transport,
                       gdouble seconds, TpsLookupLoad *load, GError **error)
{
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (client_free);

  for (guint i = 0; i < pushes->pattern->n_clients; i++)
    {
      Client *client = client_new (pushes, server, transport, i, error);

      if (client == NULL)
        return FALSE;
      g_ptr_array_add (clients, client);
    }
  if (!tps_lookup_server_load (server, clients->pdata, clients->len, push, seconds, load, error))
    return FALSE;
  pushes->n_pushes += load->n_calls;
  return check_table (pushes, server, transport, error);
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/small.h"

#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define TABLE "small"
#define SEED 17

struct TpsLookupSmall
{
  const TpsLookupServer *server;
  TpsLookupSmallShape shape;
  TpsLookupIdSource *source;
  /* [n_rows], the pushes to each row; a push adds 1 to every element of its row */
  guint32 *n_pushes;
  gfloat *gradient; /* [dim], all -1: a step of SGD with the learning rate 1 then adds 1 */
};

/* The client of a run. Empty calls use `client`, lookups and pushes use `tables`; the other pointer
 * is NULL. */
typedef struct
{
  TpsLookupSmall *small;
  TpsClient *client;
  TpsRemoteTables *tables;
} Caller;

const gchar *
tps_lookup_small_name (TpsLookupSmallKind kind)
{
  static const gchar *const names[TPS_LOOKUP_N_SMALL_KINDS] = { "empty call", "lookup of one row",
                                                                "push of one row" };

  return names[kind];
}

TpsLookupSmall *
tps_lookup_small_new (const TpsLookupServer *server, const TpsLookupSmallShape *shape,
                      GError **error)
{
  TpsLookupTable table = {
    .name = TABLE, .n_rows = shape->n_rows, .dim = shape->dim, .place = &shape->place
  };
  TpsLookupSmall *small;

  if (!tps_lookup_server_make_table (server, &table, error))
    return NULL;
  small = g_new0 (TpsLookupSmall, 1);
  small->server = server;
  small->shape = *shape;
  small->source = tps_lookup_id_source_new (&small->shape.ids, shape->n_rows, SEED);
  small->n_pushes = g_new0 (guint32, shape->n_rows);
  small->gradient = g_new (gfloat, shape->dim);
  for (gsize i = 0; i < shape->dim; i++)
    small->gradient[i] = -1;
  return small;
}

void
tps_lookup_small_free (TpsLookupSmall *small)
{
  tps_lookup_id_source_free (small->source);
  g_free (small->n_pushes);
  g_free (small->gradient);
  g_free (small);
}

/* -- the calls -- */

static gint64
get_deadline (void)
{
  return tps_clock_now_ns () + TPS_LOOKUP_CALL_NS;
}

static gboolean
call_empty (Caller *caller, G_GNUC_UNUSED gint64 id, G_GNUC_UNUSED TpsTensor *row, GError **error)
{
  return tps_remote_remove (caller->client, "missing", get_deadline (), error);
}

static gboolean
look_up (Caller *caller, gint64 id, TpsTensor *row, GError **error)
{
  return tps_remote_tables_lookup_rows_sync (caller->tables, TABLE, tps_lookup_view_ids (&id, 1),
                                             get_deadline (), row, error);
}

static gboolean
push (Caller *caller, gint64 id, G_GNUC_UNUSED TpsTensor *row, GError **error)
{
  const TpsLookupSmall *small = caller->small;

  return tps_remote_tables_apply_rows_sync (
      caller->tables, TABLE, tps_lookup_view_ids (&id, 1),
      tps_lookup_view_rows (small->gradient, 1, small->shape.dim), get_deadline (), error);
}

typedef gboolean (*Call) (Caller *caller, gint64 id, TpsTensor *row, GError **error);

static const Call calls[TPS_LOOKUP_N_SMALL_KINDS] = { call_empty, look_up, push };

static gboolean
check_row (const TpsLookupSmall *small, gint64 id, const TpsTensor *row, GError **error)
{
  const gfloat *elements = tps_tensor_data (row);

  for (gsize i = 0; i < small->shape.dim; i++)
    if (elements[i] != (gfloat) small->n_pushes[id])
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                     "row %" G_GINT64_FORMAT " contains %g after %u pushes of 1", id,
                     (gdouble) elements[i], small->n_pushes[id]);
        return FALSE;
      }
  return TRUE;
}

static gboolean
make_calls (Caller *caller, TpsLookupSmallKind kind, GArray *ms, GError **error)
{
  TpsLookupSmall *small = caller->small;

  for (guint i = 0; i < small->shape.n_calls; i++)
    {
      g_auto (TpsTensor) row = { 0 };
      gint64 id, start_ns;
      gdouble took_ms;

      tps_lookup_id_source_draw (small->source, &id, 1);
      start_ns = tps_clock_now_ns ();
      if (!calls[kind](caller, id, &row, error))
        return FALSE;
      took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;
      g_array_append_val (ms, took_ms);
      small->n_pushes[id] += kind == TPS_LOOKUP_SMALL_PUSH;
      if (kind == TPS_LOOKUP_SMALL_LOOKUP && !check_row (small, id, &row, error))
        return FALSE;
    }
  return TRUE;
}

/* -- a run -- */

GArray *
tps_lookup_small_run (TpsLookupSmall *small, TpsLookupSmallKind kind, guint transport,
                      GError **error)
{
  g_autoptr (GArray) ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  g_autoptr (TpsClient) client = NULL;
  g_autoptr (TpsRemoteTables) tables = NULL;
  Caller caller = { .small = small };

  if (kind == TPS_LOOKUP_SMALL_EMPTY)
    caller.client = client = tps_lookup_server_connect_client (small->server, transport, error);
  else
    caller.tables = tables = tps_lookup_server_connect (small->server, transport, NULL, error);
  if ((client == NULL && tables == NULL) || !make_calls (&caller, kind, ms, error))
    return NULL;
  return g_steal_pointer (&ms);
}

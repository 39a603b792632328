/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "bench/lookup/bags.h"
#include "bench/lookup/parts.h"
#include "bench/lookup/server.h"
#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/cpu/kernels/elementwise.h"

/* Lookups of rows by RPC. */

/* The work of lookups. */
typedef struct
{
  gsize n_rows, dim; /* of the table */
  TpsDType dtype;
  gsize n_ids;     /* of a lookup */
  guint n_calls;   /* calls of a single client, one after another */
  guint n_clients; /* clients under load */
  gdouble seconds; /* duration of the load */
  TpsTablePlace place;
  TpsLookupIdKind ids;
} RemoteShape;

/* The measurements of a run. */
typedef struct
{
  GArray *ms; /* of gdouble, the duration of each call of the single client */
  TpsLookupLoad load;
} RemoteTimes;

#define READ_TABLE "rows"
#define READ_SEED 11

typedef struct
{
  const RemoteShape *shape;
  TpsRemoteTables *tables;
  TpsLookupIdSource *source;
  gint64 *ids;      /* [n_ids] */
  gfloat *expected; /* [dim] */
  guint8 *row;      /* the expected row in the dtype of the table */
  TpsTensor rows;   /* the result of the last call */
} Reader;

static void
remote_times_clear (RemoteTimes *times)
{
  g_clear_pointer (&times->ms, g_array_unref);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (RemoteTimes, remote_times_clear)

/* Creates and fills the table. */
static gboolean
remote_prepare (const TpsServed *server, const RemoteShape *shape, GError **error)
{
  TpsLookupTable table = {
    .name = READ_TABLE,
    .n_rows = shape->n_rows,
    .dim = shape->dim,
    .dtype = shape->dtype,
    .place = &shape->place,
  };

  return tps_lookup_server_make_filled_table (server, &table, error);
}

/* -- clients -- */

static void
reader_free (gpointer data)
{
  Reader *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  tps_lookup_id_source_free (client->source);
  g_free (client->ids);
  g_free (client->expected);
  g_free (client->row);
  tps_tensor_clear (&client->rows);
  g_free (client);
}

/* Creates a client; NULL with an error. */
static Reader *
reader_new (const TpsServed *server, const RemoteShape *shape, guint transport, guint number,
            GError **error)
{
  Reader *client = g_new0 (Reader, 1);

  client->shape = shape;
  client->source = tps_lookup_id_source_new (&shape->ids, shape->n_rows, READ_SEED + number);
  client->ids = g_new (gint64, shape->n_ids);
  client->expected = g_new (gfloat, shape->dim);
  client->row = g_malloc (shape->dim * tps_dtype_size (shape->dtype));
  client->tables = tps_lookup_server_connect (server, transport, error);
  if (client->tables != NULL)
    return client;
  reader_free (client);
  return NULL;
}

static void
draw_ids (Reader *client)
{
  tps_lookup_id_source_draw (client->source, client->ids, client->shape->n_ids);
}

static gboolean
look_up_ids (Reader *client, GError **error)
{
  TpsTensor rows = { 0 };

  if (!tps_remote_tables_lookup_rows_sync (client->tables, READ_TABLE,
                                           tps_view_ids (client->ids, client->shape->n_ids),
                                           tps_served_get_deadline (), &rows, error))
    return FALSE;
  tps_tensor_move (&client->rows, &rows);
  return TRUE;
}

static gboolean
look_up_others (gpointer client, GError **error)
{
  draw_ids (client);
  return look_up_ids (client, error);
}

static gboolean
check_rows (Reader *client, GError **error)
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
measure_calls (Reader *client, GArray *ms, GError **error)
{
  for (guint i = 0; i < client->shape->n_calls; i++)
    {
      gint64 start_ns;
      gdouble took_ms;

      draw_ids (client);
      start_ns = tps_clock_now_ns ();
      if (!look_up_ids (client, error))
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

/* Runs the lookups and checks their results. INTERNAL (a wrong row). */
static gboolean
remote_run (const TpsServed *server, const RemoteShape *shape, guint transport, RemoteTimes *times,
            GError **error)
{
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (reader_free);

  *times = (RemoteTimes) { .ms = g_array_new (FALSE, FALSE, sizeof (gdouble)) };
  for (guint i = 0; i < MAX (shape->n_clients, 1); i++)
    {
      Reader *client = reader_new (server, shape, transport, i, error);

      if (client == NULL)
        return FALSE;
      g_ptr_array_add (clients, client);
    }
  return measure_calls (clients->pdata[0], times->ms, error)
         && tps_lookup_server_load (server, clients->pdata, clients->len, look_up_others,
                                    shape->seconds, &times->load, error)
         && check_all (clients, error);
}

/* Pushes of gradients of rows by RPC, under the load of several clients. */

/* A pattern of pushes; static. */
typedef struct
{
  const gchar *name;  /* such as "push 2000 x 64": rows of a push, and floats of a row */
  const gchar *table; /* the table of this pattern */
  gsize n_ids, dim;
  guint n_clients;
} Pattern;

#define N_PATTERNS 2

/* The pushes of one pattern so far. */
typedef struct
{
  const Pattern *pattern;
  gsize n_rows;
  TpsLookupIdKind ids; /* set by the owner before a run */
  gint64 n_pushes;     /* all pushes to the table */
} Pushes;

#define N_SETS 16 /* number of sets of ids; drawn in advance, outside the measured time */
#define PUSH_SEED 13

static const Pattern patterns[N_PATTERNS] = {
  { "push 2000 x 64", "push/2000x64", 2000, 64, 4 }, /* the batch of a trainer */
  { "push 1 x 16", "push/1x16", 1, 16, 8 },          /* 64 bytes, for the fixed cost of a push */
};

typedef struct
{
  const Pattern *pattern;
  TpsRemoteTables *tables;
  gint64 *ids;    /* [N_SETS, n_ids] */
  gfloat *values; /* [n_ids, dim], all -1: a step of SGD with the learning rate 1 then adds 1 */
  guint set;
} Pusher;

static void
pusher_free (gpointer data)
{
  Pusher *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  g_free (client->ids);
  g_free (client->values);
  g_free (client);
}

/* Creates a client; NULL with an error. */
static Pusher *
pusher_new (const Pushes *pushes, const TpsServed *server, guint transport, guint number,
            GError **error)
{
  const Pattern *pattern = pushes->pattern;
  Pusher *client = g_new0 (Pusher, 1);
  g_autoptr (TpsLookupIdSource)
      source = tps_lookup_id_source_new (&pushes->ids, pushes->n_rows, PUSH_SEED + number);

  client->pattern = pattern;
  client->ids = g_new (gint64, N_SETS * pattern->n_ids);
  client->values = g_new (gfloat, pattern->n_ids * pattern->dim);
  tps_lookup_id_source_draw (source, client->ids, N_SETS * pattern->n_ids);
  for (gsize i = 0; i < pattern->n_ids * pattern->dim; i++)
    client->values[i] = -1;
  client->tables = tps_lookup_server_connect (server, transport, error);
  if (client->tables != NULL)
    return client;
  pusher_free (client);
  return NULL;
}

static gboolean
push_set (gpointer data, GError **error)
{
  Pusher *client = data;
  const Pattern *pattern = client->pattern;
  const gint64 *ids = client->ids + client->set++ % N_SETS * pattern->n_ids;

  return tps_remote_tables_apply_rows_sync (
      client->tables, pattern->table, tps_view_ids (ids, pattern->n_ids),
      tps_view_rows (client->values, pattern->n_ids, pattern->dim), tps_served_get_deadline (),
      error);
}

/* -- the table -- */

/* Creates the table of pattern number `i`. */
static gboolean
pushes_prepare (Pushes *pushes, const TpsServed *server, guint i, gsize n_rows,
                const TpsTablePlace *place, GError **error)
{
  TpsLookupTable table = {
    .name = patterns[i].table, .n_rows = n_rows, .dim = patterns[i].dim, .place = place
  };

  *pushes = (Pushes) { .pattern = &patterns[i], .n_rows = n_rows };
  return tps_lookup_server_make_table (server, &table, error);
}

/* Sums the elements of the table. Elements are whole numbers, so the sum does not depend on the
 * order of the pushes. */
static gboolean
sum_up (const Pushes *pushes, TpsRemoteTables *tables, gdouble *sum, GError **error)
{
  g_autofree gint64 *ids = g_new (gint64, TPS_SERVED_ROWS_AT_ONCE);

  *sum = 0;
  for (gsize first = 0; first < pushes->n_rows; first += TPS_SERVED_ROWS_AT_ONCE)
    {
      gsize n = MIN (TPS_SERVED_ROWS_AT_ONCE, pushes->n_rows - first);
      g_auto (TpsTensor) rows = { 0 };
      const gfloat *elements;

      for (gsize i = 0; i < n; i++)
        ids[i] = (gint64) (first + i);
      if (!tps_remote_tables_lookup_rows_sync (tables, pushes->pattern->table,
                                               tps_view_ids (ids, n), tps_served_get_deadline (),
                                               &rows, error))
        return FALSE;
      elements = tps_tensor_data (&rows);
      for (gsize i = 0; i < n * pushes->pattern->dim; i++)
        *sum += (gdouble) elements[i];
    }
  return TRUE;
}

static gboolean
check_table (const Pushes *pushes, const TpsServed *server, guint transport, GError **error)
{
  const Pattern *pattern = pushes->pattern;
  gdouble expected = (gdouble) pushes->n_pushes * (gdouble) (pattern->n_ids * pattern->dim);
  g_autoptr (TpsRemoteTables) tables = tps_lookup_server_connect (server, transport, error);
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

/* Pushes for `seconds`, and compares the sum of the table with that of all pushes. `*load` receives
 * the rates. INTERNAL (another sum). */
static gboolean
pushes_run (Pushes *pushes, const TpsServed *server, guint transport, gdouble seconds,
            TpsLookupLoad *load, GError **error)
{
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (pusher_free);

  for (guint i = 0; i < pushes->pattern->n_clients; i++)
    {
      Pusher *client = pusher_new (pushes, server, transport, i, error);

      if (client == NULL)
        return FALSE;
      g_ptr_array_add (clients, client);
    }
  if (!tps_lookup_server_load (server, clients->pdata, clients->len, push_set, seconds, load,
                               error))
    return FALSE;
  pushes->n_pushes += load->n_calls;
  return check_table (pushes, server, transport, error);
}

/* The smallest calls, one after another: an empty call, a lookup of one row, and a push of one
 * row. */

/* The kinds of calls, in the order of the report. */
typedef enum
{
  SMALL_EMPTY, /* Rendezvous.remove() of a prefix that no key has */
  SMALL_LOOKUP,
  SMALL_PUSH,
} SmallKind;

#define N_SMALL_KINDS 3

/* The work of small calls. */
typedef struct
{
  gsize n_rows, dim; /* of the table */
  TpsLookupIdKind ids;
  guint n_calls;
  TpsTablePlace place;
} SmallShape;

#define SMALL_TABLE "small"
#define SMALL_SEED 17

typedef struct
{
  const TpsServed *server;
  SmallShape shape;
  TpsLookupIdSource *source;
  /* [n_rows], the pushes to each row; a push adds 1 to every element of its row */
  guint32 *n_pushes;
  gfloat *gradient; /* [dim], all -1: a step of SGD with the learning rate 1 then adds 1 */
} Small;

/* The client of a run. Empty calls use `client`, lookups and pushes use `tables`; the other pointer
 * is NULL. */
typedef struct
{
  Small *small;
  TpsClient *client;
  TpsRemoteTables *tables;
} Caller;

static const gchar *
small_name (SmallKind kind)
{
  static const gchar *const names[N_SMALL_KINDS] = { "empty call", "lookup of one row",
                                                     "push of one row" };

  return names[kind];
}

/* Creates a table of zeros on `server`, which must outlive the result. */
static Small *
small_new (const TpsServed *server, const SmallShape *shape, GError **error)
{
  TpsLookupTable table = {
    .name = SMALL_TABLE, .n_rows = shape->n_rows, .dim = shape->dim, .place = &shape->place
  };
  Small *small;

  if (!tps_lookup_server_make_table (server, &table, error))
    return NULL;
  small = g_new0 (Small, 1);
  small->server = server;
  small->shape = *shape;
  small->source = tps_lookup_id_source_new (&small->shape.ids, shape->n_rows, SMALL_SEED);
  small->n_pushes = g_new0 (guint32, shape->n_rows);
  small->gradient = g_new (gfloat, shape->dim);
  for (gsize i = 0; i < shape->dim; i++)
    small->gradient[i] = -1;
  return small;
}

static void
small_free (Small *small)
{
  tps_lookup_id_source_free (small->source);
  g_free (small->n_pushes);
  g_free (small->gradient);
  g_free (small);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (Small, small_free)

/* -- the calls -- */

static gboolean
call_empty (Caller *caller, G_GNUC_UNUSED gint64 id, G_GNUC_UNUSED TpsTensor *row, GError **error)
{
  return tps_remote_remove (caller->client, "missing", tps_served_get_deadline (), error);
}

static gboolean
look_up (Caller *caller, gint64 id, TpsTensor *row, GError **error)
{
  return tps_remote_tables_lookup_rows_sync (caller->tables, SMALL_TABLE, tps_view_ids (&id, 1),
                                             tps_served_get_deadline (), row, error);
}

static gboolean
push (Caller *caller, gint64 id, G_GNUC_UNUSED TpsTensor *row, GError **error)
{
  const Small *small = caller->small;

  return tps_remote_tables_apply_rows_sync (caller->tables, SMALL_TABLE, tps_view_ids (&id, 1),
                                            tps_view_rows (small->gradient, 1, small->shape.dim),
                                            tps_served_get_deadline (), error);
}

typedef gboolean (*Call) (Caller *caller, gint64 id, TpsTensor *row, GError **error);

static const Call calls[N_SMALL_KINDS] = { call_empty, look_up, push };

static gboolean
check_row (const Small *small, gint64 id, const TpsTensor *row, GError **error)
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
make_calls (Caller *caller, SmallKind kind, GArray *ms, GError **error)
{
  Small *small = caller->small;

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
      small->n_pushes[id] += kind == SMALL_PUSH;
      if (kind == SMALL_LOOKUP && !check_row (small, id, &row, error))
        return FALSE;
    }
  return TRUE;
}

/* -- a run -- */

/* Creates a client, makes `n_calls` calls of `kind` one after another, and checks the rows that
 * lookups return. */
static GArray *
small_run (Small *small, SmallKind kind, guint transport, GError **error)
{
  g_autoptr (GArray) ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  g_autoptr (TpsClient) client = NULL;
  g_autoptr (TpsRemoteTables) tables = NULL;
  TpsClientOptions options = { .address = small->server->addresses[transport] };
  Caller caller = { .small = small };

  if (kind == SMALL_EMPTY)
    caller.client = client = tps_client_new (&options, error);
  else
    caller.tables = tables = tps_lookup_server_connect (small->server, transport, error);
  if ((client == NULL && tables == NULL) || !make_calls (&caller, kind, ms, error))
    return NULL;
  return g_steal_pointer (&ms);
}

/* For the estimate: the time of a lookup, and the rate of the sum that checks pushes. */
#define USUAL_CALL_S 0.0002
#define USUAL_ELEMENTS_PER_S 3e8

/* -- the state of the part -- */

struct TpsLookupRows
{
  RemoteShape remote;
  Pushes pushes[N_PATTERNS];
  Small *small;
};

static TpsLookupRows *
get_rows (TpsLookup *lookup)
{
  if (lookup->rows == NULL)
    lookup->rows = g_new0 (TpsLookupRows, 1);
  return lookup->rows;
}

void
tps_lookup_rows_free (TpsLookupRows *rows)
{
  g_clear_pointer (&rows->small, small_free);
  g_free (rows);
}

/* -- rows by RPC: a row of transports -- */

static gboolean
run_remote (gpointer bench, gpointer system, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
            GError **error)
{
  TpsLookup *lookup = bench;
  guint transport = GPOINTER_TO_UINT (system);
  const gchar *name = tps_lookup_transport_name (transport);
  g_autofree gchar *load = g_strdup_printf ("%s, %d clients", name, lookup->options->n_clients);
  g_autofree gchar *cpu = g_strdup_printf ("%s, a second of its CPU", name);
  g_auto (RemoteTimes) times = { 0 };

  if (!remote_run (lookup->server, &lookup->rows->remote, transport, &times, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add_all (lookup->figures, "lookup", name, &tps_lookup_ms, times.ms);
  tps_figures_add (lookup->figures, "lookup", load, &tps_lookup_calls_per_s,
                   times.load.calls_per_s);
  tps_figures_add (lookup->figures, "server", cpu, &tps_lookup_calls, times.load.calls_per_cpu_s);
  return TRUE;
}

gboolean
tps_lookup_prepare_remote (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  gdouble seconds = lookup->options->seconds + (gdouble) lookup->options->n_calls * USUAL_CALL_S;

  get_rows (lookup)->remote = (RemoteShape) { .n_rows = (gsize) lookup->options->n_rows,
                                              .dim = (gsize) lookup->options->remote_dim,
                                              .dtype = lookup->options->remote_dtype,
                                              .n_ids = (gsize) lookup->options->n_ids,
                                              .n_calls = (guint) lookup->options->n_calls,
                                              .n_clients = (guint) lookup->options->n_clients,
                                              .seconds = lookup->options->seconds,
                                              .place = lookup->options->place,
                                              .ids = lookup->options->id_kind };
  if (!remote_prepare (lookup->server, &lookup->rows->remote, error))
    return FALSE;
  tps_engine_begin_row (run->engine);
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      g_autofree gchar *title = g_strdup_printf ("lookup, %s",
                                                 tps_lookup_transport_name (transport));
      TpsTask task = { .title = title,
                       .run = run_remote,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (transport),
                       .warm_up_s = seconds,
                       .measured_s = seconds };

      tps_engine_add (run->engine, &task);
    }
  return TRUE;
}

/* -- the smallest calls by RPC: a row of kinds for each transport -- */

static gboolean
run_small (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  SmallKind kind = GPOINTER_TO_UINT (system);
  guint transport = GPOINTER_TO_UINT (row);
  g_autoptr (GArray) ms = small_run (lookup->rows->small, kind, transport, error);

  if (ms == NULL)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add_all (lookup->figures, small_name (kind), tps_lookup_transport_name (transport),
                         &tps_lookup_ms, ms);
  return TRUE;
}

gboolean
tps_lookup_prepare_small (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  gdouble seconds = (gdouble) lookup->options->n_calls * USUAL_CALL_S;
  SmallShape shape = { .n_rows = (gsize) lookup->options->n_rows,
                       .dim = (gsize) lookup->options->remote_dim,
                       .ids = lookup->options->id_kind,
                       .n_calls = (guint) lookup->options->n_calls,
                       .place = lookup->options->place };
  TpsFigureLimit limit = { .name = small_name (SMALL_EMPTY), .title = "of empty" };

  get_rows (lookup)->small = small_new (lookup->server, &shape, error);
  if (lookup->rows->small == NULL)
    return FALSE;
  tps_figures_add_limit (lookup->figures, &limit);
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      tps_engine_begin_row (run->engine);
      for (guint kind = 0; kind < N_SMALL_KINDS; kind++)
        {
          g_autofree gchar *title = g_strdup_printf ("%s, %s", small_name (kind),
                                                     tps_lookup_transport_name (transport));
          TpsTask task = { .title = title,
                           .run = run_small,
                           .bench = lookup,
                           .system = GUINT_TO_POINTER (kind),
                           .row = GUINT_TO_POINTER (transport),
                           .warm_up_s = seconds,
                           .measured_s = seconds };

          tps_engine_add (run->engine, &task);
        }
    }
  return TRUE;
}

/* -- pushes by RPC: a row of transports for each pattern -- */

static gboolean
run_pushes (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  Pushes *pushes = row;
  guint transport = GPOINTER_TO_UINT (system);
  const Pattern *pattern = pushes->pattern;
  const gchar *name = tps_lookup_transport_name (transport);
  g_autofree gchar *clients = g_strdup_printf ("%s, %u clients", name, pattern->n_clients);
  g_autofree gchar *cpu = g_strdup_printf ("%s, %s, a second of its CPU", pattern->name, name);
  TpsLookupLoad load;

  if (!pushes_run (pushes, lookup->server, transport, lookup->options->seconds, &load, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add (lookup->figures, pattern->name, clients, &tps_lookup_calls_per_s,
                   load.calls_per_s);
  tps_figures_add (lookup->figures, "server", cpu, &tps_lookup_calls, load.calls_per_cpu_s);
  return TRUE;
}

static gboolean
prepare_pattern (TpsLookup *lookup, TpsBenchRun *run, guint i, GError **error)
{
  Pushes *pushes = &get_rows (lookup)->pushes[i];

  if (!pushes_prepare (pushes, lookup->server, i, (gsize) lookup->options->n_rows,
                       &lookup->options->place, error))
    return FALSE;
  pushes->ids = lookup->options->id_kind;
  tps_engine_begin_row (run->engine);
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      g_autofree gchar *title = g_strdup_printf ("%s, %s", pushes->pattern->name,
                                                 tps_lookup_transport_name (transport));
      TpsTask task = { .title = title,
                       .run = run_pushes,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (transport),
                       .row = pushes };

      task.measured_s = lookup->options->seconds
                        + (gdouble) (pushes->n_rows * pushes->pattern->dim) / USUAL_ELEMENTS_PER_S;
      task.warm_up_s = task.measured_s;
      tps_engine_add (run->engine, &task);
    }
  return TRUE;
}

gboolean
tps_lookup_prepare_pushes (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  for (guint i = 0; i < N_PATTERNS; i++)
    if (!prepare_pattern (lookup, run, i, error))
      return FALSE;
  return TRUE;
}

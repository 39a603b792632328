/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "bench/lookup/bags.h"
#include "bench/lookup/parts.h"
#include "bench/lookup/server.h"
#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/device/cpu/kernels/elementwise.h"

/* For the estimate: the time of a lookup, and the rate of the sum that checks pushes. */
#define USUAL_CALL_S 0.0002
#define USUAL_ELEMENTS_PER_S 3e8

typedef TpsLookupSmall Small;

static void
append_ms (GArray *ms, gint64 start_ns)
{
  gdouble took_ms = (gdouble) (tps_clock_now_ns () - start_ns) / 1e6;

  g_array_append_val (ms, took_ms);
}

/* -- lookups of rows: a row of transports -- */

#define READ_TABLE "rows"
#define READ_SEED 11

typedef struct
{
  const TpsLookupOptions *options;
  TpsRemoteTables *tables;
  TpsLookupIdSource *source;
  gint64 *ids;    /* [n_ids] */
  TpsTensor rows; /* the result of the last call */
} Reader;

static void
reader_free (gpointer data)
{
  Reader *client = data;

  g_clear_pointer (&client->tables, tps_remote_tables_free);
  tps_lookup_id_source_free (client->source);
  g_free (client->ids);
  tps_tensor_clear (&client->rows);
  g_free (client);
}

static gboolean
add_reader (GPtrArray *clients, const TpsLookup *lookup, guint transport, GError **error)
{
  const TpsLookupOptions *o = lookup->options;
  Reader *client = g_new0 (Reader, 1);

  client->options = o;
  client->source = tps_lookup_id_source_new (&o->id_kind, (gsize) o->n_rows,
                                             READ_SEED + clients->len);
  client->ids = g_new (gint64, o->n_ids);
  g_ptr_array_add (clients, client);
  client->tables = tps_lookup_server_connect (lookup->server, transport, error);
  return client->tables != NULL;
}

static void
draw_ids (Reader *client)
{
  tps_lookup_id_source_draw (client->source, client->ids, (gsize) client->options->n_ids);
}

static gboolean
look_up_ids (Reader *client, GError **error)
{
  TpsTensor rows = { 0 };

  if (!tps_remote_tables_lookup_rows_sync (
          client->tables, READ_TABLE, tps_view_ids (client->ids, (gsize) client->options->n_ids),
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
  const TpsLookupOptions *o = client->options;
  gsize dim = (gsize) o->remote_dim, row_bytes = dim * tps_dtype_size (o->remote_dtype);
  g_autofree gfloat *expected = g_new (gfloat, dim);
  g_autofree guint8 *row = g_malloc (row_bytes);
  const guint8 *rows = tps_tensor_data (&client->rows);

  for (gsize i = 0; i < (gsize) o->n_ids; i++)
    {
      tps_lookup_fill_rows (expected, (gsize) client->ids[i], 1, dim, 1);
      tps_cpu_cast (o->remote_dtype, row, TPS_DTYPE_FLOAT32, expected, dim);
      if (memcmp (row, rows + i * row_bytes, row_bytes) == 0)
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "a wrong row %" G_GINT64_FORMAT,
                   client->ids[i]);
      return FALSE;
    }
  return TRUE;
}

/* Makes one call after another, and checks each result. */
static gboolean
measure_calls (Reader *client, GArray *ms, GError **error)
{
  for (gint64 i = 0; i < client->options->n_calls; i++)
    {
      gint64 start_ns;

      draw_ids (client);
      start_ns = tps_clock_now_ns ();
      if (!look_up_ids (client, error))
        return FALSE;
      append_ms (ms, start_ns);
      if (!check_rows (client, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
run_remote (gpointer bench, gpointer system, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
            GError **error)
{
  TpsLookup *lookup = bench;
  const TpsLookupOptions *o = lookup->options;
  guint transport = GPOINTER_TO_UINT (system);
  const gchar *name = tps_lookup_transport_name (transport);
  g_autofree gchar *load = g_strdup_printf ("%s, %d clients", name, o->n_clients);
  g_autofree gchar *cpu = g_strdup_printf ("%s, a second of its CPU", name);
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (reader_free);
  g_autoptr (GArray) ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  TpsLookupLoad rates;

  for (gint i = 0; i < o->n_clients; i++)
    if (!add_reader (clients, lookup, transport, error))
      return FALSE;
  if (!measure_calls (clients->pdata[0], ms, error)
      || !tps_lookup_server_load (lookup->server, clients->pdata, clients->len, look_up_others,
                                  o->seconds, &rates, error))
    return FALSE;
  for (guint i = 0; i < clients->len; i++)
    if (!check_rows (clients->pdata[i], error))
      return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add_all (lookup->figures, "lookup", name, &tps_lookup_ms, ms);
  tps_figures_add (lookup->figures, "lookup", load, &tps_lookup_calls_per_s, rates.calls_per_s);
  tps_figures_add (lookup->figures, "server", cpu, &tps_lookup_calls, rates.calls_per_cpu_s);
  return TRUE;
}

gboolean
tps_lookup_prepare_remote (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  const TpsLookupOptions *o = lookup->options;
  TpsLookupTable table = { .name = READ_TABLE,
                           .n_rows = (gsize) o->n_rows,
                           .dim = (gsize) o->remote_dim,
                           .dtype = o->remote_dtype,
                           .place = &o->place };

  if (!tps_lookup_server_make_filled_table (lookup->server, &table, error))
    return FALSE;
  tps_engine_begin_row (run->engine);
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      TpsTask task = { .run = run_remote,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (transport),
                       .measured_s = o->seconds + (gdouble) o->n_calls * USUAL_CALL_S };

      tps_engine_add (run->engine, &task, "lookup, %s", tps_lookup_transport_name (transport));
    }
  return TRUE;
}

/* -- pushes of gradients by several clients: a row of transports for each pattern -- */

/* A pattern of pushes. */
typedef struct
{
  const gchar *name;  /* such as "push 2000 x 64": rows of a push, and floats of a row */
  const gchar *table; /* the table of this pattern */
  gsize n_ids, dim;
  guint n_clients;
} Pattern;

static const Pattern patterns[] = {
  { "push 2000 x 64", "push/2000x64", 2000, 64, 4 }, /* the batch of a trainer */
  { "push 1 x 16", "push/1x16", 1, 16, 8 },          /* 64 bytes, for the fixed cost of a push */
};

#define N_SETS 16 /* number of sets of ids; drawn in advance, outside the measured time */
#define PUSH_SEED 13

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

/* Returns the gradient of `n` elements that adds 1 to each. */
static gfloat *
make_ones (gsize n)
{
  gfloat *values = g_new (gfloat, n);

  for (gsize i = 0; i < n; i++)
    values[i] = -1;
  return values;
}

static gboolean
add_pusher (GPtrArray *clients, const TpsLookup *lookup, const Pattern *pattern, guint transport,
            GError **error)
{
  Pusher *client = g_new0 (Pusher, 1);
  g_autoptr (TpsLookupIdSource) source = tps_lookup_id_source_new (
      &lookup->options->id_kind, (gsize) lookup->options->n_rows, PUSH_SEED + clients->len);

  client->pattern = pattern;
  client->ids = g_new (gint64, N_SETS * pattern->n_ids);
  client->values = make_ones (pattern->n_ids * pattern->dim);
  tps_lookup_id_source_draw (source, client->ids, N_SETS * pattern->n_ids);
  g_ptr_array_add (clients, client);
  client->tables = tps_lookup_server_connect (lookup->server, transport, error);
  return client->tables != NULL;
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

/* Sums the elements of the table, whole numbers, in any order of pushes. */
static gboolean
sum_up (TpsRemoteTables *tables, const Pattern *pattern, gsize n_rows, gdouble *sum, GError **error)
{
  g_autofree gint64 *ids = g_new (gint64, TPS_SERVED_ROWS_AT_ONCE);

  *sum = 0;
  for (gsize first = 0; first < n_rows; first += TPS_SERVED_ROWS_AT_ONCE)
    {
      gsize n = MIN (TPS_SERVED_ROWS_AT_ONCE, n_rows - first);
      g_auto (TpsTensor) rows = { 0 };
      const gfloat *elements;

      for (gsize i = 0; i < n; i++)
        ids[i] = (gint64) (first + i);
      if (!tps_remote_tables_lookup_rows_sync (tables, pattern->table, tps_view_ids (ids, n),
                                               tps_served_get_deadline (), &rows, error))
        return FALSE;
      elements = tps_tensor_data (&rows);
      for (gsize i = 0; i < n * pattern->dim; i++)
        *sum += (gdouble) elements[i];
    }
  return TRUE;
}

/* Compares the sum of the table with that of all pushes. */
static gboolean
check_table (const TpsLookup *lookup, const Pattern *pattern, GError **error)
{
  gint64 n_pushes = lookup->n_pushes[pattern - patterns];
  gdouble expected = (gdouble) n_pushes * (gdouble) (pattern->n_ids * pattern->dim), sum;
  g_autoptr (TpsRemoteTables) tables = tps_lookup_server_connect (lookup->server, 0, error);

  if (tables == NULL || !sum_up (tables, pattern, (gsize) lookup->options->n_rows, &sum, error))
    return FALSE;
  if (sum == expected)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "%s: the table's sum is %.17g after %" G_GINT64_FORMAT " pushes, expected %.17g",
               pattern->name, sum, n_pushes, expected);
  return FALSE;
}

static gboolean
run_pushes (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  const Pattern *pattern = row;
  guint transport = GPOINTER_TO_UINT (system);
  const gchar *name = tps_lookup_transport_name (transport);
  g_autofree gchar *of_clients = g_strdup_printf ("%s, %u clients", name, pattern->n_clients);
  g_autofree gchar *cpu = g_strdup_printf ("%s, %s, a second of its CPU", pattern->name, name);
  g_autoptr (GPtrArray) clients = g_ptr_array_new_with_free_func (pusher_free);
  TpsLookupLoad load;

  for (guint i = 0; i < pattern->n_clients; i++)
    if (!add_pusher (clients, lookup, pattern, transport, error))
      return FALSE;
  if (!tps_lookup_server_load (lookup->server, clients->pdata, clients->len, push_set,
                               lookup->options->seconds, &load, error))
    return FALSE;
  lookup->n_pushes[pattern - patterns] += load.n_calls;
  if (!check_table (lookup, pattern, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add (lookup->figures, pattern->name, of_clients, &tps_lookup_calls_per_s,
                   load.calls_per_s);
  tps_figures_add (lookup->figures, "server", cpu, &tps_lookup_calls, load.calls_per_cpu_s);
  return TRUE;
}

static gboolean
prepare_pattern (TpsLookup *lookup, TpsBenchRun *run, const Pattern *pattern, GError **error)
{
  const TpsLookupOptions *o = lookup->options;
  gdouble n_elems = (gdouble) o->n_rows * (gdouble) pattern->dim;
  TpsLookupTable table = {
    .name = pattern->table, .n_rows = (gsize) o->n_rows, .dim = pattern->dim, .place = &o->place
  };

  if (!tps_lookup_server_make_table (lookup->server, &table, error))
    return FALSE;
  tps_engine_begin_row (run->engine);
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      TpsTask task = { .run = run_pushes,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (transport),
                       .row = (gpointer) (gsize) pattern,
                       .measured_s = o->seconds + n_elems / USUAL_ELEMENTS_PER_S };

      tps_engine_add (run->engine, &task, "%s, %s", pattern->name,
                      tps_lookup_transport_name (transport));
    }
  return TRUE;
}

gboolean
tps_lookup_prepare_pushes (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  for (guint i = 0; i < G_N_ELEMENTS (patterns); i++)
    if (!prepare_pattern (lookup, run, &patterns[i], error))
      return FALSE;
  return TRUE;
}

/* -- the smallest calls, one after another: a row of kinds for each transport -- */

/* The kinds of calls, in the order of the report. */
typedef enum
{
  SMALL_EMPTY, /* Rendezvous.remove() of a prefix that no key has */
  SMALL_LOOKUP,
  SMALL_PUSH,
  N_SMALL_KINDS
} SmallKind;

static const gchar *const small_names[N_SMALL_KINDS] = { "empty call", "lookup of one row",
                                                         "push of one row" };

#define SMALL_TABLE "small"
#define SMALL_SEED 17

/* Elements of the table are numbers of pushes. Empty calls use `client`, others `tables`. */
struct TpsLookupSmall
{
  gsize dim;
  TpsLookupIdSource *source;
  guint32 *n_pushes; /* [n_rows], the pushes to each row */
  gfloat *gradient;  /* [dim] */
  TpsClient *client;
  TpsRemoteTables *tables;
};

static Small *
small_new (const TpsLookupOptions *o)
{
  Small *small = g_new0 (Small, 1);

  small->dim = (gsize) o->remote_dim;
  small->source = tps_lookup_id_source_new (&o->id_kind, (gsize) o->n_rows, SMALL_SEED);
  small->n_pushes = g_new0 (guint32, o->n_rows);
  small->gradient = make_ones (small->dim);
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

static gboolean
make_call (const Small *small, SmallKind kind, gint64 id, TpsTensor *row, GError **error)
{
  TpsTensorView ids = tps_view_ids (&id, 1);
  gint64 deadline_ns = tps_served_get_deadline ();

  switch (kind)
    {
    case SMALL_LOOKUP:
      return tps_remote_tables_lookup_rows_sync (small->tables, SMALL_TABLE, ids, deadline_ns, row,
                                                 error);
    case SMALL_PUSH:
      return tps_remote_tables_apply_rows_sync (small->tables, SMALL_TABLE, ids,
                                                tps_view_rows (small->gradient, 1, small->dim),
                                                deadline_ns, error);
    default:
      return tps_remote_remove (small->client, "missing", deadline_ns, error);
    }
}

static gboolean
check_row (const Small *small, gint64 id, const TpsTensor *row, GError **error)
{
  const gfloat *elements = tps_tensor_data (row);

  for (gsize i = 0; i < small->dim; i++)
    if (elements[i] != (gfloat) small->n_pushes[id])
      {
        g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                     "row %" G_GINT64_FORMAT " contains %g after %u pushes of 1", id,
                     (gdouble) elements[i], small->n_pushes[id]);
        return FALSE;
      }
  return TRUE;
}

/* Makes the calls, and checks the rows that lookups return. */
static gboolean
make_calls (Small *small, SmallKind kind, gint64 n_calls, GArray *ms, GError **error)
{
  for (gint64 i = 0; i < n_calls; i++)
    {
      g_auto (TpsTensor) row = { 0 };
      gint64 id, start_ns;

      tps_lookup_id_source_draw (small->source, &id, 1);
      start_ns = tps_clock_now_ns ();
      if (!make_call (small, kind, id, &row, error))
        return FALSE;
      append_ms (ms, start_ns);
      small->n_pushes[id] += kind == SMALL_PUSH;
      if (kind == SMALL_LOOKUP && !check_row (small, id, &row, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
run_small (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  Small *small = lookup->small;
  SmallKind kind = GPOINTER_TO_UINT (system);
  guint transport = GPOINTER_TO_UINT (row);
  g_autoptr (GArray) ms = g_array_new (FALSE, FALSE, sizeof (gdouble));
  TpsClientOptions options = { .address = lookup->server->addresses[transport] };
  gboolean ok;

  if (kind == SMALL_EMPTY)
    small->client = tps_client_new (&options, error);
  else
    small->tables = tps_lookup_server_connect (lookup->server, transport, error);
  ok = (small->client != NULL || small->tables != NULL)
       && make_calls (small, kind, lookup->options->n_calls, ms, error);
  g_clear_pointer (&small->client, tps_client_free);
  g_clear_pointer (&small->tables, tps_remote_tables_free);
  if (ok && !is_warm_up)
    tps_figures_add_all (lookup->figures, small_names[kind], tps_lookup_transport_name (transport),
                         &tps_lookup_ms, ms);
  return ok;
}

gboolean
tps_lookup_prepare_small (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  const TpsLookupOptions *o = lookup->options;
  TpsLookupTable table = { .name = SMALL_TABLE,
                           .n_rows = (gsize) o->n_rows,
                           .dim = (gsize) o->remote_dim,
                           .place = &o->place };
  TpsFigureLimit limit = { .name = small_names[SMALL_EMPTY], .title = "of empty" };

  if (!tps_lookup_server_make_table (lookup->server, &table, error))
    return FALSE;
  lookup->small = small_new (o);
  tps_figures_add_limit (lookup->figures, &limit);
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      tps_engine_begin_row (run->engine);
      for (guint kind = 0; kind < N_SMALL_KINDS; kind++)
        {
          TpsTask task = { .run = run_small,
                           .bench = lookup,
                           .system = GUINT_TO_POINTER (kind),
                           .row = GUINT_TO_POINTER (transport),
                           .measured_s = (gdouble) o->n_calls * USUAL_CALL_S };

          tps_engine_add (run->engine, &task, "%s, %s", small_names[kind],
                          tps_lookup_transport_name (transport));
        }
    }
  return TRUE;
}

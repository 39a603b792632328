/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/served/served.h"

#include <stdatomic.h>
#include <string.h>

#include "bench/process/runfiles.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define CALL_NS G_GINT64_CONSTANT (300000000000)

gchar *
tps_served_find (const gchar *program, GError **error)
{
  return program != NULL ? g_strdup (program)
                         : tps_bench_find_file ("plugin/app/thriftps_server", error);
}

static gchar *
receive_address (TpsChild *child, const gchar *name, GError **error)
{
  static const gchar listening[] = "listening on ";
  g_autofree gchar *line = tps_child_receive (child, error);

  if (line == NULL)
    return NULL;
  if (g_str_has_prefix (line, listening))
    return g_strdup (line + strlen (listening));
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s did not start: %s", name, line);
  return NULL;
}

TpsServed *
tps_served_start (TpsSupervisor *supervisor, const gchar *name, const gchar *program,
                  const gchar *flags, guint n_addresses, GError **error)
{
  g_autoptr (TpsServed) served = g_new0 (TpsServed, 1);
  g_autofree gchar *path = tps_served_find (program, error);
  g_auto (GStrv) argv = NULL;

  if (path == NULL)
    return NULL;
  argv = tps_argv_format ("%s\n--log-level=error\n%s", path, flags);
  served->addresses = g_new0 (gchar *, n_addresses + 1);
  served->child = tps_child_start (supervisor, name, argv, error);
  for (guint i = 0; served->child != NULL && i < n_addresses; i++)
    if ((served->addresses[i] = receive_address (served->child, name, error)) == NULL)
      return NULL;
  return served->child != NULL ? g_steal_pointer (&served) : NULL;
}

void
tps_served_free (TpsServed *served)
{
  g_clear_pointer (&served->child, tps_child_free);
  g_strfreev (served->addresses);
  g_free (served);
}

void
tps_served_kill (TpsServed *served)
{
  tps_child_kill (served->child);
  tps_served_free (served);
}

TpsRemoteTables *
tps_served_connect (const gchar *address, const gchar *token, TpsDevice *lookup_device,
                    GError **error)
{
  TpsRemoteTablesOptions options = {
    .addresses = &address, .n_addresses = 1, .token = token, .lookup_device = lookup_device
  };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&options, error);

  if (tables == NULL || !tps_remote_tables_discover (tables, tps_served_get_deadline (), error))
    return NULL;
  return g_steal_pointer (&tables);
}

gint64
tps_served_get_deadline (void)
{
  return tps_clock_now_ns () + CALL_NS;
}

TpsTensorView
tps_view_ids (const gint64 *ids, gsize n)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_INT64, .n_dims = 1, .dims = { (gint64) n } }, .data = ids
  };
}

TpsTensorView
tps_view_rows (const gfloat *rows, gsize n, gsize dim)
{
  return (TpsTensorView) {
    .shape = { .dtype = TPS_DTYPE_FLOAT32, .n_dims = 2, .dims = { (gint64) n, (gint64) dim } },
    .data = rows
  };
}

/* A client. Its thread owns `calls` and `error` until the thread has ended. */
typedef struct
{
  TpsCallers *callers;
  gpointer client;
  GArray *calls; /* of TpsCallTime */
  GError *error;
  TpsThread thread;
} Caller;

struct TpsCallers
{
  TpsMakeCall call;
  gint64 n_calls, end_ns; /* of each caller; 0 = no limit */
  atomic_bool ends;
  guint n;
  Caller *all;
};

static gboolean
goes_on (const Caller *caller, gint64 now_ns)
{
  const TpsCallers *callers = caller->callers;

  return caller->error == NULL
         && (callers->n_calls == 0 || (gint64) caller->calls->len < callers->n_calls)
         && (callers->end_ns == 0 || now_ns < callers->end_ns) && !atomic_load (&callers->ends);
}

static gpointer
make_calls (gpointer data)
{
  Caller *caller = data;
  TpsCallTime time;

  do
    {
      time.begin_ns = tps_clock_now_ns ();
      if (!caller->callers->call (caller->client, &caller->error))
        break;
      time.end_ns = tps_clock_now_ns ();
      g_array_append_val (caller->calls, time);
    }
  while (goes_on (caller, time.end_ns));
  return NULL;
}

TpsCallers *
tps_callers_start (gpointer const *clients, guint n, TpsMakeCall call, gint64 n_calls,
                   gdouble seconds)
{
  TpsCallers *callers = g_new0 (TpsCallers, 1);

  callers->call = call;
  callers->n_calls = n_calls;
  callers->end_ns = seconds > 0 ? tps_clock_now_ns () + (gint64) (seconds * 1e9) : 0;
  callers->n = n;
  callers->all = g_new0 (Caller, n);
  for (guint i = 0; i < n; i++)
    {
      callers->all[i] = (Caller) { .callers = callers,
                                   .client = clients[i],
                                   .calls = g_array_new (FALSE, FALSE, sizeof (TpsCallTime)) };
      tps_sync_check (pthread_create (&callers->all[i].thread, NULL, make_calls, &callers->all[i]));
    }
  return callers;
}

GArray *
tps_callers_stop (TpsCallers *callers, GError **error)
{
  g_autoptr (GArray) all = g_array_new (FALSE, FALSE, sizeof (TpsCallTime));
  gboolean ok = TRUE;

  if (callers->n_calls == 0 && callers->end_ns == 0)
    atomic_store (&callers->ends, TRUE);
  for (guint i = 0; i < callers->n; i++)
    {
      Caller *caller = &callers->all[i];

      tps_sync_check (pthread_join (caller->thread, NULL));
      g_array_append_vals (all, caller->calls->data, caller->calls->len);
      g_array_unref (caller->calls);
      if (caller->error == NULL)
        continue;
      if (ok)
        g_propagate_error (error, g_steal_pointer (&caller->error));
      g_clear_error (&caller->error);
      ok = FALSE;
    }
  g_free (callers->all);
  g_free (callers);
  return ok ? g_steal_pointer (&all) : NULL;
}

GArray *
tps_calls_get_ms (const GArray *calls)
{
  GArray *all = g_array_new (FALSE, FALSE, sizeof (gdouble));

  for (guint i = 0; i < calls->len; i++)
    {
      const TpsCallTime *call = &g_array_index (calls, TpsCallTime, i);
      gdouble ms = (gdouble) (call->end_ns - call->begin_ns) / 1e6;

      g_array_append_val (all, ms);
    }
  return all;
}

gdouble
tps_calls_get_span (const GArray *calls)
{
  gint64 begin_ns = G_MAXINT64, end_ns = 0;

  for (guint i = 0; i < calls->len; i++)
    {
      const TpsCallTime *call = &g_array_index (calls, TpsCallTime, i);

      begin_ns = MIN (begin_ns, call->begin_ns);
      end_ns = MAX (end_ns, call->end_ns);
    }
  return calls->len > 0 ? (gdouble) (end_ns - begin_ns) / 1e9 : 0;
}

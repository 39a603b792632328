/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/served/callers.h"

#include <stdatomic.h>

#include "runtime/base/sync.h"

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

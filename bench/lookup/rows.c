/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/parts.h"

/* For the estimate: the time of a lookup, and the rate of the sum that checks pushes. */
#define USUAL_CALL_S 0.0002
#define USUAL_ELEMENTS_PER_S 3e8

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
  g_auto (TpsLookupRemoteTimes) times = { 0 };

  if (!tps_lookup_remote_run (lookup->server, &lookup->remote, transport, &times, error))
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

  lookup->remote = (TpsLookupRemoteShape) { .n_rows = (gsize) lookup->options->n_rows,
                                            .dim = (gsize) lookup->options->remote_dim,
                                            .dtype = lookup->options->remote_dtype,
                                            .n_ids = (gsize) lookup->options->n_ids,
                                            .n_calls = (guint) lookup->options->n_calls,
                                            .n_clients = (guint) lookup->options->n_clients,
                                            .seconds = lookup->options->seconds,
                                            .place = lookup->options->place,
                                            .ids = lookup->options->id_kind };
  if (!tps_lookup_remote_prepare (lookup->server, &lookup->remote, error))
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
  TpsLookupSmallKind kind = GPOINTER_TO_UINT (system);
  guint transport = GPOINTER_TO_UINT (row);
  g_autoptr (GArray) ms = tps_lookup_small_run (lookup->small, kind, transport, error);

  if (ms == NULL)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add_all (lookup->figures, tps_lookup_small_name (kind),
                         tps_lookup_transport_name (transport), &tps_lookup_ms, ms);
  return TRUE;
}

gboolean
tps_lookup_prepare_small (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  gdouble seconds = (gdouble) lookup->options->n_calls * USUAL_CALL_S;
  TpsLookupSmallShape shape = { .n_rows = (gsize) lookup->options->n_rows,
                                .dim = (gsize) lookup->options->remote_dim,
                                .ids = lookup->options->id_kind,
                                .n_calls = (guint) lookup->options->n_calls,
                                .place = lookup->options->place };
  TpsFigureLimit limit = { .name = tps_lookup_small_name (TPS_LOOKUP_SMALL_EMPTY),
                           .title = "of empty" };

  lookup->small = tps_lookup_small_new (lookup->server, &shape, error);
  if (lookup->small == NULL)
    return FALSE;
  tps_figures_add_limit (lookup->figures, &limit);
  for (guint transport = 0; transport < TPS_LOOKUP_N_TRANSPORTS; transport++)
    {
      tps_engine_begin_row (run->engine);
      for (guint kind = 0; kind < TPS_LOOKUP_N_SMALL_KINDS; kind++)
        {
          g_autofree gchar *title = g_strdup_printf ("%s, %s", tps_lookup_small_name (kind),
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
  TpsLookupPushes *pushes = row;
  guint transport = GPOINTER_TO_UINT (system);
  const TpsLookupPattern *pattern = pushes->pattern;
  const gchar *name = tps_lookup_transport_name (transport);
  g_autofree gchar *clients = g_strdup_printf ("%s, %u clients", name, pattern->n_clients);
  g_autofree gchar *cpu = g_strdup_printf ("%s, %s, a second of its CPU", pattern->name, name);
  TpsLookupLoad load;

  if (!tps_lookup_pushes_run (pushes, lookup->server, transport, lookup->options->seconds, &load,
                              error))
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
  TpsLookupPushes *pushes = &lookup->pushes[i];

  if (!tps_lookup_pushes_prepare (pushes, lookup->server, i, (gsize) lookup->options->n_rows,
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
  for (guint i = 0; i < TPS_LOOKUP_N_PATTERNS; i++)
    if (!prepare_pattern (lookup, run, i, error))
      return FALSE;
  return TRUE;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measures access to rows of embedding tables: pooling of bags in this process, compared with a raw
 * gather of the same rows and, optionally, with PyTorch's EmbeddingBag; and lookups and pushes by
 * RPC.
 *
 * A task of the engine is a batch on one system with a number of threads, or a transport. A figure
 * is the median of the rounds. The sums of every system, the rows received by RPC, and the tables
 * after the pushes are checked.
 */

#include "bench/lookup/parts.h"

#define NAME "lookup"

static GPtrArray *
describe (gpointer user_data)
{
  return tps_lookup_options_describe (((TpsLookup *) user_data)->options);
}

static gboolean
is_asked_for (const TpsLookup *lookup, const gchar *part)
{
  const gchar *only = lookup->options->only;

  return only == NULL || g_str_equal (only, part);
}

static gboolean
start_server (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  const gchar *folder = tps_benchmark_get_folder (run, error);

  if (folder == NULL)
    return FALSE;
  lookup->server = tps_lookup_server_start (run->supervisor, lookup->options->server_binary, folder,
                                            error);
  return lookup->server != NULL;
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  TpsLookup *lookup = user_data;

  lookup->figures = run->figures;
  if (is_asked_for (lookup, "local") && !tps_lookup_prepare_local (lookup, run, error))
    return FALSE;
  if ((is_asked_for (lookup, "remote") || is_asked_for (lookup, "push"))
      && !start_server (lookup, run, error))
    return FALSE;
  if (is_asked_for (lookup, "remote") && !tps_lookup_prepare_remote (lookup, run, error))
    return FALSE;
  return !is_asked_for (lookup, "push") || tps_lookup_prepare_pushes (lookup, run, error);
}

static void
stop (gpointer user_data)
{
  TpsLookup *lookup = user_data;

  g_clear_pointer (&lookup->server, tps_lookup_server_free);
  g_clear_pointer (&lookup->peer, tps_child_free);
}

static gchar *
name_ours (const gchar *system, const gchar *row)
{
  return g_strdup_printf ("%s, %s", system, row);
}

const TpsQuantity tps_lookup_rows_per_s = { "", "rows/s" }, tps_lookup_ms = { "", "ms" },
                  tps_lookup_calls_per_s = { "", "calls/s" }, tps_lookup_calls = { "", "calls" };

static const TpsFigureColumn columns[] = {
  { "p50", "", NULL, 50 },
  { "p99", "", NULL, 99 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = {
  .name = name_ours, .label = name_ours, .columns = columns, .has_units = TRUE
};

static gint
run_benchmark (const TpsLookupOptions *options)
{
  static const TpsBenchmark benchmark = {
    .name = NAME,
    .describe = describe,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
  };
  TpsLookup lookup = { .options = options };
  gint status = tps_benchmark_run (&benchmark, &options->run, &lookup);

  for (guint i = 0; i < lookup.n_locals; i++)
    tps_lookup_local_free (lookup.locals[i]);
  tps_lookup_bags_clear (&lookup.bags);
  return status;
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (TpsLookupOptions) options = { 0 };

  tps_benchmark_init ();
  if (!tps_lookup_options_parse (&options, argc, argv, &error))
    return tps_benchmark_refuse (NAME, error);
  return options.run.version ? tps_benchmark_print_version (NAME) : run_benchmark (&options);
}

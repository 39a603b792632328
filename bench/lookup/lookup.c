/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Measures access to rows of embedding tables:
 *
 * - pooling of bags in this process, compared with a raw gather of the same rows and, optionally,
 *   with PyTorch's EmbeddingBag and FBGEMM;
 * - lookups and pushes by RPC;
 * - calls for one row and empty calls by RPC;
 * - the steps of a trainer by RPC, compared with the same peers.
 *
 * A task of the engine is a number of batches or calls on one system, with a number of threads or a
 * transport. A figure is the median of the rounds. The sums of every system, the rows received by
 * RPC, and the tables after the pushes are checked. */

#include <stdio.h>

#include "bench/lookup/parts.h"
#include "bench/process/runfiles.h"

#define NAME "lookup"
#define MAX_SETS 64

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
  lookup->server = tps_lookup_server_start (
      run->supervisor, lookup->options->server_binary, folder,
      lookup->options->to_device ? lookup->options->device : NULL, error);
  return lookup->server != NULL;
}

/* -- bags and peers, for the parts local and step -- */

static void
prepare_bags (TpsLookup *lookup)
{
  const TpsLookupOptions *options = lookup->options;
  TpsLookupShape shape = { .n_rows = (gsize) options->n_rows,
                           .dim = (gsize) options->dim,
                           .n_bags = (gsize) options->n_bags,
                           .bag_length = (gsize) options->bag_length,
                           .n_sets = (gsize) MIN (MAX (options->n_batches, options->n_steps),
                                                  MAX_SETS),
                           .ids = options->id_kind };

  tps_lookup_bags_init (&lookup->bags, &shape);
}

static gboolean
start_peer (TpsLookup *lookup, TpsBenchRun *run, TpsLookupPeerKind kind, GError **error)
{
  TpsLookupPeer *peer = &lookup->peers[kind];
  TpsFigureLimit limit;

  if (!tps_lookup_peer_start (peer, kind, &lookup->bags, run, error))
    return FALSE;
  limit = (TpsFigureLimit) { .name = peer->name, .title = peer->title, .version = peer->version };
  if (peer->child != NULL)
    tps_figures_add_limit (lookup->figures, &limit);
  return TRUE;
}

static gboolean
start_peers (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  const gchar *peer = lookup->options->run.peer;

  if (peer == NULL)
    return TRUE;
  if (!g_str_equal (peer, "fbgemm") && !start_peer (lookup, run, TPS_LOOKUP_PYTORCH, error))
    return FALSE;
  if (!g_str_equal (peer, "pytorch") && !start_peer (lookup, run, TPS_LOOKUP_FBGEMM, error))
    return FALSE;
  printf ("%s", tps_bench_describe_python ());
  return TRUE;
}

/* -- the benchmark -- */

static gboolean
prepare_with_bags (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  prepare_bags (lookup);
  if (!start_peers (lookup, run, error))
    return FALSE;
  if (is_asked_for (lookup, "local") && !tps_lookup_prepare_local (lookup, run, error))
    return FALSE;
  return !is_asked_for (lookup, "step") || tps_lookup_prepare_steps (lookup, run, error);
}

static gboolean
find_device (TpsLookup *lookup, GError **error)
{
  if (!lookup->options->to_device)
    return TRUE;
  lookup->device = tps_device_find (lookup->options->place.device, error);
  if (lookup->device == NULL)
    g_prefix_error (error, "--to-device: ");
  return lookup->device != NULL;
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  TpsLookup *lookup = user_data;

  lookup->figures = run->figures;
  if (!find_device (lookup, error))
    return FALSE;
  if (!(lookup->options->only != NULL && is_asked_for (lookup, "local"))
      && !start_server (lookup, run, error))
    return FALSE;
  if ((is_asked_for (lookup, "local") || is_asked_for (lookup, "step"))
      && !prepare_with_bags (lookup, run, error))
    return FALSE;
  if (is_asked_for (lookup, "remote") && !tps_lookup_prepare_remote (lookup, run, error))
    return FALSE;
  if (is_asked_for (lookup, "push") && !tps_lookup_prepare_pushes (lookup, run, error))
    return FALSE;
  return !is_asked_for (lookup, "small") || tps_lookup_prepare_small (lookup, run, error);
}

static void
stop (gpointer user_data)
{
  TpsLookup *lookup = user_data;

  g_clear_pointer (&lookup->steps, tps_lookup_steps_free);
  g_clear_pointer (&lookup->small, tps_lookup_small_free);
  g_clear_pointer (&lookup->server, tps_served_free);
  for (guint i = 0; i < TPS_LOOKUP_N_PEERS; i++)
    g_clear_pointer (&lookup->peers[i].child, tps_child_free);
}

static void
print_report (gpointer user_data)
{
  const TpsLookup *lookup = user_data;
  g_autofree gchar *device = tps_lookup_describe_device (lookup);

  for (guint i = 0; i < TPS_LOOKUP_N_PEERS; i++)
    if (lookup->peers[i].reason != NULL)
      printf ("\n%s is left out: %s\n", lookup->peers[i].name, lookup->peers[i].reason);
  if (device != NULL)
    printf ("\n%s\n", device);
}

static void
add_output (gpointer user_data, TpsBenchOutput *output)
{
  const TpsLookup *lookup = user_data;
  g_autofree gchar *device = tps_lookup_describe_device (lookup);

  if (device != NULL)
    tps_bench_output_add_fact (output, "lookups to the device", device);
  for (guint i = 0; i < TPS_LOOKUP_N_PEERS; i++)
    if (lookup->peers[i].reason != NULL)
      {
        g_autofree gchar *name = g_strdup_printf ("%s is left out", lookup->peers[i].name);

        tps_bench_output_add_fact (output, name, lookup->peers[i].reason);
      }
}

const TpsQuantity tps_lookup_rows_per_s = { "", "rows/s" }, tps_lookup_ms = { "", "ms" },
                  tps_lookup_calls_per_s = { "", "calls/s" }, tps_lookup_calls = { "", "calls" };

static const TpsFigureColumn columns[] = {
  { "p50", "", NULL, 50 },
  { "p99", "", NULL, 99 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = { .columns = columns, .has_units = TRUE };

static gint
run_benchmark (const TpsLookupOptions *options)
{
  static const TpsBenchmark benchmark = {
    .command_line = &tps_lookup_command_line,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
    .print_report = print_report,
    .add_output = add_output,
  };
  TpsLookup lookup = { .options = options };
  gint status = tps_benchmark_run (&benchmark, &options->run, &lookup);

  for (guint i = 0; i < lookup.n_locals; i++)
    tps_lookup_local_free (lookup.locals[i]);
  for (guint i = 0; i < TPS_LOOKUP_N_PEERS; i++)
    tps_lookup_peer_clear (&lookup.peers[i]);
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
  return run_benchmark (&options);
}

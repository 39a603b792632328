/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include <stdio.h>
#include <string.h>

#include "bench/lookup/parts.h"
#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"

#define PEER_SCRIPT "bench/peers/pytorch_embedding_bag.py"
#define MAX_SETS 16
#define USUAL_ROWS_PER_S 40e6 /* of a thread, for the estimate */

/* -- the peer -- */

/* Writes the ids of the peer to a file. */
static gchar *
write_ids (const TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  const gchar *folder = tps_benchmark_get_folder (run, error);
  g_autofree gchar *path = folder != NULL ? g_build_filename (folder, "ids", NULL) : NULL;
  gsize n_bytes = shape->n_sets * shape->n_bags * shape->bag_length * sizeof (gint64);

  if (path == NULL
      || !g_file_set_contents (path, (const gchar *) lookup->bags.ids, (gssize) n_bytes, error))
    return NULL;
  return g_steal_pointer (&path);
}

static gboolean
start_peer (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  g_autofree gchar *ids = write_ids (lookup, run, error);
  g_autofree gchar *script = tps_bench_find_file (PEER_SCRIPT, error);
  g_autoptr (GPtrArray) argv = g_ptr_array_new_with_free_func (g_free);
  g_autofree gchar *version = NULL; /* "torch 1.13.0" */
  TpsFigureLimit limit = { .name = TPS_LOOKUP_PEER, .title = "of torch" };

  if (ids == NULL || script == NULL)
    return FALSE;
  g_ptr_array_add (argv, g_strdup (tps_bench_find_python ()));
  g_ptr_array_add (argv, g_steal_pointer (&script));
  g_ptr_array_add (argv, g_strdup_printf ("--rows=%" G_GINT64_FORMAT, lookup->options->n_rows));
  g_ptr_array_add (argv, g_strdup_printf ("--dim=%" G_GINT64_FORMAT, lookup->options->dim));
  g_ptr_array_add (argv, g_strdup_printf ("--bags=%" G_GINT64_FORMAT, lookup->options->n_bags));
  g_ptr_array_add (argv,
                   g_strdup_printf ("--bag-length=%" G_GINT64_FORMAT, lookup->options->bag_length));
  g_ptr_array_add (argv, g_strdup_printf ("--ids=%s", ids));
  g_ptr_array_add (argv, NULL);
  lookup->peer = tps_child_start (run->supervisor, "PyTorch", (gchar **) argv->pdata, error);
  if (lookup->peer == NULL)
    return FALSE;
  version = tps_child_receive_from_script (lookup->peer, error);
  limit.version = version;
  if (version != NULL)
    tps_figures_add_limit (lookup->figures, &limit);
  printf ("%s", tps_bench_describe_python ());
  return version != NULL;
}

/* Returns rows per second, or -1. */
static gdouble
run_peer (TpsLookup *lookup, guint n_threads, gsize n_batches, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  g_autofree gchar *order = g_strdup_printf ("%u %" G_GSIZE_FORMAT, n_threads, n_batches);
  g_autofree gchar *answer = tps_child_ask (lookup->peer, order, error);
  gdouble seconds, checksum;
  gchar *at;

  if (answer == NULL)
    return -1;
  if (!g_str_has_prefix (answer, "ok "))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "PyTorch: %.300s", answer);
      return -1;
    }
  seconds = g_ascii_strtod (answer + strlen ("ok "), &at);
  checksum = g_ascii_strtod (at, NULL);
  if (!tps_lookup_bags_check (&lookup->bags, (n_batches - 1) % shape->n_sets, checksum, "PyTorch",
                              error))
    return -1;
  return (gdouble) (n_batches * shape->n_bags * shape->bag_length) / seconds;
}

/* -- bags in this process: a row of systems for each number of threads -- */

/* One pass through all ids, which brings page tables and caches into their final state. */
static gsize
choose_n_batches (const TpsLookup *lookup, gboolean is_warm_up)
{
  return is_warm_up ? lookup->bags.shape.n_sets : (gsize) lookup->options->n_batches;
}

/* System TPS_LOOKUP_N_SYSTEMS is the peer. */
static gboolean
run_local (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  guint number = GPOINTER_TO_UINT (system), i = GPOINTER_TO_UINT (row);
  gboolean is_peer = number == TPS_LOOKUP_N_SYSTEMS;
  gsize n_batches = choose_n_batches (lookup, is_warm_up);
  guint n_threads = lookup->n_threads[i];
  g_autofree gchar *title = g_strdup_printf ("%u thread%s", n_threads, n_threads > 1 ? "s" : "");
  gdouble rows_per_s = is_peer ? run_peer (lookup, n_threads, n_batches, error)
                               : tps_lookup_local_run (lookup->locals[i], (TpsLookupSystem) number,
                                                       n_batches, error);

  if (rows_per_s >= 0 && !is_warm_up)
    tps_figures_add (lookup->figures,
                     is_peer ? TPS_LOOKUP_PEER : tps_lookup_system_name ((TpsLookupSystem) number),
                     title, &tps_lookup_rows_per_s, rows_per_s);
  return rows_per_s >= 0;
}

static gdouble
foretell_local (const TpsLookup *lookup, guint n_threads, gboolean is_warm_up)
{
  const TpsLookupShape *shape = &lookup->bags.shape;

  return (gdouble) (choose_n_batches (lookup, is_warm_up) * shape->n_bags * shape->bag_length)
         / (USUAL_ROWS_PER_S * n_threads);
}

static void
add_local_row (TpsLookup *lookup, TpsEngine *engine, guint i)
{
  guint n_threads = lookup->n_threads[i];

  tps_engine_begin_row (engine);
  for (guint system = 0; system < TPS_LOOKUP_N_SYSTEMS + (lookup->peer != NULL); system++)
    {
      const gchar *name = system == TPS_LOOKUP_N_SYSTEMS
                              ? TPS_LOOKUP_PEER
                              : tps_lookup_system_name ((TpsLookupSystem) system);
      g_autofree gchar *title = g_strdup_printf ("%s, threads: %u", name, n_threads);
      TpsTask task = { .title = title,
                       .run = run_local,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (system),
                       .row = GUINT_TO_POINTER (i),
                       .warm_up_s = foretell_local (lookup, n_threads, TRUE),
                       .measured_s = foretell_local (lookup, n_threads, FALSE) };

      tps_engine_add (engine, &task);
    }
}

static void
add_limits (TpsLookup *lookup)
{
  TpsFigureLimit gather = { .name = tps_lookup_system_name (TPS_LOOKUP_GATHER),
                            .title = "of gather",
                            .version = "rows added up in the order of the ids" };

  tps_figures_add_limit (lookup->figures, &gather);
}

gboolean
tps_lookup_prepare_local (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  TpsLookupShape shape = { .n_rows = (gsize) lookup->options->n_rows,
                           .dim = (gsize) lookup->options->dim,
                           .n_bags = (gsize) lookup->options->n_bags,
                           .bag_length = (gsize) lookup->options->bag_length,
                           .n_sets = (gsize) MIN (lookup->options->n_batches, MAX_SETS),
                           .ids = lookup->options->id_kind };

  tps_lookup_bags_init (&lookup->bags, &shape);
  add_limits (lookup);
  if (lookup->options->peer != NULL && !start_peer (lookup, run, error))
    return FALSE;
  for (guint n_threads = 1; n_threads <= (guint) lookup->options->n_threads;
       n_threads += MAX (1, (guint) lookup->options->n_threads - 1))
    {
      guint i = lookup->n_locals;

      lookup->n_threads[i] = n_threads;
      lookup->locals[i] = tps_lookup_local_new (&lookup->bags, n_threads, &lookup->options->place,
                                                error);
      if (lookup->locals[i] == NULL)
        return FALSE;
      lookup->n_locals++;
      add_local_row (lookup, run->engine, i);
    }
  return TRUE;
}

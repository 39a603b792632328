/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/parts.h"

#define USUAL_ROWS_PER_S 40e6 /* for the estimate: rows per second of a thread */

/* Returns the rows per second; -1 with an error. */
static gdouble
run_peer (const TpsLookupPeer *peer, guint n_threads, gsize n_batches, GError **error)
{
  const TpsLookupShape *shape = &peer->bags->shape;
  TpsLookupPeerWork work = { .name = "lookup", .n_threads = n_threads, .n_batches = n_batches };
  gdouble checksum;
  gdouble seconds = tps_lookup_peer_run (peer, &work, &checksum, error);

  if (seconds < 0
      || !tps_lookup_bags_check (peer->bags, (n_batches - 1) % shape->n_sets, checksum, peer->name,
                                 error))
    return -1;
  return (gdouble) (n_batches * shape->n_bags * shape->bag_length) / seconds;
}

/* -- bags in this process: a row of systems for each number of threads -- */

/* Chooses the number of batches. The warm-up passes through all ids once, which brings page tables
 * and caches into their final state. */
static gsize
choose_n_batches (const TpsLookup *lookup, gboolean is_warm_up)
{
  return is_warm_up ? lookup->bags.shape.n_sets : (gsize) lookup->options->n_batches;
}

/* Returns the peer of a system; NULL = one of our systems. The peers follow our systems. */
static const TpsLookupPeer *
get_peer (const TpsLookup *lookup, guint system)
{
  return system >= TPS_LOOKUP_N_SYSTEMS ? &lookup->peers[system - TPS_LOOKUP_N_SYSTEMS] : NULL;
}

static const gchar *
get_name (const TpsLookup *lookup, guint system)
{
  const TpsLookupPeer *peer = get_peer (lookup, system);

  return peer != NULL ? peer->name : tps_lookup_system_name ((TpsLookupSystem) system);
}

static gboolean
run_local (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  guint number = GPOINTER_TO_UINT (system), i = GPOINTER_TO_UINT (row);
  const TpsLookupPeer *peer = get_peer (lookup, number);
  gsize n_batches = choose_n_batches (lookup, is_warm_up);
  guint n_threads = lookup->n_threads[i];
  g_autofree gchar *title = g_strdup_printf ("%u thread%s", n_threads, n_threads > 1 ? "s" : "");
  gdouble rows_per_s = peer != NULL
                           ? run_peer (peer, n_threads, n_batches, error)
                           : tps_lookup_local_run (lookup->locals[i], (TpsLookupSystem) number,
                                                   n_batches, error);

  if (rows_per_s >= 0 && !is_warm_up)
    tps_figures_add (lookup->figures, get_name (lookup, number), title, &tps_lookup_rows_per_s,
                     rows_per_s);
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
  for (guint system = 0; system < TPS_LOOKUP_N_SYSTEMS + TPS_LOOKUP_N_PEERS; system++)
    {
      const TpsLookupPeer *peer = get_peer (lookup, system);
      g_autofree gchar *title = g_strdup_printf ("%s, threads: %u", get_name (lookup, system),
                                                 n_threads);
      TpsTask task = { .title = title,
                       .run = run_local,
                       .bench = lookup,
                       .system = GUINT_TO_POINTER (system),
                       .row = GUINT_TO_POINTER (i),
                       .warm_up_s = foretell_local (lookup, n_threads, TRUE),
                       .measured_s = foretell_local (lookup, n_threads, FALSE) };

      if (peer == NULL || peer->child != NULL)
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
  add_limits (lookup);
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

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/parts.h"

#define OURS "step"
#define USUAL_ROWS_PER_S 5e6 /* for the estimate of the time */

/* TRUE = the peer supports the work. */
static const gboolean peer_has[TPS_LOOKUP_N_PEERS][TPS_LOOKUP_N_WORKS] = {
  /* in the order of tps_lookup_works */
  [TPS_LOOKUP_PYTORCH] = { TRUE, FALSE, TRUE, TRUE },
  [TPS_LOOKUP_FBGEMM] = { TRUE, TRUE, TRUE, FALSE },
};

/* -- systems: number 0 is our system, the other numbers are the peers -- */

static const TpsLookupPeer *
get_peer (const TpsLookup *lookup, guint system)
{
  return system > 0 ? &lookup->peers[system - 1] : NULL;
}

static const gchar *
get_name (const TpsLookup *lookup, guint system)
{
  return system > 0 ? get_peer (lookup, system)->name : OURS;
}

static gboolean
has_work (const TpsLookup *lookup, guint system, guint work)
{
  return system == 0 || (get_peer (lookup, system)->child != NULL && peer_has[system - 1][work]);
}

/* -- runs -- */

/* Returns the seconds; -1 with an error. */
static gdouble
run_batches (TpsLookup *lookup, guint system, const TpsLookupWork *work, gsize first,
             gdouble *checksum, GError **error)
{
  TpsLookupPeerWork peer_work = { .name = work->name,
                                  .n_threads = (guint) lookup->options->n_threads,
                                  .first = first,
                                  .n_batches = (gsize) lookup->options->n_steps };

  if (system > 0)
    return tps_lookup_peer_run (get_peer (lookup, system), &peer_work, checksum, error);
  return tps_lookup_stepper_run (lookup->stepper, work, first, peer_work.n_batches, checksum,
                                 error);
}

static gboolean
check (TpsLookup *lookup, TpsLookupStepTask *task, gsize n_batches, gdouble checksum,
       const gchar *name, GError **error)
{
  gsize last = (task->n_done + n_batches - 1) % lookup->bags.shape.n_sets;

  if (task->rows != NULL)
    return tps_lookup_trained_rows_check (task->rows, n_batches, checksum, name, error);
  return tps_lookup_bags_check (&lookup->bags, last, checksum, name, error);
}

static gboolean
run_steps (gpointer bench, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsLookup *lookup = bench;
  guint number = GPOINTER_TO_UINT (system), i = GPOINTER_TO_UINT (row);
  const TpsLookupShape *shape = &lookup->bags.shape;
  const TpsLookupWork *work = &tps_lookup_works[i];
  const gchar *name = get_name (lookup, number);
  TpsLookupStepTask *task = &lookup->steps[number][i];
  gsize n_batches = (gsize) lookup->options->n_steps;
  gdouble checksum = 0;
  gdouble seconds = run_batches (lookup, number, work, task->n_done, &checksum, error);

  if (seconds < 0 || !check (lookup, task, n_batches, checksum, name, error))
    return FALSE;
  task->n_done += n_batches;
  if (!is_warm_up)
    tps_figures_add (lookup->figures, name, work->row, &tps_lookup_rows_per_s,
                     (gdouble) (n_batches * shape->n_bags * shape->bag_length) / seconds);
  return TRUE;
}

/* -- tasks: a row of systems for each work -- */

static void
add_task (TpsLookup *lookup, TpsEngine *engine, guint system, guint i)
{
  const TpsLookupWork *work = &tps_lookup_works[i];
  const TpsLookupShape *shape = &lookup->bags.shape;
  g_autofree gchar *title = g_strdup_printf ("%s, %s", get_name (lookup, system), work->row);
  TpsTask task = { .title = title,
                   .run = run_steps,
                   .bench = lookup,
                   .system = GUINT_TO_POINTER (system),
                   .row = GUINT_TO_POINTER (i) };

  if (work->optimizer != 0)
    lookup->steps[system][i].rows = tps_lookup_trained_rows_new (lookup->samples, work->optimizer);
  task.measured_s = (gdouble) lookup->options->n_steps
                    * (gdouble) (shape->n_bags * shape->bag_length) / USUAL_ROWS_PER_S;
  task.warm_up_s = task.measured_s;
  tps_engine_add (engine, &task);
}

gboolean
tps_lookup_prepare_steps (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  const TpsLookupShape *shape = &lookup->bags.shape;

  lookup->gradients = g_new (gfloat, shape->n_bags * shape->dim);
  tps_lookup_fill_gradients (lookup->gradients, shape);
  lookup->samples = tps_lookup_samples_new (&lookup->bags, lookup->gradients);
  lookup->stepper = tps_lookup_stepper_new (lookup->server, &lookup->bags, lookup->gradients,
                                            &lookup->options->place, error);
  if (lookup->stepper == NULL)
    return FALSE;
  for (guint i = 0; i < TPS_LOOKUP_N_WORKS; i++)
    {
      tps_engine_begin_row (run->engine);
      for (guint system = 0; system <= TPS_LOOKUP_N_PEERS; system++)
        if (has_work (lookup, system, i))
          add_task (lookup, run->engine, system, i);
    }
  return TRUE;
}

void
tps_lookup_clear_steps (TpsLookup *lookup)
{
  for (guint system = 0; system <= TPS_LOOKUP_N_PEERS; system++)
    for (guint i = 0; i < TPS_LOOKUP_N_WORKS; i++)
      g_clear_pointer (&lookup->steps[system][i].rows, tps_lookup_trained_rows_free);
  g_clear_pointer (&lookup->samples, tps_lookup_samples_free);
  g_clear_pointer (&lookup->gradients, g_free);
}

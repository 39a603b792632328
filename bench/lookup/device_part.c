/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/lookup/parts.h"

#define OURS "step"
#define USUAL_ROWS_PER_S 5e6 /* for the estimate of the time */

static gchar *
name_row (const TpsLookup *lookup, TpsLookupWay way)
{
  return g_strdup_printf ("lookup to %s%s", lookup->device->name,
                          way == TPS_LOOKUP_THROUGH_HOST ? " through the host" : "");
}

/* Runs the batches of one path. Each path counts its batches separately, so both look up the same
 * ids. */
static gboolean
run_lookups (gpointer bench, gpointer system, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
             GError **error)
{
  TpsLookup *lookup = bench;
  guint way = GPOINTER_TO_UINT (system);
  const TpsLookupShape *shape = &lookup->bags.shape;
  g_autofree gchar *name = name_row (lookup, (TpsLookupWay) way);
  gsize n_batches = (gsize) lookup->options->n_steps, first = lookup->n_device_batches[way];
  gdouble checksum = 0, seconds;

  seconds = tps_lookup_device_caller_run (lookup->device_callers[way], first, n_batches, &checksum,
                                          error);
  if (seconds < 0
      || !tps_lookup_bags_check (&lookup->bags, (first + n_batches - 1) % shape->n_sets, checksum,
                                 name, error))
    return FALSE;
  lookup->n_device_batches[way] += n_batches;
  if (!is_warm_up)
    tps_figures_add (lookup->figures, OURS, name, &tps_lookup_rows_per_s,
                     (gdouble) (n_batches * shape->n_bags * shape->bag_length) / seconds);
  return TRUE;
}

static void
add_task (TpsLookup *lookup, TpsEngine *engine, TpsLookupWay way)
{
  const TpsLookupShape *shape = &lookup->bags.shape;
  g_autofree gchar *title = name_row (lookup, way);
  TpsTask task = {
    .title = title, .run = run_lookups, .bench = lookup, .system = GUINT_TO_POINTER (way)
  };

  task.measured_s = (gdouble) lookup->options->n_steps
                    * (gdouble) (shape->n_bags * shape->bag_length) / USUAL_ROWS_PER_S;
  task.warm_up_s = task.measured_s;
  tps_engine_add (engine, &task);
}

gboolean
tps_lookup_prepare_device (TpsLookup *lookup, TpsBenchRun *run, GError **error)
{
  tps_engine_begin_row (run->engine);
  for (guint way = 0; way < TPS_LOOKUP_N_WAYS; way++)
    {
      lookup->device_callers[way] = tps_lookup_device_caller_new (
          lookup->server, &lookup->bags, tps_lookup_works[0].table, lookup->device,
          (TpsLookupWay) way, error);
      if (lookup->device_callers[way] == NULL)
        {
          g_prefix_error (error, "--to-device: ");
          return FALSE;
        }
      add_task (lookup, run->engine, (TpsLookupWay) way);
    }
  return TRUE;
}

gchar *
tps_lookup_describe_device (const TpsLookup *lookup)
{
  guint n_results, n_there;

  if (lookup->device_callers[TPS_LOOKUP_ON_DEVICE] == NULL)
    return NULL;
  n_results = tps_lookup_device_caller_count (lookup->device_callers[TPS_LOOKUP_ON_DEVICE],
                                              &n_there);
  return g_strdup_printf ("%u of %u results stayed in memory of %s", n_there, n_results,
                          lookup->device->name);
}

void
tps_lookup_clear_device (TpsLookup *lookup)
{
  for (guint way = 0; way < TPS_LOOKUP_N_WAYS; way++)
    g_clear_pointer (&lookup->device_callers[way], tps_lookup_device_caller_free);
}

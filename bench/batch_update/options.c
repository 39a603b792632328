/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/batch_update/options.h"

#include <stdio.h>

#include "runtime/base/error.h"

/* Makes the tables of flags, which belong to one set of options: GOption writes through their
 * pointers. */
static GOptionContext *
make_context (TpsBatchUpdateOptions *o)
{
  const GOptionEntry entries[] = {
    { "ntrainer", 0, 0, G_OPTION_ARG_INT, &o->ntrainer, "trainers (3)", "N" },
    { "batches", 0, 0, G_OPTION_ARG_INT, &o->batches,
      "batches of each trainer, and therefore updates of a pass (4)", "N" },
    { "batch-size", 0, 0, G_OPTION_ARG_INT, &o->batch_size, "rows of a batch (20)", "N" },
    { "in-features", 0, 0, G_OPTION_ARG_INT, &o->in_features, "inputs of the linear layer (100)",
      "N" },
    { "out-features", 0, 0, G_OPTION_ARG_INT, &o->out_features, "its outputs (30)", "N" },
    { "lr", 0, 0, G_OPTION_ARG_DOUBLE, &o->lr, "learning rate of the server's SGD (0.001)", "X" },
    { "momentum", 0, 0, G_OPTION_ARG_DOUBLE, &o->momentum, "its momentum (0.9)", "X" },
    { "min-trainers", 0, 0, G_OPTION_ARG_INT, &o->min_trainers,
      "number of trainers sufficient for an update at its deadline (0: all)", "N" },
    { "max-staleness", 0, 0, G_OPTION_ARG_INT, &o->max_staleness,
      "largest age of a gradient's model in updates; older gradients are refused, and their "
      "trainers fetch the newest (0)",
      "N" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of inputs and parameters (0)", "N" },
    { "verbose", 'v', 0, G_OPTION_ARG_NONE, &o->verbose,
      "log the actions of every role to stderr; without --peer also skips the warm-up", NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context,
      "Trains a model that lives on a batch-updating parameter server: each update applies the mean of one gradient\n"
      "from every trainer and hands all of them the new model. Every role is a process of its own; reports how long\n"
      "training took, and updates per second. Without flags: 3 trainers, 4 batches, as the original.\n"
      "Names of flags may have underscores instead of dashes.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  g_option_context_add_main_entries (context, entries, NULL);
  tps_world_add_flags (context, &o->world);
  tps_run_flags_add (context, &o->run,
                     "run the same work on this peer, pass by pass in turn, and print the ratio: "
                     "pytorch");
  return context;
}

static gboolean
check (const TpsBatchUpdateOptions *o, GError **error)
{
  return tps_flags_check_number ("ntrainer", o->ntrainer, 1, 1024, error)
         && tps_flags_check_number ("batches", o->batches, 1, 100000000, error)
         && tps_flags_check_number ("batch-size", o->batch_size, 1, 1 << 20, error)
         && tps_flags_check_number ("in-features", o->in_features, 1, 1 << 20, error)
         && tps_flags_check_number ("out-features", o->out_features, 1, 1 << 20, error)
         && tps_flags_check_number ("min-trainers", o->min_trainers, 0, o->ntrainer, error)
         && tps_flags_check_number ("max-staleness", o->max_staleness, 0, 1000000, error)
         && tps_flags_check_factor ("lr", o->lr, TRUE, error)
         && tps_flags_check_factor ("momentum", o->momentum, TRUE, error);
}

static gboolean
finish (TpsBatchUpdateOptions *o, GError **error)
{
  static const gchar *const peers[] = { "pytorch", NULL };

  if (!tps_world_read_environment (&o->world, error) || !check (o, error)
      || !tps_run_flags_finish (&o->run, peers, error))
    return FALSE;
  o->world.n_trainers = (guint) o->ntrainer;
  o->world.n_servers = 1;
  return tps_world_finish_flags (&o->world, error);
}

TpsBenchVerdict
tps_batch_update_options_parse (TpsBatchUpdateOptions *options, gint argc, gchar **argv,
                                GError **error)
{
  g_autoptr (GOptionContext) context = NULL;

  *options = (TpsBatchUpdateOptions) {
    .ntrainer = 3,
    .batches = 4,
    .batch_size = 20,
    .in_features = 100,
    .out_features = 30,
    .lr = 0.001,
    .momentum = 0.9,
  };
  tps_world_init (&options->world, "batch_update", "ps");
  context = make_context (options);
  if (!tps_flags_parse (context, argc, argv, &options->world.given, error))
    return TPS_BENCH_BAD;
  if (options->run.version)
    {
      printf ("ThriftPS %s\n", TPS_VERSION);
      return TPS_BENCH_DONE;
    }
  return finish (options, error) ? TPS_BENCH_RUN : TPS_BENCH_BAD;
}

void
tps_batch_update_options_clear (TpsBatchUpdateOptions *o)
{
  tps_world_clear (&o->world);
  tps_run_flags_clear (&o->run);
}

GPtrArray *
tps_batch_update_options_describe (const TpsBatchUpdateOptions *o)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (lines, "ntrainer", o->ntrainer);
  tps_flags_add_number (lines, "batches", o->batches);
  tps_flags_add_number (lines, "batch-size", o->batch_size);
  tps_flags_add_number (lines, "in-features", o->in_features);
  tps_flags_add_number (lines, "out-features", o->out_features);
  tps_flags_add_number (lines, "lr", o->lr);
  tps_flags_add_number (lines, "momentum", o->momentum);
  tps_flags_add_number (lines, "min-trainers", o->min_trainers);
  tps_flags_add_number (lines, "max-staleness", o->max_staleness);
  tps_world_describe (&o->world, lines);
  tps_flags_add_number (lines, "seed", (gdouble) o->seed);
  tps_flags_add_number (lines, "repeats", o->run.repeats);
  return lines;
}

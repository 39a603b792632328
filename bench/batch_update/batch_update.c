/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The benchmark batch_update: starts trainers, a parameter server that has their model, and a
 * master; or runs as one of these roles. */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/world/program.h"
#include "plugin/client/stubs.h"
#include "runtime/base/sync.h"
#include "runtime/trainer/batch_update/batch_update_trainer.h"

#define NAME "batch_update"
#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)
/* the metric of the time from the first batch of a pass to its last model, of peers, too */
#define TRAINING "pass_level_metric,training"

typedef struct
{
  TpsRunFlags run;
  TpsWorld world;

  gint ntrainer, batches, batch_size, in_features, out_features;
  gdouble lr, momentum;
  gint min_trainers; /* 0 = all */
  gint max_staleness;
  gint64 seed;
  gboolean verbose;
} Options;

/* The options of a run and the state of its log. */
typedef struct
{
  Options options;
  gboolean is_training; /* a pass has begun, and its end is not in the log yet */
} Work;

/* -- flags -- */

#define FIELD(name) G_STRUCT_OFFSET (Options, name)

static const TpsFlag flags[] = {
  { "ntrainer", G_OPTION_ARG_INT, FIELD (ntrainer), "trainers (3)", "N", 3, 1, 1024 },
  { "batches", G_OPTION_ARG_INT, FIELD (batches),
    "batches of each trainer, and therefore updates of a pass (4)", "N", 4, 1, 1e8 },
  { "batch-size", G_OPTION_ARG_INT, FIELD (batch_size), "rows of a batch (20)", "N", 20, 1,
    1 << 20 },
  { "in-features", G_OPTION_ARG_INT, FIELD (in_features), "inputs of the linear layer (100)", "N",
    100, 1, 1 << 20 },
  { "out-features", G_OPTION_ARG_INT, FIELD (out_features), "its outputs (30)", "N", 30, 1,
    1 << 20 },
  { "lr", G_OPTION_ARG_DOUBLE, FIELD (lr), "learning rate of the server's SGD (0.001)", "X",
    0.001 },
  { "momentum", G_OPTION_ARG_DOUBLE, FIELD (momentum), "its momentum (0.9)", "X", 0.9 },
  { "min-trainers", G_OPTION_ARG_INT, FIELD (min_trainers),
    "number of trainers sufficient for an update at its deadline (0: all)", "N", 0, 0, 1024 },
  { "max-staleness", G_OPTION_ARG_INT, FIELD (max_staleness),
    "largest age of a gradient's model in updates; older gradients are refused, and their trainers "
    "fetch the newest (0)",
    "N", 0, 0, 1000000 },
  { "seed", G_OPTION_ARG_INT64, FIELD (seed), "of inputs and parameters (0)", "N" },
  { "verbose", G_OPTION_ARG_NONE, FIELD (verbose),
    "log the actions of every role to stderr; without --peer also skips the warm-up",
    .is_silent = TRUE, .letter = 'v' },
  { "peer", G_OPTION_ARG_STRING, FIELD (run.peer),
    "run the same work on this peer, pass by pass in turn, and print the ratio: pytorch", "NAME",
    .words = "pytorch", .is_silent = TRUE },
  { NULL },
};

static const TpsCommandLine command_line = {
  NAME,
  "Trains a model that lives on a batch-updating parameter server: each update applies the mean of "
  "one gradient\nfrom every trainer and hands all of them the new model. Every role is a process of "
  "its own; reports how long\ntraining took, and updates per second. Without flags: 3 trainers, 4 "
  "batches, as the original.\nNames of flags may have underscores instead of dashes.",
  { { flags, 0 }, { tps_world_flags, FIELD (world) }, { tps_run_flags, FIELD (run) } },
};

static gboolean
parse (Options *o, gint argc, gchar **argv, GError **error)
{
  tps_world_init (&o->world, NAME, "ps");
  if (!tps_command_line_parse (&command_line, o, argc, argv, &o->world.given, error)
      || !tps_world_read_environment (&o->world, error)
      || !tps_flags_check_number ("min-trainers", o->min_trainers, 0, o->ntrainer, error))
    return FALSE;
  tps_flags_default_number (&o->run.repeats, o->run.peer != NULL ? 5 : 1);
  o->world.n_trainers = (guint) o->ntrainer;
  o->world.n_servers = 1;
  return tps_world_finish_flags (&o->world, error);
}

/* -- the log of the original, "HH:MM:SS text", on stderr -- */

/* Writes a line with one write(): all roles share a terminal. Ignores errors. Thread: any. */
static void G_GNUC_PRINTF (1, 2) log_line (const gchar *format, ...)
{
  g_autoptr (GDateTime) now = g_date_time_new_now_local ();
  g_autofree gchar *time = g_date_time_format (now, "%H:%M:%S");
  g_autofree gchar *text = NULL;
  g_autofree gchar *line = NULL;
  va_list args;

  va_start (args, format);
  text = g_strdup_vprintf (format, args);
  va_end (args);
  line = g_strdup_printf ("%s %s\n", time, text);
  if (write (STDERR_FILENO, line, strlen (line)) < 0)
    return; /* nothing reads the log any more */
}

/* -- the server -- */

static void
log_got_update (G_GNUC_UNUSED gpointer user_data, guint n_before, guint n_trainers)
{
  log_line ("PS got %u/%u updates", n_before, n_trainers);
}

static void
log_updated_model (G_GNUC_UNUSED gpointer user_data, G_GNUC_UNUSED gint64 version,
                   G_GNUC_UNUSED guint n_took_part)
{
  log_line ("PS updated model");
}

static gboolean
fill_server (gpointer user_data, G_GNUC_UNUSED guint server, TpsPluginOptions *options,
             G_GNUC_UNUSED GError **error)
{
  static const TpsPluginParts logging = { .got_update = log_got_update,
                                          .updated_model = log_updated_model };
  const Options *o = &((Work *) user_data)->options;

  options->n_trainers = (guint) o->ntrainer;
  options->min_trainers = (guint) o->min_trainers;
  options->max_staleness = (guint) o->max_staleness;
  if (o->verbose)
    options->parts = &logging;
  return TRUE;
}

static void
log_finish (Work *work)
{
  if (work->is_training && work->options.verbose)
    log_line ("Finish training");
  work->is_training = FALSE;
}

static gboolean
prepare_server (gpointer user_data, TpsClient *client, G_GNUC_UNUSED guint server, GError **error)
{
  Work *work = user_data;

  log_finish (work);
  if (!tps_remote_reset_state (client, tps_clock_now_ns () + CALL_NS, error))
    return FALSE;
  work->is_training = TRUE;
  if (work->options.verbose)
    log_line ("Start training");
  return TRUE;
}

/* -- trainers -- */

static void
log_trainer (gpointer user_data, guint rank, TpsBatchUpdateEvent event)
{
  static const gchar *const texts[] = {
    [TPS_BATCH_UPDATE_BEGINS] = "processing one batch",
    [TPS_BATCH_UPDATE_REPORTS] = "reporting grads",
    [TPS_BATCH_UPDATE_CONTINUES] = "got updated model",
  };
  const Work *work = user_data;
  g_autofree gchar *name = tps_world_get_name (&work->options.world, rank);

  log_line ("%s %s", name, texts[event]);
}

static void
take_config (GVariant **field, GVariantDict *dict)
{
  g_clear_pointer (field, g_variant_unref);
  *field = g_variant_ref_sink (g_variant_dict_end (dict));
}

static TpsTrainPlan *
make_plan (gpointer user_data, G_GNUC_UNUSED guint trainer, G_GNUC_UNUSED gboolean is_warm_up,
           G_GNUC_UNUSED GError **error)
{
  const Options *o = &((Work *) user_data)->options;
  TpsTrainPlan *plan = tps_train_plan_new ();
  GVariantDict dict;

  tps_plan_set (&plan->model_class, "LinearModel");
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "in_features", "x", (gint64) o->in_features);
  g_variant_dict_insert (&dict, "out_features", "x", (gint64) o->out_features);
  take_config (&plan->model_config, &dict);
  tps_plan_set (&plan->trainer, "BatchUpdateTrainer");
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "batch_size", "x", (gint64) o->batch_size);
  g_variant_dict_insert (&dict, "momentum", "d", o->momentum);
  take_config (&plan->trainer_config, &dict);
  plan->steps_per_epoch = (guint) o->batches;
  plan->epochs = 1;
  plan->seed = o->seed;
  tps_plan_set (&plan->create_criterion, "l1");
  plan->learning_rate = o->lr;
  return plan;
}

/* -- the program -- */

static const TpsPeerKind peer_kinds[] = {
  { "pytorch", "PyTorch", "bench/peers/pytorch_batch_update.py",
    "ntrainer batches batch-size in-features out-features lr momentum seed rpc-timeout" },
  { NULL },
};

/* -- the report: updates per second of each pass; the time is the median over the trainers -- */

static TpsBenchSeries *
find_training (TpsBenchResults *results)
{
  return tps_bench_results_find (results, "trainer", -1, TRAINING);
}

/* Returns the seconds of the training, a median over the passes; 0 if nothing was measured. */
static gdouble
get_seconds (TpsBenchResults *results)
{
  const TpsBenchSeries *training = find_training (results);

  return training != NULL ? tps_bench_series_get_median (training) / 1e3 : 0;
}

static gdouble
get_rate (TpsBenchResults *results, gint batches)
{
  gdouble seconds = get_seconds (results);

  return seconds > 0 ? batches / seconds : 0;
}

static void
add_rates (TpsBenchResults *results, gint batches, TpsBenchSystem *system)
{
  g_autoptr (GArray) rates = g_array_new (FALSE, FALSE, sizeof (gdouble));
  const TpsBenchSeries *training = find_training (results);

  for (guint i = 0; training != NULL && i < training->pass_p50_ms->len; i++)
    {
      gdouble rate = batches * 1e3 / g_array_index (training->pass_p50_ms, gdouble, i);

      g_array_append_val (rates, rate);
    }
  tps_bench_system_add_figure (system, "updates", "1/s", rates);
}

static void
print_report (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers)
{
  Work *work = user_data;
  const Options *o = &work->options;
  gdouble rate = get_rate (ours, o->batches);

  log_finish (work);
  tps_program_print_tables (&o->run, ours, peers);
  for (guint i = 0; i < peers->len; i++)
    {
      const TpsPeer *peer = peers->pdata[i];
      gdouble theirs = get_rate (peer->results, o->batches);

      printf ("\n%s: %.6g updates/s, ThriftPS: %.6g updates/s, %.3g x\n", peer->kind->title, theirs,
              rate, rate / theirs);
    }
  printf ("\nTime spent training: %.6gs\n%.6g updates/s\n", get_seconds (ours), rate);
}

static void
add_output (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output)
{
  gint batches = ((Work *) user_data)->options.batches;

  tps_program_add_figures (ours, peers, output);
  add_rates (ours, batches, &output->ours);
  for (guint i = 0; i < peers->len; i++)
    {
      TpsBenchResults *theirs = ((TpsPeer *) peers->pdata[i])->results;

      add_rates (theirs, batches, &g_array_index (output->peers, TpsBenchSystem, i));
      tps_bench_output_add_ratio (output, "updates", get_rate (ours, batches),
                                  get_rate (theirs, batches), "higher");
    }
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  Work work = { 0 };
  Options *o = &work.options;
  TpsProgram program = {
    .fill_server = fill_server,
    .work = { .make_plan = make_plan, .prepare_server = prepare_server },
    .command_line = &command_line,
    .peers = peer_kinds,
    .print_report = print_report,
    .add_output = add_output,
  };
  gint status;

  tps_benchmark_init ();
  if (!parse (o, argc, argv, &error))
    status = tps_benchmark_refuse (NAME, error);
  else
    {
      if (o->verbose && tps_world_is_role (&o->world))
        tps_batch_update_trainer_observe (log_trainer, &work);
      /* A trainer that is too late for the last update has an older model than the others. */
      program.work.parameters_agree = o->min_trainers == 0 || o->min_trainers == o->ntrainer;
      if (o->min_trainers > 0)
        program.work.n_spare_trainers = (guint) (o->ntrainer - o->min_trainers);
      program.no_warm_up = o->verbose && o->run.peer == NULL;
      status = tps_program_run (&program, &o->world, &o->run, &work);
    }
  tps_command_line_clear (&command_line, o);
  g_clear_pointer (&o->world.given, g_strfreev);
  return status;
}

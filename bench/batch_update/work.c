/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/batch_update/work.h"

#include <stdio.h>

#include "bench/batch_update/log.h"
#include "bench/batch_update/rates.h"
#include "plugin/client/stubs.h"
#include "runtime/base/sync.h"
#include "runtime/trainer/batch_update/batch_update_trainer.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)

/* -- the server -- */

static void
log_got_update (G_GNUC_UNUSED gpointer user_data, guint n_before, guint n_trainers)
{
  tps_batch_update_log ("PS got %u/%u updates", n_before, n_trainers);
}

static void
log_updated_model (G_GNUC_UNUSED gpointer user_data, G_GNUC_UNUSED gint64 version,
                   G_GNUC_UNUSED guint n_took_part)
{
  tps_batch_update_log ("PS updated model");
}

static gboolean
fill_server (gpointer user_data, G_GNUC_UNUSED guint server, TpsPluginOptions *options,
             G_GNUC_UNUSED GError **error)
{
  const TpsBatchUpdateOptions *o = &((TpsBatchUpdateWork *) user_data)->options;

  options->model_server.n_trainers = (guint) o->ntrainer;
  options->model_server.min_trainers = (guint) o->min_trainers;
  options->model_server.max_staleness = (guint) o->max_staleness;
  if (o->verbose)
    {
      options->model_server.got_update = log_got_update;
      options->model_server.updated_model = log_updated_model;
    }
  return TRUE;
}

static void
log_finish (TpsBatchUpdateWork *work)
{
  if (work->is_training && work->options.verbose)
    tps_batch_update_log ("Finish training");
  work->is_training = FALSE;
}

static gboolean
prepare_server (gpointer user_data, TpsClient *client, G_GNUC_UNUSED guint server, GError **error)
{
  TpsBatchUpdateWork *work = user_data;

  log_finish (work);
  if (!tps_remote_reset_state (client, tps_clock_now_ns () + CALL_NS, error))
    return FALSE;
  work->is_training = TRUE;
  if (work->options.verbose)
    tps_batch_update_log ("Start training");
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
  const TpsBatchUpdateWork *work = user_data;
  g_autofree gchar *name = tps_world_get_name (&work->options.world, rank);

  tps_batch_update_log ("%s %s", name, texts[event]);
}

void
tps_batch_update_log_trainer (TpsBatchUpdateWork *work)
{
  tps_batch_update_trainer_observe (log_trainer, work);
}

static void
set (gchar **field, const gchar *value)
{
  g_free (*field);
  *field = g_strdup (value);
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
  const TpsBatchUpdateOptions *o = &((TpsBatchUpdateWork *) user_data)->options;
  TpsTrainPlan *plan = tps_train_plan_new ();
  GVariantDict dict;

  set (&plan->model_class, "LinearModel");
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "in_features", "x", (gint64) o->in_features);
  g_variant_dict_insert (&dict, "out_features", "x", (gint64) o->out_features);
  take_config (&plan->model_config, &dict);
  set (&plan->trainer, "BatchUpdateTrainer");
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "batch_size", "x", (gint64) o->batch_size);
  g_variant_dict_insert (&dict, "momentum", "d", o->momentum);
  take_config (&plan->trainer_config, &dict);
  plan->steps_per_epoch = (guint) o->batches;
  plan->epochs = 1;
  plan->seed = o->seed;
  set (&plan->create_criterion, "l1");
  plan->learning_rate = o->lr;
  return plan;
}

/* -- the program -- */

static gboolean
load (G_GNUC_UNUSED gpointer user_data, G_GNUC_UNUSED GError **error)
{
  return TRUE;
}

static GPtrArray *
describe (gpointer user_data)
{
  return tps_batch_update_options_describe (&((TpsBatchUpdateWork *) user_data)->options);
}

static gchar **
make_peer_arguments (const TpsBatchUpdateOptions *o)
{
  g_autoptr (GStrvBuilder) argv = g_strv_builder_new ();
  const struct
  {
    const gchar *flag;
    gdouble value;
  } numbers[] = {
    { "--ntrainer", o->ntrainer },
    { "--batches", o->batches },
    { "--batch-size", o->batch_size },
    { "--in-features", o->in_features },
    { "--out-features", o->out_features },
    { "--lr", o->lr },
    { "--momentum", o->momentum },
    { "--seed", (gdouble) o->seed },
    { "--rpc-timeout", o->world.rpc_timeout },
  };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_autofree gchar *value = g_strdup_printf ("%.17g", numbers[i].value);

      g_strv_builder_add_many (argv, numbers[i].flag, value, NULL);
    }
  return g_strv_builder_end (argv);
}

static gboolean
start_peers (gpointer user_data, TpsSupervisor *supervisor, GPtrArray *peers, GError **error)
{
  const TpsBatchUpdateOptions *o = &((TpsBatchUpdateWork *) user_data)->options;
  g_auto (GStrv) arguments = NULL;
  TpsPeer *peer;

  if (o->run.peer == NULL)
    return TRUE;
  arguments = make_peer_arguments (o);
  peer = tps_peer_start (supervisor, "pytorch", "PyTorch", "bench/peers/pytorch_batch_update.py",
                         arguments, error);
  if (peer == NULL)
    return FALSE;
  g_ptr_array_add (peers, peer);
  return TRUE;
}

static void
print_report (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers)
{
  TpsBatchUpdateWork *work = user_data;
  const TpsBatchUpdateOptions *o = &work->options;
  g_autofree gchar *end = tps_batch_update_format_end (ours, o->batches);
  gdouble rate = tps_batch_update_get_rate (ours, o->batches);

  log_finish (work);
  tps_program_print_tables (&o->run, ours, peers);
  for (guint i = 0; i < peers->len; i++)
    {
      gdouble theirs = tps_batch_update_get_rate (tps_peer_get_results (peers->pdata[i]),
                                                  o->batches);

      printf ("\n%s: %.6g updates/s, ThriftPS: %.6g updates/s, %.3g x\n",
              tps_peer_get_title (peers->pdata[i]), theirs, rate, rate / theirs);
    }
  printf ("\n%s", end);
}

static void
add_output (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output)
{
  gint batches = ((TpsBatchUpdateWork *) user_data)->options.batches;

  tps_program_add_figures (ours, peers, output);
  tps_batch_update_add_rates (ours, batches, &output->ours);
  for (guint i = 0; i < peers->len; i++)
    {
      TpsBenchResults *theirs = tps_peer_get_results (peers->pdata[i]);

      tps_batch_update_add_rates (theirs, batches,
                                  &g_array_index (output->peers, TpsBenchSystem, i));
      tps_bench_output_add_ratio (output, "updates", tps_batch_update_get_rate (ours, batches),
                                  tps_batch_update_get_rate (theirs, batches), "higher");
    }
}

TpsProgram
tps_batch_update_get_program (const TpsBatchUpdateWork *work)
{
  const TpsBatchUpdateOptions *o = &work->options;

  return (TpsProgram) {
    .fill_server = fill_server,
    .work = { .make_plan = make_plan,
              .prepare_server = prepare_server,
              /* A trainer that is too late for the last update has an older model than the other
               * trainers. */
              .parameters_agree = o->min_trainers == 0 || o->min_trainers == o->ntrainer,
              .n_spare_trainers = o->min_trainers > 0 ? (guint) (o->ntrainer - o->min_trainers)
                                                      : 0 },
    .no_warm_up = o->verbose && o->run.peer == NULL,
    .load = load,
    .describe = describe,
    .start_peers = start_peers,
    .print_report = print_report,
    .add_output = add_output,
  };
}

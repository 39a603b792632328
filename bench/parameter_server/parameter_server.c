/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The benchmark parameter_server: starts trainers, servers and a master, or is one of them. */

#include <stdio.h>

#include <json-glib/json-glib.h>

#include "bench/parameter_server/configuration.h"
#include "bench/parameter_server/options.h"
#include "bench/world/program.h"
#include "plugin/client/stubs.h"
#include "runtime/trainer/pass/partition.h"
#include "runtime/base/config.h"
#include "runtime/trainer/pass/device_choice.h"
#include "runtime/trainer/pass/trainer.h"
#include "runtime/trainer/nn/dataset.h"
#include "runtime/base/sync.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)

/* The options of a run and the data that are made from them; owned. */
typedef struct
{
  TpsBenchOptions options;
  TpsBenchConfiguration data;
  TpsBenchConfiguration model;
  GVariant *trainer_arguments;
  GPtrArray *dealt; /* of GArray of TpsTrainBatch, the batches of each trainer */
  guint steps_per_epoch;
} Work;

/* -- servers -- */

static guint
count_trainers (const TpsBenchOptions *o, guint server)
{
  guint first, n;

  if (!g_str_equal (o->partition, "trainers"))
    return tps_bench_options_count_trainers (o);
  tps_partition_get_trainers (server, tps_bench_options_count_trainers (o),
                              tps_bench_options_count_servers (o), &first, &n);
  return MAX (n, 1);
}

/* Refuses any argument in the file: the server classes of this project have no arguments. */
static gboolean
check_server_arguments (const TpsBenchOptions *o, GError **error)
{
  g_auto (GStrv) known = tps_bench_list_classes ();
  g_autoptr (GVariant) arguments = tps_bench_arguments_load (o->server_config_path, o->server,
                                                             (const gchar *const *) known, error);
  g_autofree gchar *what = g_strdup_printf ("server %s", o->server);
  TpsConfig config;

  if (arguments == NULL)
    return FALSE;
  tps_config_init (&config, arguments, what, error);
  return tps_config_finish (&config);
}

/* Chooses the device of a server; NULL = the CPU. Servers on the CPU have the first numbers.
 * Errors: those of tps_device_choose(), for a CUDA server. */
static gboolean
choose_device (const TpsBenchOptions *o, guint server, const gchar **name, GError **error)
{
  const TpsDevice *device;

  if (server < (guint) o->nserver)
    return TRUE;
  device = tps_device_choose ("cuda", tps_world_get_local_rank (&o->world), error);
  if (device != NULL)
    *name = device->name;
  return device != NULL;
}

static gboolean
fill_server (gpointer user_data, guint server, TpsPluginOptions *options, GError **error)
{
  const TpsBenchOptions *o = &((Work *) user_data)->options;

  options->server_kind = o->server;
  options->n_trainers = count_trainers (o, server);
  options->reduce = g_str_equal (o->reduce, "sum") ? TPS_REDUCE_SUM : TPS_REDUCE_MEAN;
  return choose_device (o, server, &options->device, error) && check_server_arguments (o, error);
}

static gboolean
prepare_server (G_GNUC_UNUSED gpointer user_data, TpsClient *client, G_GNUC_UNUSED guint server,
                GError **error)
{
  return tps_remote_reset_state (client, tps_clock_now_ns () + CALL_NS, error);
}

/* -- data and flags -- */

static gboolean
make_data (Work *work, GError **error)
{
  const TpsBenchOptions *o = &work->options;
  const TpsDataClass *klass = tps_data_class_find (work->data.class_name, error);
  g_auto (TpsDataset) dataset = { 0 };

  if (klass == NULL || !klass->generate (work->data.arguments, o->seed, &dataset, error))
    return FALSE;
  work->dealt = tps_dataset_deal (&dataset, (guint) o->batch_size,
                                  tps_bench_options_count_trainers (o));
  for (guint i = 0; i < work->dealt->len; i++)
    work->steps_per_epoch = MAX (work->steps_per_epoch, ((GArray *) work->dealt->pdata[i])->len);
  return TRUE;
}

/* -- trainers -- */

static void
add_batches (Work *work, guint trainer, TpsTrainPlan *plan)
{
  GArray *batches = work->dealt->pdata[trainer];

  for (guint i = 0; i < batches->len; i++)
    {
      TpsTrainBatch *from = &g_array_index (batches, TpsTrainBatch, i);
      TpsTrainBatch batch;

      tps_tensor_init_ref (&batch.input, &from->input);
      tps_tensor_init_ref (&batch.target, &from->target);
      tps_train_plan_take_batch (plan, &batch);
    }
}

static void
set_config (GVariant **field, GVariant *value)
{
  g_clear_pointer (field, g_variant_unref);
  *field = g_variant_ref (value);
}

static TpsTrainPlan *
make_plan (gpointer user_data, guint trainer, G_GNUC_UNUSED gboolean is_warm_up,
           G_GNUC_UNUSED GError **error)
{
  Work *work = user_data;
  const TpsBenchOptions *o = &work->options;
  TpsTrainPlan *plan = tps_train_plan_new ();

  tps_plan_set (&plan->model_class, work->model.class_name);
  set_config (&plan->model_config, work->model.arguments);
  tps_plan_set (&plan->trainer, o->trainer);
  set_config (&plan->trainer_config, work->trainer_arguments);
  plan->steps_per_epoch = work->steps_per_epoch;
  plan->epochs = (guint) o->epochs;
  plan->seed = o->seed;
  tps_plan_set (&plan->backend, o->backend);
  tps_plan_set (&plan->preprocess_data, o->preprocess_data);
  tps_plan_set (&plan->create_criterion, o->create_criterion);
  tps_plan_set (&plan->create_ddp_model, o->create_ddp_model);
  tps_plan_set (&plan->hook_state, o->hook_state);
  tps_plan_set (&plan->ddp_hook, o->ddp_hook);
  tps_plan_set (&plan->iteration_step, o->iteration_step);
  plan->partition_by_trainer = g_str_equal (o->partition, "trainers");
  plan->first_bucket_mib = o->first_bucket_mib;
  plan->bucket_cap_mib = o->bucket_cap_mib;
  plan->piece_bytes = (gint64) o->piece_kib * 1024;
  plan->learning_rate = o->learning_rate;
  tps_plan_set (&plan->reduce, o->reduce);
  tps_plan_set (&plan->compress, o->compress);
  tps_plan_set (&plan->device, trainer < (guint) o->ntrainer ? "cpu" : "cuda");
  add_batches (work, trainer, plan);
  return plan;
}

/* Checks the plan before any process starts. Otherwise the trainers would refuse it later. */
static gboolean
check_plan (Work *work, GError **error)
{
  const TpsBenchOptions *o = &work->options;
  TpsTrainPlan *plan = make_plan (work, 0, TRUE, error);

  if (plan == NULL)
    return FALSE;
  plan->world_size = tps_bench_options_count_trainers (o);
  for (guint i = 0; i < tps_bench_options_count_servers (o); i++)
    tps_train_plan_add_server (plan, (gint32) i, "");
  return tps_trainer_check_plan (plan, error);
}

static gboolean
load (gpointer user_data, GError **error)
{
  Work *work = user_data;
  const TpsBenchOptions *o = &work->options;
  g_auto (GStrv) known = tps_bench_list_classes ();

  if (!tps_bench_configuration_load (o->data_config_path, tps_bench_data_configurations, o->data,
                                     "data_class", &work->data, error)
      || !tps_bench_configuration_load (o->model_config_path, tps_bench_model_configurations,
                                        o->model, "model_class", &work->model, error))
    return FALSE;
  work->trainer_arguments = tps_bench_arguments_load (o->trainer_config_path, o->trainer,
                                                      (const gchar *const *) known, error);
  return work->trainer_arguments != NULL
         && tps_bench_check_names (o, work->data.class_name, work->model.class_name, error)
         && check_server_arguments (o, error) && make_data (work, error)
         && check_plan (work, error);
}

/* Prints the line that rank 0 of the originals prints. */
static void
print_epoch (G_GNUC_UNUSED gpointer user_data, guint epoch)
{
  if (epoch % 5 == 0)
    printf ("train epoch=%u\n", epoch);
}

static void
print_head (gpointer user_data)
{
  const TpsBenchOptions *o = &((Work *) user_data)->options;

  if (o->cuda_seed != TPS_BENCH_NO_SEED)
    printf ("--cuda-seed=%" G_GINT64_FORMAT " has no effect: data and parameters are drawn on the "
            "CPU, from --seed=%" G_GINT64_FORMAT "\n\n",
            o->cuda_seed, o->seed);
}

/* -- peers -- */

static const TpsPeerKind peer_kinds[] = {
  { "pytorch", "PyTorch", "bench/peers/pytorch_parameter_server.py",
    "ntrainer ncudatrainer nserver ncudaserver server ddp-hook batch-size epochs seed rpc-timeout" },
  { NULL },
};

static gchar **
make_peer_arguments (gpointer user_data)
{
  const Work *work = user_data;
  g_autoptr (GStrvBuilder) argv = g_strv_builder_new ();
  g_autofree gchar *model = json_gvariant_serialize_data (work->model.arguments, NULL);
  g_autofree gchar *data = json_gvariant_serialize_data (work->data.arguments, NULL);

  g_strv_builder_add_many (argv, "--model", model, "--data", data, "--transport",
                           work->options.peer_transport, NULL);
  return g_strv_builder_end (argv);
}

static void
print_report (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers)
{
  tps_program_print_tables (&((Work *) user_data)->options.run, ours, peers);
}

static void
add_output (G_GNUC_UNUSED gpointer user_data, TpsBenchResults *ours, GPtrArray *peers,
            TpsBenchOutput *output)
{
  tps_program_add_figures (ours, peers, output);
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  Work work = { 0 };
  TpsBenchOptions *o = &work.options;
  TpsProgram program = {
    .fill_server = fill_server,
    .work = { .make_plan = make_plan,
              .prepare_server = prepare_server,
              .epoch_begins = print_epoch },
    .load = load,
    .command_line = &tps_bench_command_line,
    .print_head = print_head,
    .peers = peer_kinds,
    .make_peer_arguments = make_peer_arguments,
    .print_report = print_report,
    .add_output = add_output,
  };
  gint status = 0;

  tps_benchmark_init ();
  if (!tps_bench_options_parse (o, argc, argv, &error))
    status = tps_benchmark_refuse ("parameter_server", error);
  else
    {
      /* In the layout of the originals, the trainers of different servers diverge. */
      program.work.parameters_agree = !g_str_equal (o->partition, "trainers")
                                      || tps_bench_options_count_servers (o) <= 1;
      status = tps_program_run (&program, &o->world, &o->run, &work);
    }
  g_clear_pointer (&work.dealt, g_ptr_array_unref);
  g_clear_pointer (&work.trainer_arguments, g_variant_unref);
  tps_bench_configuration_clear (&work.data);
  tps_bench_configuration_clear (&work.model);
  tps_bench_options_clear (o);
  return status;
}

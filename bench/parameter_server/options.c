/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/parameter_server/options.h"

#include "bench/parameter_server/experiments.h"
#include "bench/parameter_server/list.h"
#include "bench/process/reachable.h"
#include "runtime/trainer/pass/partition.h"
#include "runtime/device/backend.h"
#include "runtime/device/device_library.h"
#include "runtime/base/error.h"

#define LEARNING_RATE 1e-4 /* as in the originals */
#define PIECE_KIB 128      /* KiB of a piece, for trainers and servers on several hosts */

static void
default_to (gint *value, gint number)
{
  if (*value == TPS_FLAGS_NOT_GIVEN)
    *value = number;
}

/* Sets the options that other flags have not set. Given numbers of trainers (or of servers) replace
 * those of the experiment. */
static void
fill_from (TpsBenchOptions *o, const TpsExperiment *experiment)
{
  if (o->ntrainer == TPS_FLAGS_NOT_GIVEN && o->ncudatrainer == TPS_FLAGS_NOT_GIVEN)
    {
      o->ntrainer = experiment->ntrainer;
      o->ncudatrainer = experiment->ncudatrainer;
    }
  if (o->nserver == TPS_FLAGS_NOT_GIVEN && o->ncudaserver == TPS_FLAGS_NOT_GIVEN)
    {
      o->nserver = experiment->nserver;
      o->ncudaserver = experiment->ncudaserver;
    }
  tps_flags_default_to (&o->ddp_hook, experiment->ddp_hook);
  tps_flags_default_to (&o->server, experiment->server);
  tps_flags_default_to (&o->backend, experiment->backend);
  tps_flags_default_to (&o->data, experiment->data);
  tps_flags_default_to (&o->model, experiment->model);
  default_to (&o->world.rpc_timeout, experiment->rpc_timeout);
  default_to (&o->epochs, experiment->epochs);
  default_to (&o->batch_size, experiment->batch_size);
}

static gboolean
take_experiment (TpsBenchOptions *o, GError **error)
{
  const TpsExperiment *experiment;

  if (o->experiment == NULL)
    return TRUE;
  if (o->run.smoke)
    return tps_flags_refuse ("experiment", o->experiment, "no --smoke with it", error);
  experiment = tps_experiment_find (o->experiment, error);
  if (experiment != NULL)
    fill_from (o, experiment);
  return experiment != NULL;
}

/* Sets the numbers of roles. If only one kind of trainers (or of servers) is given, the number of
 * the other kind is 0. */
static void
fill_roles (TpsBenchOptions *o)
{
  default_to (&o->ncudatrainer, 0);
  default_to (&o->ncudaserver, 0);
  default_to (&o->ntrainer, o->ncudatrainer > 0 ? 0 : 2);
  default_to (&o->nserver, o->ncudaserver > 0 ? 0 : 1);
}

/* Sets the options that neither flags nor the environment have set. */
static void
fill_defaults (TpsBenchOptions *o)
{
  fill_roles (o);
  default_to (&o->epochs, 1);
  default_to (&o->batch_size, 32);
  tps_flags_default_to (&o->trainer, "DdpTrainer");
  tps_flags_default_to (&o->server, "AverageParameterServer");
  tps_flags_default_to (&o->backend, "gloo");
  tps_flags_default_to (&o->data, o->run.smoke ? "DummyDataSmall" : "DummyData");
  tps_flags_default_to (&o->model, o->run.smoke ? "DummyModelSmall" : "DummyModelSparse");
  tps_flags_default_to (&o->preprocess_data, "preprocess_dummy_data");
  tps_flags_default_to (&o->create_criterion, "cel");
  tps_flags_default_to (&o->create_ddp_model, "basic_ddp_model");
  tps_flags_default_to (&o->hook_state, "BasicHookState");
  tps_flags_default_to (&o->ddp_hook, "rpc_hook");
  tps_flags_default_to (&o->iteration_step, "basic_iteration_step");
  tps_flags_default_to (&o->reduce, "mean");
  tps_flags_default_to (&o->compress, "none");
  tps_flags_default_to (&o->partition, "size");
  tps_flags_default_to (&o->peer_transport, "default");
}

/* Makes the tables of flags, which belong to one set of options: GOption writes through their
 * pointers. */
static GOptionContext *
make_context (TpsBenchOptions *o, gboolean *list)
{
  const GOptionEntry roles[] = {
    { "experiment", 0, 0, G_OPTION_ARG_STRING, &o->experiment,
      "one of the originals' experiments, such as ddp_cpu_rpc (shown by --list); other flags "
      "override its values",
      "NAME" },
    { "ntrainer", 0, 0, G_OPTION_ARG_INT, &o->ntrainer, "CPU trainers (2; 0 with CUDA trainers)",
      "N" },
    { "ncudatrainer", 0, 0, G_OPTION_ARG_INT, &o->ncudatrainer,
      "trainers that compute on a GPU (0)", "N" },
    { "nserver", 0, 0, G_OPTION_ARG_INT, &o->nserver, "CPU servers (1; 0 with CUDA servers)", "N" },
    { "ncudaserver", 0, 0, G_OPTION_ARG_INT, &o->ncudaserver, "servers that average on a GPU (0)",
      "N" },
    { "trainer", 0, 0, G_OPTION_ARG_STRING, &o->trainer, "trainer class (DdpTrainer)", "NAME" },
    { "server", 0, 0, G_OPTION_ARG_STRING, &o->server,
      "AverageParameterServer adds gradients as they arrive, AverageBatchParameterServer when all "
      "have arrived (AverageParameterServer)",
      "NAME" },
    { "filestore", 0, 0, G_OPTION_ARG_FILENAME, &o->filestore,
      "accepted for compatibility with the original; trainers join through the master", "FILE" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  const GOptionEntry work[] = {
    { "data", 0, 0, G_OPTION_ARG_STRING, &o->data, "data id (DummyData)", "ID" },
    { "model", 0, 0, G_OPTION_ARG_STRING, &o->model, "model id (DummyModelSparse)", "ID" },
    { "data-config-path", 0, 0, G_OPTION_ARG_FILENAME, &o->data_config_path,
      "JSON file of data ids (built in)", "FILE" },
    { "model-config-path", 0, 0, G_OPTION_ARG_FILENAME, &o->model_config_path,
      "JSON file of model ids (built in)", "FILE" },
    { "server-config-path", 0, 0, G_OPTION_ARG_FILENAME, &o->server_config_path,
      "JSON file: named arguments of the server class", "FILE" },
    { "trainer-config-path", 0, 0, G_OPTION_ARG_FILENAME, &o->trainer_config_path,
      "JSON file: named arguments of the trainer class", "FILE" },
    { "epochs", 0, 0, G_OPTION_ARG_INT, &o->epochs, "epochs of a pass (1)", "N" },
    { "batch-size", 0, 0, G_OPTION_ARG_INT, &o->batch_size, "samples of a batch (32)", "N" },
    { "learning-rate", 0, 0, G_OPTION_ARG_DOUBLE, &o->learning_rate, "of SGD (1e-4)", "X" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of data and parameters (0)", "N" },
    { "torch-seed", 0, 0, G_OPTION_ARG_INT64, &o->torch_seed, "another name of --seed", "N" },
    { "cuda-seed", 0, 0, G_OPTION_ARG_INT64, &o->cuda_seed,
      "recorded, without effect: nothing is drawn on a GPU", "N" },
    { "ddp-hook", 0, 0, G_OPTION_ARG_STRING, &o->ddp_hook,
      "rpc_hook, sparse_rpc_hook, allreduce_hook or hybrid_hook (rpc_hook)", "NAME" },
    { "backend", 0, 0, G_OPTION_ARG_STRING, &o->backend,
      "process group: gloo, nccl or multi (gloo)", "NAME" },
    { "preprocess-data", 0, 0, G_OPTION_ARG_STRING, &o->preprocess_data,
      "preprocessing of the batches before a pass (preprocess_dummy_data: check that they fit "
      "the model)",
      "NAME" },
    { "create-criterion", 0, 0, G_OPTION_ARG_STRING, &o->create_criterion, "loss (cel)", "NAME" },
    { "create-ddp-model", 0, 0, G_OPTION_ARG_STRING, &o->create_ddp_model,
      "binding of the model to buckets and hooks (basic_ddp_model)", "NAME" },
    { "hook-state", 0, 0, G_OPTION_ARG_STRING, &o->hook_state,
      "state of hooks: the step number for their metrics (BasicHookState)", "NAME" },
    { "iteration-step", 0, 0, G_OPTION_ARG_STRING, &o->iteration_step,
      "training step (basic_iteration_step: forward, backward, optimizer)", "NAME" },
    { "reduce", 0, 0, G_OPTION_ARG_STRING, &o->reduce,
      "mean, or sum as the originals really do (mean)", "KIND" },
    { "compress", 0, 0, G_OPTION_ARG_STRING, &o->compress,
      "compression of gradients: none, fp16, bf16, or topk:RATIO for the largest values of dense "
      "gradients (none)",
      "KIND" },
    { "partition", 0, 0, G_OPTION_ARG_STRING, &o->partition,
      "size: a bucket has one owner among all servers; trainers: each server has its own trainers, as in "
      "the originals (size)",
      "KIND" },
    { "first-bucket-mib", 0, 0, G_OPTION_ARG_DOUBLE, &o->first_bucket_mib,
      "the first bucket closes after this many MiB (1)", "X" },
    { "bucket-cap-mib", 0, 0, G_OPTION_ARG_DOUBLE, &o->bucket_cap_mib,
      "later buckets close after this many MiB (25)", "X" },
    { "piece-kib", 0, 0, G_OPTION_ARG_INT, &o->piece_kib,
      "buckets travel to servers in pieces of this size, so that the links are used in both "
      "directions at once; 0: whole buckets (128, or 0 if --master-addr is loopback)",
      "N" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  const GOptionEntry output[] = {
    { "peer-transport", 0, 0, G_OPTION_ARG_STRING, &o->peer_transport,
      "the peer's: default (shared memory where it can) or tcp (default)", "KIND" },
    { "list", 0, 0, G_OPTION_ARG_NONE, list, "print the possible values of flags", NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context,
      "Trains a small model with T trainers whose gradients are averaged by S parameter servers, each a "
      "process of its own,\nand reports the time of every step. Without flags: 2 trainers, 1 "
      "server.\nNames of flags may have underscores instead of dashes.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  g_option_context_add_main_entries (context, roles, NULL);
  tps_world_add_flags (context, &o->world);
  g_option_context_add_main_entries (context, work, NULL);
  tps_run_flags_add (
      context, &o->run,
      "run the same work on this peer, pass by pass in turn, and print the ratios: pytorch");
  g_option_context_add_main_entries (context, output, NULL);
  return context;
}

guint
tps_bench_options_count_trainers (const TpsBenchOptions *options)
{
  return (guint) (options->ntrainer + options->ncudatrainer);
}

guint
tps_bench_options_count_servers (const TpsBenchOptions *options)
{
  return (guint) (options->nserver + options->ncudaserver);
}

/* Returns TRUE if this process runs a CUDA trainer. The order of ranks is: trainers on the CPU,
 * trainers on CUDA, servers on the CPU, servers on CUDA, the master. All roles of a launcher run on
 * its host. */
static gboolean
has_cuda_trainer_here (const TpsBenchOptions *o)
{
  gint rank = o->world.rank;

  return o->ncudatrainer > 0
         && (rank < 0 || (rank >= o->ntrainer && rank < o->ntrainer + o->ncudatrainer));
}

static gboolean
has_cuda_server_here (const TpsBenchOptions *o)
{
  gint first = o->ntrainer + o->ncudatrainer + o->nserver;
  gint rank = o->world.rank;

  return o->ncudaserver > 0 && (rank < 0 || (rank >= first && rank < first + o->ncudaserver));
}

/* Checks the devices. Loads a driver only if a role of this process needs it. */
static gboolean
check_devices (const TpsBenchOptions *o, GError **error)
{
  gboolean has_trainer = has_cuda_trainer_here (o);

  if ((!has_trainer && !has_cuda_server_here (o)) || tps_device_library_get ()->devices->len > 0)
    return TRUE;
  if (has_trainer)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "--ncudatrainer=%d: no CUDA device; use --ntrainer (%s)", o->ncudatrainer,
                 tps_device_list_summary ());
  else
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
                 "--ncudaserver=%d: no CUDA device; use --nserver (%s)", o->ncudaserver,
                 tps_device_list_summary ());
  return FALSE;
}

static gboolean
check_cuda (const TpsBenchOptions *o, GError **error)
{
  if (check_devices (o, error))
    return TRUE;
  if (o->experiment != NULL)
    g_prefix_error (error, "--experiment=%s needs a GPU: ", o->experiment);
  return FALSE;
}

/* In the layout of the originals, each trainer must have a server of its own kind. */
static gboolean
check_kinds (const TpsBenchOptions *o, GError **error)
{
  guint n_trainers = tps_bench_options_count_trainers (o);
  guint n_servers = tps_bench_options_count_servers (o);

  for (guint r = 0; o->ntrainer > 0 && o->ncudatrainer > 0 && n_servers > 0 && r < n_trainers; r++)
    {
      guint server = tps_partition_find_server (r, n_trainers, n_servers);

      if ((r >= (guint) o->ntrainer) != (server >= (guint) o->nserver))
        return tps_flags_refuse ("partition", "trainers",
                                 "as many CPU trainers for each CPU server as CUDA trainers for "
                                 "each CUDA server",
                                 error);
    }
  return TRUE;
}

static gboolean
check_partition (const TpsBenchOptions *o, GError **error)
{
  if (!g_str_equal (o->partition, "trainers"))
    return TRUE;
  if (tps_bench_options_count_servers (o) > tps_bench_options_count_trainers (o))
    return tps_flags_refuse ("partition", "trainers", "at most as many servers as trainers", error);
  return check_kinds (o, error);
}

static gboolean
check_world (const TpsBenchOptions *o, GError **error)
{
  gboolean needs_servers = g_str_equal (o->ddp_hook, "rpc_hook")
                           || g_str_equal (o->ddp_hook, "sparse_rpc_hook");

  if (!check_cuda (o, error))
    return FALSE;
  if (tps_bench_options_count_trainers (o) == 0)
    return tps_flags_refuse ("ntrainer", "0", "at least one trainer", error);
  if (needs_servers && tps_bench_options_count_servers (o) == 0)
    {
      g_set_error (
          error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
          "--nserver=0: %s sends gradients to servers; use --nserver=1 or --ddp-hook=allreduce_hook",
          o->ddp_hook);
      return FALSE;
    }
  return check_partition (o, error);
}

/* Refuses options that the peer does not support. */
static gboolean
check_peer (const TpsBenchOptions *o, GError **error)
{
  if (o->run.peer == NULL)
    return TRUE;
  if (!g_str_equal (o->compress, "none"))
    return tps_flags_refuse ("compress", o->compress,
                             "none with --peer, which does not compress gradients", error);
  if (o->learning_rate != LEARNING_RATE)
    return tps_flags_refuse ("learning-rate", "another",
                             "1e-4 with --peer, which supports no other", error);
  return TRUE;
}

static gboolean
check_words (const TpsBenchOptions *o, GError **error)
{
  static const gchar *const reduces[] = { "mean", "sum", NULL };
  static const gchar *const partitions[] = { "size", "trainers", NULL };
  static const gchar *const peer_transports[] = { "default", "tcp", NULL };

  return tps_flags_check_word ("reduce", o->reduce, reduces, error)
         && tps_flags_check_word ("partition", o->partition, partitions, error)
         && tps_flags_check_word ("peer-transport", o->peer_transport, peer_transports, error);
}

/* Sets the seed. If both flags are given, they must have the same value. */
static gboolean
take_seeds (TpsBenchOptions *o, GError **error)
{
  g_autofree gchar *text = g_strdup_printf ("%" G_GINT64_FORMAT, o->torch_seed);
  g_autofree gchar *expected = NULL;

  if (o->seed == TPS_BENCH_NO_SEED)
    o->seed = o->torch_seed != TPS_BENCH_NO_SEED ? o->torch_seed : 0;
  if (o->torch_seed == TPS_BENCH_NO_SEED || o->torch_seed == o->seed)
    return TRUE;
  expected = g_strdup_printf ("--seed=%" G_GINT64_FORMAT "; both seeds must be equal", o->seed);
  return tps_flags_refuse ("torch-seed", text, expected, error);
}

static gboolean
check_numbers (const TpsBenchOptions *o, GError **error)
{
  return tps_flags_check_number ("ntrainer", o->ntrainer, 0, 1024, error)
         && tps_flags_check_number ("nserver", o->nserver, 0, 1024, error)
         && tps_flags_check_number ("ncudatrainer", o->ncudatrainer, 0, 1024, error)
         && tps_flags_check_number ("ncudaserver", o->ncudaserver, 0, 1024, error)
         && tps_flags_check_number ("epochs", o->epochs, 1, 1000000, error)
         && tps_flags_check_number ("batch-size", o->batch_size, 1, 1 << 20, error)
         && tps_flags_check_factor ("first-bucket-mib", o->first_bucket_mib, FALSE, error)
         && tps_flags_check_factor ("bucket-cap-mib", o->bucket_cap_mib, FALSE, error)
         && (o->piece_kib == TPS_FLAGS_NOT_GIVEN
             || tps_flags_check_number ("piece-kib", o->piece_kib, 0, 1 << 20, error))
         && tps_flags_check_factor ("learning-rate", o->learning_rate, TRUE, error);
}

/* Returns TRUE if all processes are on one host: other hosts cannot reach a master on loopback. */
static gboolean
is_on_one_host (const TpsWorld *world)
{
  return g_str_equal (world->transport, "unix") || tps_reachable_is_loopback (world->master_addr);
}

static void
resolve_paths (TpsBenchOptions *o)
{
  tps_flags_resolve_path (&o->data_config_path);
  tps_flags_resolve_path (&o->model_config_path);
  tps_flags_resolve_path (&o->server_config_path);
  tps_flags_resolve_path (&o->trainer_config_path);
  tps_flags_resolve_path (&o->filestore);
}

static gboolean
finish (TpsBenchOptions *o, GError **error)
{
  static const gchar *const peers[] = { "pytorch", NULL };

  if (!tps_world_read_environment (&o->world, error) || !take_experiment (o, error)
      || !take_seeds (o, error))
    return FALSE;
  fill_defaults (o);
  resolve_paths (o);
  if (!check_numbers (o, error) || !check_words (o, error)
      || !tps_run_flags_finish (&o->run, peers, error))
    return FALSE;
  o->world.n_trainers = tps_bench_options_count_trainers (o);
  o->world.n_servers = tps_bench_options_count_servers (o);
  if (!tps_world_finish_flags (&o->world, error))
    return FALSE;
  default_to (&o->piece_kib, is_on_one_host (&o->world) ? 0 : PIECE_KIB);
  return check_world (o, error) && check_peer (o, error);
}

TpsBenchVerdict
tps_bench_options_parse (TpsBenchOptions *options, gint argc, gchar **argv, GError **error)
{
  g_autoptr (GOptionContext) context = NULL;
  gboolean list = FALSE;

  *options = (TpsBenchOptions) { .ntrainer = TPS_FLAGS_NOT_GIVEN,
                                 .ncudatrainer = TPS_FLAGS_NOT_GIVEN,
                                 .nserver = TPS_FLAGS_NOT_GIVEN,
                                 .ncudaserver = TPS_FLAGS_NOT_GIVEN,
                                 .epochs = TPS_FLAGS_NOT_GIVEN,
                                 .batch_size = TPS_FLAGS_NOT_GIVEN,
                                 .seed = TPS_BENCH_NO_SEED,
                                 .torch_seed = TPS_BENCH_NO_SEED,
                                 .cuda_seed = TPS_BENCH_NO_SEED,
                                 .learning_rate = LEARNING_RATE,
                                 .first_bucket_mib = 1,
                                 .bucket_cap_mib = 25,
                                 .piece_kib = TPS_FLAGS_NOT_GIVEN };
  tps_world_init (&options->world, "parameter_server", "server");
  context = make_context (options, &list);
  if (!tps_flags_parse (context, argc, argv, &options->world.given, error))
    return TPS_BENCH_BAD;
  if (list || options->run.version)
    {
      tps_bench_print_list (options->run.version);
      return TPS_BENCH_DONE;
    }
  return finish (options, error) ? TPS_BENCH_RUN : TPS_BENCH_BAD;
}

void
tps_bench_options_clear (TpsBenchOptions *o)
{
  gchar **const strings[] = {
    &o->experiment,
    &o->trainer,
    &o->filestore,
    &o->server,
    &o->backend,
    &o->data,
    &o->model,
    &o->data_config_path,
    &o->model_config_path,
    &o->server_config_path,
    &o->trainer_config_path,
    &o->preprocess_data,
    &o->create_criterion,
    &o->create_ddp_model,
    &o->hook_state,
    &o->ddp_hook,
    &o->iteration_step,
    &o->reduce,
    &o->compress,
    &o->partition,
    &o->peer_transport,
  };

  for (guint i = 0; i < G_N_ELEMENTS (strings); i++)
    g_clear_pointer (strings[i], g_free);
  tps_world_clear (&o->world);
  tps_run_flags_clear (&o->run);
}

/* Adds a line for a seed; a seed that is not given is "". */
static void
describe_seed (GPtrArray *lines, const gchar *name, gint64 seed)
{
  g_autofree gchar *text = g_strdup_printf ("%" G_GINT64_FORMAT, seed);

  tps_flags_add_text (lines, name, seed != TPS_BENCH_NO_SEED ? text : NULL);
}

GPtrArray *
tps_bench_options_describe (const TpsBenchOptions *o)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (lines, "ntrainer", o->ntrainer);
  tps_flags_add_number (lines, "ncudatrainer", o->ncudatrainer);
  tps_flags_add_number (lines, "nserver", o->nserver);
  tps_flags_add_number (lines, "ncudaserver", o->ncudaserver);
  tps_flags_add_text (lines, "trainer", o->trainer);
  tps_flags_add_text (lines, "server", o->server);
  tps_flags_add_text (lines, "experiment", o->experiment);
  tps_flags_add_text (lines, "filestore", o->filestore);
  tps_world_describe (&o->world, lines);
  tps_flags_add_text (lines, "data", o->data);
  tps_flags_add_text (lines, "model", o->model);
  tps_flags_add_text (lines, "data-config-path", o->data_config_path);
  tps_flags_add_text (lines, "model-config-path", o->model_config_path);
  tps_flags_add_text (lines, "server-config-path", o->server_config_path);
  tps_flags_add_text (lines, "trainer-config-path", o->trainer_config_path);
  tps_flags_add_number (lines, "epochs", o->epochs);
  tps_flags_add_number (lines, "batch-size", o->batch_size);
  tps_flags_add_number (lines, "learning-rate", o->learning_rate);
  describe_seed (lines, "seed", o->seed);
  describe_seed (lines, "torch-seed", o->torch_seed);
  describe_seed (lines, "cuda-seed", o->cuda_seed);
  tps_flags_add_text (lines, "ddp-hook", o->ddp_hook);
  tps_flags_add_text (lines, "backend", o->backend);
  tps_flags_add_text (lines, "preprocess-data", o->preprocess_data);
  tps_flags_add_text (lines, "create-criterion", o->create_criterion);
  tps_flags_add_text (lines, "create-ddp-model", o->create_ddp_model);
  tps_flags_add_text (lines, "hook-state", o->hook_state);
  tps_flags_add_text (lines, "iteration-step", o->iteration_step);
  tps_flags_add_text (lines, "reduce", o->reduce);
  tps_flags_add_text (lines, "compress", o->compress);
  tps_flags_add_text (lines, "partition", o->partition);
  tps_flags_add_number (lines, "first-bucket-mib", o->first_bucket_mib);
  tps_flags_add_number (lines, "bucket-cap-mib", o->bucket_cap_mib);
  tps_flags_add_number (lines, "piece-kib", o->piece_kib);
  tps_flags_add_number (lines, "repeats", o->run.repeats);
  return lines;
}

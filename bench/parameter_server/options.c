/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/parameter_server/options.h"

#include "bench/process/reachable.h"
#include "runtime/trainer/pass/partition.h"
#include "runtime/device/backend.h"
#include "runtime/device/device_library.h"
#include "runtime/base/error.h"
#include "runtime/server/averaging/server_kind.h"
#include "runtime/trainer/compress/compression.h"
#include "runtime/trainer/nn/dataset.h"
#include "runtime/trainer/nn/model.h"
#include "runtime/trainer/pass/pass.h"
#include "runtime/trainer/ports/hook.h"
#include "runtime/trainer/ports/process_group.h"

#define LEARNING_RATE 1e-4 /* as in the originals */
#define PIECE_KIB 128      /* KiB of a piece, for trainers and servers on several hosts */

#define FIELD(name) G_STRUCT_OFFSET (TpsBenchOptions, name)

static const TpsFlag roles[] = {
  { "ntrainer", G_OPTION_ARG_INT, FIELD (ntrainer), "CPU trainers (2; 0 with CUDA trainers)", "N",
    TPS_FLAGS_NOT_GIVEN, 0, 1024 },
  { "ncudatrainer", G_OPTION_ARG_INT, FIELD (ncudatrainer), "trainers that compute on a GPU (0)",
    "N", TPS_FLAGS_NOT_GIVEN, 0, 1024 },
  { "nserver", G_OPTION_ARG_INT, FIELD (nserver), "CPU servers (1; 0 with CUDA servers)", "N",
    TPS_FLAGS_NOT_GIVEN, 0, 1024 },
  { "ncudaserver", G_OPTION_ARG_INT, FIELD (ncudaserver), "servers that average on a GPU (0)", "N",
    TPS_FLAGS_NOT_GIVEN, 0, 1024 },
  { "trainer", G_OPTION_ARG_STRING, FIELD (trainer), "trainer class (DdpTrainer)", "NAME",
    .text = "DdpTrainer" },
  { "server", G_OPTION_ARG_STRING, FIELD (server),
    "AverageParameterServer adds gradients as they arrive, AverageBatchParameterServer when all have "
    "arrived (AverageParameterServer)",
    "NAME" },
  { "filestore", G_OPTION_ARG_FILENAME, FIELD (filestore),
    "accepted for compatibility with the original; trainers join through the master", "FILE" },
  { NULL },
};

static const TpsFlag work[] = {
  { "data", G_OPTION_ARG_STRING, FIELD (data), "data id (DummyData)", "ID" },
  { "model", G_OPTION_ARG_STRING, FIELD (model), "model id (DummyModelSparse)", "ID" },
  { "data-config-path", G_OPTION_ARG_FILENAME, FIELD (data_config_path),
    "JSON file of data ids (built in)", "FILE" },
  { "model-config-path", G_OPTION_ARG_FILENAME, FIELD (model_config_path),
    "JSON file of model ids (built in)", "FILE" },
  { "server-config-path", G_OPTION_ARG_FILENAME, FIELD (server_config_path),
    "JSON file: named arguments of the server class", "FILE" },
  { "trainer-config-path", G_OPTION_ARG_FILENAME, FIELD (trainer_config_path),
    "JSON file: named arguments of the trainer class", "FILE" },
  { "epochs", G_OPTION_ARG_INT, FIELD (epochs), "epochs of a pass (1)", "N", TPS_FLAGS_NOT_GIVEN, 1,
    1000000 },
  { "batch-size", G_OPTION_ARG_INT, FIELD (batch_size), "samples of a batch (32)", "N",
    TPS_FLAGS_NOT_GIVEN, 1, 1 << 20 },
  { "learning-rate", G_OPTION_ARG_DOUBLE, FIELD (learning_rate), "of SGD (1e-4)", "X",
    LEARNING_RATE },
  { "seed", G_OPTION_ARG_INT64, FIELD (seed), "of data and parameters (0)", "N",
    TPS_BENCH_NO_SEED },
  { "torch-seed", G_OPTION_ARG_INT64, FIELD (torch_seed), "another name of --seed", "N",
    TPS_BENCH_NO_SEED },
  { "cuda-seed", G_OPTION_ARG_INT64, FIELD (cuda_seed),
    "recorded, without effect: nothing is drawn on a GPU", "N", TPS_BENCH_NO_SEED },
  { "ddp-hook", G_OPTION_ARG_STRING, FIELD (ddp_hook),
    "rpc_hook, sparse_rpc_hook, allreduce_hook or hybrid_hook (rpc_hook)", "NAME" },
  { "backend", G_OPTION_ARG_STRING, FIELD (backend), "process group: gloo, nccl or multi (gloo)",
    "NAME" },
  { "preprocess-data", G_OPTION_ARG_STRING, FIELD (preprocess_data),
    "preprocessing of the batches before a pass (preprocess_dummy_data: check that they fit the "
    "model)",
    "NAME", .text = "preprocess_dummy_data" },
  { "create-criterion", G_OPTION_ARG_STRING, FIELD (create_criterion), "loss (cel)", "NAME",
    .text = "cel" },
  { "create-ddp-model", G_OPTION_ARG_STRING, FIELD (create_ddp_model),
    "binding of the model to buckets and hooks (basic_ddp_model)", "NAME",
    .text = "basic_ddp_model" },
  { "hook-state", G_OPTION_ARG_STRING, FIELD (hook_state),
    "state of hooks: the step number for their metrics (BasicHookState)", "NAME",
    .text = "BasicHookState" },
  { "iteration-step", G_OPTION_ARG_STRING, FIELD (iteration_step),
    "training step (basic_iteration_step: forward, backward, optimizer)", "NAME",
    .text = "basic_iteration_step" },
  { "reduce", G_OPTION_ARG_STRING, FIELD (reduce), "mean, or sum as the originals really do (mean)",
    "KIND", .text = "mean", .words = "mean sum" },
  { "compress", G_OPTION_ARG_STRING, FIELD (compress),
    "compression of gradients: none, fp16, bf16, or topk:RATIO for the largest values of dense "
    "gradients (none)",
    "KIND", .text = "none" },
  { "partition", G_OPTION_ARG_STRING, FIELD (partition),
    "size: a bucket has one owner among all servers; trainers: each server has its own trainers, as "
    "in the originals (size)",
    "KIND", .text = "size", .words = "size trainers" },
  { "first-bucket-mib", G_OPTION_ARG_DOUBLE, FIELD (first_bucket_mib),
    "the first bucket closes after this many MiB (1)", "X", 1, TPS_FLAGS_ABOVE_0 },
  { "bucket-cap-mib", G_OPTION_ARG_DOUBLE, FIELD (bucket_cap_mib),
    "later buckets close after this many MiB (25)", "X", 25, TPS_FLAGS_ABOVE_0 },
  { "piece-kib", G_OPTION_ARG_INT, FIELD (piece_kib),
    "buckets travel to servers in pieces of this size, so that the links are used in both directions "
    "at once; 0: whole buckets (128, or 0 if --master-addr is loopback)",
    "N", TPS_FLAGS_NOT_GIVEN, 0, 1 << 20 },
  { NULL },
};

static const TpsFlag output[] = {
  { "peer", G_OPTION_ARG_STRING, FIELD (run.peer),
    "run the same work on this peer, pass by pass in turn, and print the ratios: pytorch", "NAME",
    .words = "pytorch", .is_silent = TRUE },
  { "peer-transport", G_OPTION_ARG_STRING, FIELD (peer_transport),
    "the peer's: default (shared memory where it can) or tcp (default)", "KIND", .text = "default",
    .words = "default tcp", .is_silent = TRUE },
  { NULL },
};

const TpsCommandLine tps_bench_command_line = {
  "parameter_server",
  "Trains a small model with T trainers whose gradients are averaged by S parameter servers, each a "
  "process of its own,\nand reports the time of every step. Without flags: 2 trainers, 1 server.\n"
  "Names of flags may have underscores instead of dashes.",
  { { roles, 0 },
    { tps_world_flags, FIELD (world) },
    { work, 0 },
    { tps_run_flags, FIELD (run) },
    { output, 0 } },
};

/* Sets the numbers of roles. If one kind of trainers (or of servers) is given, the other is 0. */
static void
fill_roles (TpsBenchOptions *o)
{
  tps_flags_default_number (&o->ncudatrainer, 0);
  tps_flags_default_number (&o->ncudaserver, 0);
  tps_flags_default_number (&o->ntrainer, o->ncudatrainer > 0 ? 0 : 2);
  tps_flags_default_number (&o->nserver, o->ncudaserver > 0 ? 0 : 1);
}

/* Sets the options that neither flags nor the environment have set. */
static void
fill_defaults (TpsBenchOptions *o)
{
  fill_roles (o);
  tps_flags_default_number (&o->epochs, 1);
  tps_flags_default_number (&o->batch_size, 32);
  tps_flags_default_to (&o->server, "AverageParameterServer");
  tps_flags_default_to (&o->backend, "gloo");
  tps_flags_default_to (&o->data, o->run.smoke ? "DummyDataSmall" : "DummyData");
  tps_flags_default_to (&o->model, o->run.smoke ? "DummyModelSmall" : "DummyModelSparse");
  tps_flags_default_to (&o->ddp_hook, "rpc_hook");
  tps_flags_default_number (&o->run.repeats, o->run.peer != NULL ? 5 : 1);
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

/* Returns TRUE if this process runs a CUDA trainer. The order of ranks: trainers on the CPU, on
 * CUDA, servers on the CPU, on CUDA, the master. All roles of a launcher run on its host. */
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

  if (!check_devices (o, error))
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
finish (TpsBenchOptions *o, GError **error)
{
  gboolean is_on_one_host; /* other hosts cannot reach a master on loopback */

  if (!tps_world_read_environment (&o->world, error) || !take_seeds (o, error))
    return FALSE;
  fill_defaults (o);
  o->world.n_trainers = tps_bench_options_count_trainers (o);
  o->world.n_servers = tps_bench_options_count_servers (o);
  if (!tps_world_finish_flags (&o->world, error))
    return FALSE;
  is_on_one_host = g_str_equal (o->world.transport, "unix")
                   || tps_reachable_is_loopback (o->world.master_addr);
  tps_flags_default_number (&o->piece_kib, is_on_one_host ? 0 : PIECE_KIB);
  return check_world (o, error) && check_peer (o, error);
}

gboolean
tps_bench_options_parse (TpsBenchOptions *o, gint argc, gchar **argv, GError **error)
{
  tps_world_init (&o->world, "parameter_server", "server");
  return tps_command_line_parse (&tps_bench_command_line, o, argc, argv, &o->world.given, error)
         && finish (o, error);
}

void
tps_bench_options_clear (TpsBenchOptions *o)
{
  tps_command_line_clear (&tps_bench_command_line, o);
  g_clear_pointer (&o->world.given, g_strfreev);
}

/* -- names -- */

/* Lists the trainers that train on given batches, because this program distributes batches. */
static const gchar **
list_trainers (void)
{
  const gchar **names = tps_trainer_class_list ();
  guint n = 0;

  for (guint i = 0; names[i] != NULL; i++)
    if (!tps_trainer_class_find (names[i], NULL)->makes_batches)
      names[n++] = names[i];
  names[n] = NULL;
  return names;
}

static gboolean
check_trainer (const gchar *name, GError **error)
{
  const TpsTrainerClass *klass = tps_trainer_class_find (name, NULL);
  g_autofree const gchar **names = NULL;
  g_autofree gchar *known = NULL;

  if (klass != NULL && !klass->makes_batches)
    return TRUE;
  names = list_trainers ();
  known = g_strjoinv (", ", (gchar **) (gsize) names);
  g_set_error (error, TPS_ERROR, TPS_ERROR_NOT_FOUND, "%s \"%s\"; known: %s",
               klass == NULL ? "unknown trainer"
                             : "this program distributes batches, which are not used by",
               name, known);
  return FALSE;
}

static gboolean
check (const gchar *flag, gboolean is_known, GError **error)
{
  if (!is_known)
    g_prefix_error (error, "--%s: ", flag);
  return is_known;
}

/* Checks the backend. The launcher checks its library, too: trainers would report it too late. */
static gboolean
check_backend (const TpsBenchOptions *o, GError **error)
{
  const TpsHook *hook = tps_hook_find (o->ddp_hook, NULL);

  if (o->world.rank < 0 && tps_bench_options_count_trainers (o) > 1
      && (hook->needs & TPS_HOOK_NEEDS_GROUP) != 0)
    return tps_process_group_check_usable (o->backend, error);
  return tps_process_group_check_backend (o->backend, error);
}

gboolean
tps_bench_check_names (const TpsBenchOptions *o, const gchar *data_class, const gchar *model_class,
                       GError **error)
{
  TpsCompression compression;

  return check ("data", tps_data_class_find (data_class, error) != NULL, error)
         && check ("model", tps_model_class_find (model_class, error) != NULL, error)
         && check ("trainer", check_trainer (o->trainer, error), error)
         && check ("server", tps_server_kind_find (o->server, error) != NULL, error)
         && check ("ddp-hook", tps_hook_find (o->ddp_hook, error) != NULL, error)
         && check ("compress", tps_compression_parse (o->compress, &compression, error), error)
         && check ("hook-state", tps_hook_state_class_find (o->hook_state, error) != NULL, error)
         && check ("create-ddp-model",
                   tps_ddp_model_maker_find (o->create_ddp_model, error) != NULL, error)
         && check ("create-criterion", tps_criterion_find (o->create_criterion, error) != NULL,
                   error)
         && check ("iteration-step", tps_iteration_step_find (o->iteration_step, error) != NULL,
                   error)
         && check ("preprocess-data", tps_preprocess_find (o->preprocess_data, error) != NULL,
                   error)
         && check ("backend", check_backend (o, error), error);
}

gchar **
tps_bench_list_classes (void)
{
  g_autofree const gchar **trainers = tps_trainer_class_list ();
  g_autofree const TpsServerKind **kinds = tps_server_kind_list ();
  g_autoptr (GStrvBuilder) names = g_strv_builder_new ();

  g_strv_builder_addv (names, (const char **) trainers);
  for (guint i = 0; kinds[i] != NULL; i++)
    g_strv_builder_add (names, kinds[i]->name);
  return g_strv_builder_end (names);
}

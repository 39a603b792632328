/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/options.h"

#include <string.h>

#include "bench/list.h"
#include "runtime/error.h"

#define DEFAULT_PORT 29500

/* Where launchers of fleets say who a process is. The first that is set wins. */
static const gchar *const rank_variables[] = { "RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                               "PMI_RANK", "SLURM_PROCID",         NULL };
static const gchar *const world_size_variables[] = { "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                                     "PMI_SIZE", "SLURM_NTASKS", NULL };

static void
default_to (gchar **value, const gchar *text)
{
  if (*value == NULL)
    *value = g_strdup (text);
}

/* What flags and environment left open. */
static void
fill_defaults (TpsBenchOptions *o)
{
  default_to (&o->master_addr, "127.0.0.1");
  default_to (&o->trainer, "DdpTrainer");
  default_to (&o->server, "AverageParameterServer");
  default_to (&o->backend, "gloo");
  default_to (&o->data, o->smoke ? "DummyDataSmall" : "DummyData");
  default_to (&o->model, o->smoke ? "DummyModelSmall" : "DummyModelSparse");
  default_to (&o->preprocess_data, "preprocess_dummy_data");
  default_to (&o->create_criterion, "cel");
  default_to (&o->create_ddp_model, "basic_ddp_model");
  default_to (&o->hook_state, "BasicHookState");
  default_to (&o->ddp_hook, "rpc_hook");
  default_to (&o->iteration_step, "basic_iteration_step");
  default_to (&o->reduce, "mean");
  default_to (&o->partition, "size");
  default_to (&o->peer_transport, "default");
  default_to (&o->transport, o->rank >= 0 && o->socket_dir == NULL ? "tcp" : "unix");
  if (o->master_port < 0)
    o->master_port = o->rank >= 0 ? DEFAULT_PORT : 0;
  if (o->repeats == 0)
    o->repeats = o->peer != NULL ? 5 : 1;
}

typedef struct
{
  gboolean list;
  gboolean version;
} TpsBenchFlags;

/* The tables are built for one set of options; GOption writes through their pointers. */
static GOptionContext *
make_context (TpsBenchOptions *o, TpsBenchFlags *flags)
{
  const GOptionEntry world[] = {
    { "ntrainer", 0, 0, G_OPTION_ARG_INT, &o->ntrainer, "CPU trainers (2)", "N" },
    { "ncudatrainer", 0, 0, G_OPTION_ARG_INT, &o->ncudatrainer, "CUDA trainers (0)", "N" },
    { "nserver", 0, 0, G_OPTION_ARG_INT, &o->nserver, "CPU servers (1)", "N" },
    { "ncudaserver", 0, 0, G_OPTION_ARG_INT, &o->ncudaserver, "CUDA servers (0)", "N" },
    { "trainer", 0, 0, G_OPTION_ARG_STRING, &o->trainer, "trainer class (DdpTrainer)", "NAME" },
    { "server", 0, 0, G_OPTION_ARG_STRING, &o->server, "server class (AverageParameterServer)",
      "NAME" },
    { "master-addr", 0, 0, G_OPTION_ARG_STRING, &o->master_addr, "host of the master (127.0.0.1)",
      "HOST" },
    { "master-port", 0, 0, G_OPTION_ARG_INT, &o->master_port,
      "port of the master (a free one; 29500 with --rank)", "PORT" },
    { "rank", 0, 0, G_OPTION_ARG_INT, &o->rank,
      "be this one role of the world instead of launching all (RANK, OMPI_COMM_WORLD_RANK, PMIX_RANK, "
      "PMI_RANK, SLURM_PROCID)",
      "N" },
    { "world-size", 0, 0, G_OPTION_ARG_INT, &o->world_size,
      "checked against the counts above plus one master (WORLD_SIZE, OMPI_COMM_WORLD_SIZE, PMI_SIZE, SLURM_NTASKS)",
      "N" },
    { "transport", 0, 0, G_OPTION_ARG_STRING, &o->transport, "unix or tcp (unix; tcp with --rank)",
      "KIND" },
    { "startup-timeout", 0, 0, G_OPTION_ARG_INT, &o->startup_timeout,
      "seconds that the roles wait for each other at the start (60)", "S" },
    { "filestore", 0, 0, G_OPTION_ARG_FILENAME, &o->filestore,
      "accepted for the original's sake; trainers meet through the master", "FILE" },
    { "socket-dir", 0, G_OPTION_FLAG_HIDDEN, G_OPTION_ARG_FILENAME, &o->socket_dir, NULL, NULL },
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
    { "seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of data and parameters (0)", "N" },
    { "torch-seed", 0, 0, G_OPTION_ARG_INT64, &o->torch_seed, "accepted; --seed counts", "N" },
    { "cuda-seed", 0, 0, G_OPTION_ARG_INT64, &o->cuda_seed, "accepted; --seed counts", "N" },
    { "ddp-hook", 0, 0, G_OPTION_ARG_STRING, &o->ddp_hook,
      "rpc_hook, sparse_rpc_hook, allreduce_hook or hybrid_hook (rpc_hook)", "NAME" },
    { "backend", 0, 0, G_OPTION_ARG_STRING, &o->backend,
      "process group: gloo, nccl or multi (gloo)", "NAME" },
    { "preprocess-data", 0, 0, G_OPTION_ARG_STRING, &o->preprocess_data, "(preprocess_dummy_data)",
      "NAME" },
    { "create-criterion", 0, 0, G_OPTION_ARG_STRING, &o->create_criterion, "loss (cel)", "NAME" },
    { "create-ddp-model", 0, 0, G_OPTION_ARG_STRING, &o->create_ddp_model, "(basic_ddp_model)",
      "NAME" },
    { "hook-state", 0, 0, G_OPTION_ARG_STRING, &o->hook_state, "(BasicHookState)", "NAME" },
    { "iteration-step", 0, 0, G_OPTION_ARG_STRING, &o->iteration_step, "(basic_iteration_step)",
      "NAME" },
    { "reduce", 0, 0, G_OPTION_ARG_STRING, &o->reduce,
      "mean, or sum as the originals really do (mean)", "KIND" },
    { "partition", 0, 0, G_OPTION_ARG_STRING, &o->partition,
      "size: a bucket has one owner among all servers; trainers: each server has its own trainers, as in "
      "the originals (size)",
      "KIND" },
    { "first-bucket-mib", 0, 0, G_OPTION_ARG_DOUBLE, &o->first_bucket_mib,
      "the first bucket closes after this many MiB (1)", "X" },
    { "bucket-cap-mib", 0, 0, G_OPTION_ARG_DOUBLE, &o->bucket_cap_mib,
      "later buckets close after this many MiB (25)", "X" },
    { "rpc-timeout", 0, 0, G_OPTION_ARG_INT, &o->rpc_timeout,
      "seconds that a gradient waits for the other trainers (30)", "S" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  const GOptionEntry output[] = {
    { "json", 0, 0, G_OPTION_ARG_FILENAME, &o->json, "write everything, raw samples included",
      "FILE" },
    { "csv", 0, 0, G_OPTION_ARG_FILENAME, &o->csv, "write the tables as CSV files into a folder",
      "DIR" },
    { "repeats", 0, 0, G_OPTION_ARG_INT, &o->repeats, "measured passes (1; 5 with --peer)", "N" },
    { "peer", 0, 0, G_OPTION_ARG_STRING, &o->peer,
      "run the same work on this peer, pass by pass in turn, and print the ratios: pytorch",
      "NAME" },
    { "peer-transport", 0, 0, G_OPTION_ARG_STRING, &o->peer_transport,
      "the peer's: default (shared memory where it can) or tcp (default)", "KIND" },
    { "smoke", 0, 0, G_OPTION_ARG_NONE, &o->smoke, "a small model and data, seconds in all", NULL },
    { "list", 0, 0, G_OPTION_ARG_NONE, &flags->list, "print all names that flags can take", NULL },
    { "version", 0, 0, G_OPTION_ARG_NONE, &flags->version, "print the version", NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context,
      "Trains a small model with T trainers whose gradients are averaged by S parameter servers, each a "
      "process of its own,\nand reports what every step cost. Without flags: 2 trainers, 1 server.\n"
      "Underscores may stand for dashes in the names of flags.");
  g_option_context_set_description (
      context, "Exit status: 0 done, 1 a role or a pass failed, 2 a bad flag, 130 interrupted.");
  g_option_context_add_main_entries (context, world, NULL);
  g_option_context_add_main_entries (context, work, NULL);
  g_option_context_add_main_entries (context, output, NULL);
  return context;
}

static gboolean
int_from_environment (const gchar *const *names, gint64 max, gint *value, GError **error)
{
  gint64 number;

  while (*names != NULL && g_getenv (*names) == NULL)
    names++;
  if (*names == NULL || *value >= 0)
    return TRUE;
  if (!g_ascii_string_to_signed (g_getenv (*names), 10, 0, max, &number, NULL))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "%s=%s in the environment: expected a number from 0 to %" G_GINT64_FORMAT,
                   *names, g_getenv (*names), max);
      return FALSE;
    }
  *value = (gint) number;
  return TRUE;
}

/* A world size of one says that nobody launched a world: every shell under such a launcher has
 * these variables. */
static gboolean
read_environment (TpsBenchOptions *options, GError **error)
{
  gint world_size = -1, rank = -1;
  const gchar *const port_variables[] = { "MASTER_PORT", NULL };

  if (options->rank < 0)
    {
      if (!int_from_environment (world_size_variables, G_MAXINT, &world_size, error)
          || !int_from_environment (rank_variables, G_MAXINT, &rank, error))
        return FALSE;
      if (world_size <= 1 || rank < 0)
        return TRUE;
      options->rank = rank;
      if (options->world_size < 0)
        options->world_size = world_size;
    }
  if (options->master_addr == NULL)
    options->master_addr = g_strdup (g_getenv ("MASTER_ADDR"));
  return int_from_environment (port_variables, 65535, &options->master_port, error);
}

static gboolean
bad (GError **error, const gchar *flag, const gchar *value, const gchar *expected)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--%s=%s: expected %s", flag, value,
               expected);
  return FALSE;
}

static gboolean
check_number (const gchar *flag, gint64 value, gint64 min, gint64 max, GError **error)
{
  if (value >= min && value <= max)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--%s=%" G_GINT64_FORMAT ": expected %" G_GINT64_FORMAT " to %" G_GINT64_FORMAT,
               flag, value, min, max);
  return FALSE;
}

static gboolean
check_word (const gchar *flag, const gchar *value, const gchar *a, const gchar *b, GError **error)
{
  g_autofree gchar *expected = b == NULL ? g_strdup (a) : g_strdup_printf ("%s or %s", a, b);

  return g_strcmp0 (value, a) == 0 || (b != NULL && g_strcmp0 (value, b) == 0)
         || bad (error, flag, value, expected);
}

static gboolean
check_world (const TpsBenchOptions *o, GError **error)
{
  gboolean needs_servers = g_str_equal (o->ddp_hook, "rpc_hook")
                           || g_str_equal (o->ddp_hook, "sparse_rpc_hook");
  guint world_size = tps_bench_options_get_world_size (o);

  if (o->ncudatrainer + o->ncudaserver > 0)
    {
      g_set_error (
          error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
          "--ncudatrainer/--ncudaserver: this build has no CUDA backend; use --ntrainer and --nserver");
      return FALSE;
    }
  if (o->ntrainer == 0)
    return bad (error, "ntrainer", "0", "at least one trainer");
  if (needs_servers && o->nserver == 0)
    {
      g_set_error (
          error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
          "--nserver=0: %s sends gradients to servers; use --nserver=1 or --ddp-hook=allreduce_hook",
          o->ddp_hook);
      return FALSE;
    }
  if (o->nserver > o->ntrainer && g_str_equal (o->partition, "trainers"))
    return bad (error, "partition", "trainers", "at most as many servers as trainers");
  if (o->world_size >= 0 && (guint) o->world_size != world_size)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "--world-size=%d: %d trainers, %d servers and one master make %u", o->world_size,
                   o->ntrainer, o->nserver, world_size);
      return FALSE;
    }
  return o->rank < 0 || check_number ("rank", o->rank, 0, (gint64) world_size - 1, error);
}

static gboolean
check (const TpsBenchOptions *o, GError **error)
{
  return check_number ("ntrainer", o->ntrainer, 0, 1024, error)
         && check_number ("nserver", o->nserver, 0, 1024, error)
         && check_number ("ncudatrainer", o->ncudatrainer, 0, 1024, error)
         && check_number ("ncudaserver", o->ncudaserver, 0, 1024, error)
         && check_number ("master-port", o->master_port, 0, 65535, error)
         && check_number ("rpc-timeout", o->rpc_timeout, 1, 86400, error)
         && check_number ("startup-timeout", o->startup_timeout, 1, 86400, error)
         && check_number ("epochs", o->epochs, 1, 1000000, error)
         && check_number ("batch-size", o->batch_size, 1, 1 << 20, error)
         && check_number ("repeats", o->repeats, 1, 1000, error)
         && check_word ("transport", o->transport, "unix", "tcp", error)
         && check_word ("reduce", o->reduce, "mean", "sum", error)
         && check_word ("partition", o->partition, "size", "trainers", error)
         && check_word ("peer-transport", o->peer_transport, "default", "tcp", error)
         && (o->peer == NULL || check_word ("peer", o->peer, "pytorch", NULL, error))
         && (o->first_bucket_mib > 0 || bad (error, "first-bucket-mib", "0 or less", "more than 0"))
         && (o->bucket_cap_mib > 0 || bad (error, "bucket-cap-mib", "0 or less", "more than 0"))
         && check_world (o, error);
}

/* `bazel run` starts programs in a folder of its own and says where the user stood. */
static void
resolve_path (gchar **path)
{
  const gchar *stood_in = g_getenv ("BUILD_WORKING_DIRECTORY");
  gchar *resolved;

  if (*path == NULL || stood_in == NULL || g_path_is_absolute (*path))
    return;
  resolved = g_build_filename (stood_in, *path, NULL);
  g_free (*path);
  *path = resolved;
}

static void
resolve_paths (TpsBenchOptions *o)
{
  resolve_path (&o->data_config_path);
  resolve_path (&o->model_config_path);
  resolve_path (&o->server_config_path);
  resolve_path (&o->trainer_config_path);
  resolve_path (&o->filestore);
  resolve_path (&o->json);
  resolve_path (&o->csv);
}

/* "--batch_size=4" -> "--batch-size=4"; values keep their underscores. */
static gchar **
with_dashes (gint argc, gchar **argv)
{
  gchar **copy = g_new0 (gchar *, (gsize) argc + 1);

  for (gint i = 0; i < argc; i++)
    {
      copy[i] = g_strdup (argv[i]);
      if (i > 0 && g_str_has_prefix (copy[i], "--"))
        for (gchar *at = copy[i] + 2; *at != '\0' && *at != '='; at++)
          if (*at == '_')
            *at = '-';
    }
  return copy;
}

TpsBenchVerdict
tps_bench_options_parse (TpsBenchOptions *options, gint argc, gchar **argv, GError **error)
{
  g_autoptr (GOptionContext) context = NULL;
  g_auto (GStrv) arguments = with_dashes (argc, argv);
  g_auto (GStrv) rest = g_strdupv (arguments);
  g_autoptr (GError) local = NULL;
  TpsBenchFlags flags = { 0 };

  *options = (TpsBenchOptions) { .ntrainer = 2,
                                 .nserver = 1,
                                 .rpc_timeout = 30,
                                 .startup_timeout = 60,
                                 .epochs = 1,
                                 .batch_size = 32,
                                 .first_bucket_mib = 1,
                                 .bucket_cap_mib = 25,
                                 .master_port = -1,
                                 .rank = -1,
                                 .world_size = -1 };
  options->given = g_strdupv (arguments);
  context = make_context (options, &flags);
  if (!g_option_context_parse_strv (context, &rest, &local))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "%s (see --help)", local->message);
      return TPS_BENCH_BAD;
    }
  if (flags.list || flags.version)
    {
      tps_bench_print_list (flags.version);
      return TPS_BENCH_DONE;
    }
  if (g_strv_length (rest) > 1)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                   "unexpected argument \"%s\" (see --help)", rest[1]);
      return TPS_BENCH_BAD;
    }
  if (!read_environment (options, error))
    return TPS_BENCH_BAD;
  fill_defaults (options);
  resolve_paths (options);
  return check (options, error) ? TPS_BENCH_RUN : TPS_BENCH_BAD;
}

void
tps_bench_options_clear (TpsBenchOptions *o)
{
  gchar **const strings[] = {
    &o->master_addr,
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
    &o->partition,
    &o->transport,
    &o->json,
    &o->csv,
    &o->peer,
    &o->peer_transport,
    &o->socket_dir,
  };

  for (guint i = 0; i < G_N_ELEMENTS (strings); i++)
    g_clear_pointer (strings[i], g_free);
  g_clear_pointer (&o->given, g_strfreev);
}

guint
tps_bench_options_get_world_size (const TpsBenchOptions *options)
{
  return (guint) (options->ntrainer + options->ncudatrainer + options->nserver
                  + options->ncudaserver + 1);
}

static void
add_text (GPtrArray *lines, const gchar *name, const gchar *value)
{
  g_ptr_array_add (lines, g_strdup_printf ("%s=%s", name, value != NULL ? value : ""));
}

static void
add_number (GPtrArray *lines, const gchar *name, gdouble value)
{
  g_ptr_array_add (lines, g_strdup_printf ("%s=%.15g", name, value));
}

GPtrArray *
tps_bench_options_describe (const TpsBenchOptions *o)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);

  add_number (lines, "ntrainer", o->ntrainer);
  add_number (lines, "ncudatrainer", o->ncudatrainer);
  add_number (lines, "nserver", o->nserver);
  add_number (lines, "ncudaserver", o->ncudaserver);
  add_text (lines, "trainer", o->trainer);
  add_text (lines, "server", o->server);
  add_text (lines, "master-addr", o->master_addr);
  add_number (lines, "master-port", o->master_port);
  add_text (lines, "transport", o->transport);
  add_text (lines, "data", o->data);
  add_text (lines, "model", o->model);
  add_number (lines, "epochs", o->epochs);
  add_number (lines, "batch-size", o->batch_size);
  add_number (lines, "seed", (gdouble) o->seed);
  add_text (lines, "ddp-hook", o->ddp_hook);
  add_text (lines, "backend", o->backend);
  add_text (lines, "preprocess-data", o->preprocess_data);
  add_text (lines, "create-criterion", o->create_criterion);
  add_text (lines, "create-ddp-model", o->create_ddp_model);
  add_text (lines, "hook-state", o->hook_state);
  add_text (lines, "iteration-step", o->iteration_step);
  add_text (lines, "reduce", o->reduce);
  add_text (lines, "partition", o->partition);
  add_number (lines, "first-bucket-mib", o->first_bucket_mib);
  add_number (lines, "bucket-cap-mib", o->bucket_cap_mib);
  add_number (lines, "rpc-timeout", o->rpc_timeout);
  add_number (lines, "startup-timeout", o->startup_timeout);
  add_number (lines, "repeats", o->repeats);
  return lines;
}

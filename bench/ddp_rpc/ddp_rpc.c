/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The benchmark ddp_rpc: starts trainers, parameter servers with embedding tables, and a master; or
 * runs as one of these roles. */

#include <stdio.h>
#include <string.h>

#include "bench/ddp_rpc/epoch_report.h"
#include "bench/process/flags.h"
#include "bench/process/runfiles.h"
#include "bench/report/report.h"
#include "bench/world/program.h"
#include "bench/world/world.h"
#include "plugin/client/stubs.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/tensor/optimizer.h"
#include "runtime/trainer/ddp_rpc/bag_batches.h"
#include "runtime/trainer/ddp_rpc/ddp_rpc_trainer.h"
#include "runtime/trainer/pass/device_choice.h"

#define NAME "ddp_rpc"
#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)
/* the timeout of creating a table: a large table is filled row by row */
#define FILL_NS (600 * SECOND_NS)

/* The fields have the names of their flags. Strings are owned. */
typedef struct
{
  TpsRunFlags run;
  TpsWorld world;

  gint number_trainers;
  gint number_ps;
  gint64 number_embeddings;
  gint64 embedding_dim;
  gint warmup_cycles;
  gint epochs;
  gint batches;
  gint64 seed;
  gchar *optimizer;
  gdouble lr;
  gchar *task;
  gboolean sequential_lookups;
  gboolean host_lookups;
  gboolean growth;
  gchar *trainer_device;
  gchar *table_device;

  TpsOptimizerSpec table_optimizer; /* from --optimizer and --lr */
} Options;

#define FIELD(name) G_STRUCT_OFFSET (Options, name)

static const TpsFlag of_the_original[] = {
  { "number-trainers", G_OPTION_ARG_INT, FIELD (number_trainers), "trainers (8)", "N",
    TPS_FLAGS_NOT_GIVEN, 1, 1024 },
  { "number-ps", G_OPTION_ARG_INT, FIELD (number_ps),
    "parameter servers, each with one embedding table (8)", "N", TPS_FLAGS_NOT_GIVEN, 1, 1024 },
  { "number-embeddings", G_OPTION_ARG_INT64, FIELD (number_embeddings), "rows of each table (300)",
    "N", 300, 1, G_GINT64_CONSTANT (1) << 40 },
  { "embedding-dim", G_OPTION_ARG_INT64, FIELD (embedding_dim),
    "columns of each table (64); times the number of servers: a multiple of 512", "N",
    TPS_FLAGS_NOT_GIVEN, 1, 1 << 20 },
  { "warmup-cycles", G_OPTION_ARG_INT, FIELD (warmup_cycles),
    "warm-up epochs before the measured ones (5)", "N", TPS_FLAGS_NOT_GIVEN, 0, 1000000 },
  { NULL },
};

static const TpsFlag of_ours[] = {
  { "epochs", G_OPTION_ARG_INT, FIELD (epochs), "measured epochs of a pass (100)", "N",
    TPS_FLAGS_NOT_GIVEN, 1, 1000000 },
  { "batches", G_OPTION_ARG_INT, FIELD (batches), "batches of an epoch and trainer (10)", "N", 10,
    1, 1000000 },
  { "seed", G_OPTION_ARG_INT64, FIELD (seed), "of data, tables and parameters (0)", "N" },
  { "task", G_OPTION_ARG_STRING, FIELD (task),
    "random, as the original; or learnable: the class of a bag follows from its ids, loss falls to 0 "
    "(random)",
    "NAME", .text = "random" },
  { "optimizer", G_OPTION_ARG_STRING, FIELD (optimizer),
    "of the tables: sgd, adagrad, rowwise-adagrad, adam or ftrl (sgd); the dense layers' is SGD",
    "NAME", .text = "sgd" },
  { "lr", G_OPTION_ARG_DOUBLE, FIELD (lr), "learning rate of tables and layers (0.05)", "X", 0.05 },
  { "sequential-lookups", G_OPTION_ARG_NONE, FIELD (sequential_lookups),
    "look up one table after another, as the original does, to show the effect of concurrency" },
  { "trainer-device", G_OPTION_ARG_STRING, FIELD (trainer_device),
    "device of the dense layers: cpu, cuda (in turn, if there are several) or cuda:N (cpu)",
    "DEVICE", .text = "cpu" },
  { "table-device", G_OPTION_ARG_STRING, FIELD (table_device),
    "device of lookups and updates: cpu, cuda or cuda:N; with the suffix /host the rows are in host "
    "memory (cpu)",
    "DEVICE", .text = "cpu" },
  { "host-lookups", G_OPTION_ARG_NONE, FIELD (host_lookups),
    "results of lookups pass through host memory even if a trainer uses the same GPU as a table, to "
    "show the effect of results that stay on the GPU (64 KiB and more do)" },
  { "growth", G_OPTION_ARG_NONE, FIELD (growth),
    "one pass for each table size of 10,000, 100,000, 1,000,000 and 4,000,000 rows that fits into "
    "memory" },
  { "peer", G_OPTION_ARG_STRING, FIELD (run.peer),
    "run the same work on this peer, pass by pass in turn, and print the ratios: pytorch, whose "
    "table gradients are dense; pytorch-sparse; both",
    "NAME", .words = "pytorch pytorch-sparse both", .is_silent = TRUE },
  { NULL },
};

static const TpsCommandLine command_line = {
  "ddp_rpc",
  "Trains a model with T trainers whose dense layers are averaged by all-reduce, and whose embeddings "
  "lie in tables\non P parameter servers, each a process of its own; reports how long epochs took, and "
  "samples per second.\nWithout flags: 8 trainers, 8 servers. Names of flags may have underscores "
  "instead of dashes.",
  { { of_the_original, 0 },
    { tps_world_flags, FIELD (world) },
    { of_ours, 0 },
    { tps_run_flags, FIELD (run) } },
};

static void
fill_defaults (Options *o)
{
  gboolean smoke = o->run.smoke;

  tps_flags_default_number (&o->number_trainers, smoke ? 2 : 8);
  tps_flags_default_number (&o->number_ps, smoke ? 2 : 8);
  tps_flags_default_number (&o->warmup_cycles, smoke ? 1 : 5);
  tps_flags_default_number (&o->epochs, smoke ? 5 : 100);
  tps_flags_default_number (&o->run.repeats, o->run.peer != NULL ? 5 : 1);
  if (o->embedding_dim == TPS_FLAGS_NOT_GIVEN)
    o->embedding_dim = smoke ? 256 : 64;
}

/* Sets the error of a value, with the name of its flag. Takes over `cause`. Returns FALSE. */
static gboolean
prefix_flag (const gchar *flag, const gchar *value, GError *cause, GError **error)
{
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--%s=%s: %s", flag, value,
               cause->message);
  g_error_free (cause);
  return FALSE;
}

static gboolean
check_names (Options *o, GError **error)
{
  GError *cause = NULL;
  TpsOptimizerKind kind;
  TpsBagTask task;

  if (!tps_bag_task_find (o->task, &task, &cause))
    return prefix_flag ("task", o->task, cause, error);
  if (!tps_optimizer_kind_find (o->optimizer, &kind, &cause))
    return prefix_flag ("optimizer", o->optimizer, cause, error);
  o->table_optimizer = tps_optimizer_spec (kind, o->lr);
  return TRUE;
}

/* -- devices: each process chooses its device for "cuda" -- */

#define ON_HOST "/host"

/* Chooses the place of this server's tables. Errors: INVALID_ARGUMENT (the CPU with the suffix
 * /host). */
static gboolean
choose_table_place (const Options *o, TpsTablePlace *place, GError **error)
{
  gboolean is_on_host = g_str_has_suffix (o->table_device, ON_HOST);
  gsize n_bytes = strlen (o->table_device) - (is_on_host ? strlen (ON_HOST) : 0);
  g_autofree gchar *name = g_strndup (o->table_device, n_bytes);
  TpsDevice *found = tps_device_choose (name, tps_world_get_local_rank (&o->world), error);

  if (found == NULL)
    return FALSE;
  *place = (TpsTablePlace) { .is_host_memory = is_on_host };
  g_strlcpy (place->device, found->name, sizeof place->device);
  if (!is_on_host || !found->is_host)
    return TRUE;
  g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
                       "expected a device other than the CPU before " ON_HOST);
  return FALSE;
}

/* Returns TRUE if this process runs such a role. All roles of a launcher run on its host. */
static gboolean
is_here (const Options *o, TpsWorldKind kind)
{
  return o->world.rank < 0 || tps_world_get_kind (&o->world, (guint) o->world.rank) == kind;
}

/* Checks the devices. Loads a driver only if a role of this process needs it. */
static gboolean
check_devices (const Options *o, GError **error)
{
  TpsTablePlace place;

  if (is_here (o, TPS_WORLD_TRAINER) && tps_device_choose (o->trainer_device, 0, error) == NULL)
    {
      g_prefix_error (error, "--trainer-device=%s: ", o->trainer_device);
      return FALSE;
    }
  if (is_here (o, TPS_WORLD_SERVER) && !choose_table_place (o, &place, error))
    {
      g_prefix_error (error, "--table-device=%s: ", o->table_device);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_shape (const Options *o, GError **error)
{
  GError *cause = NULL;
  gint64 rows_per_bag;

  if (tps_ddp_rpc_check_shape (o->number_ps, o->embedding_dim, &rows_per_bag, &cause))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "--number-ps=%d --embedding-dim=%" G_GINT64_FORMAT ": %s", o->number_ps,
               o->embedding_dim, cause->message);
  g_error_free (cause);
  return FALSE;
}

/* Checks that a peer supports the options: peers support only those of the original. */
static gboolean
check_peer (const Options *o, GError **error)
{
  if (o->run.peer == NULL)
    return TRUE;
  if (!g_str_equal (o->task, "random"))
    return tps_flags_refuse ("task", o->task, "random with --peer", error);
  if (!g_str_equal (o->trainer_device, "cpu") || !g_str_equal (o->table_device, "cpu"))
    {
      g_set_error (
          error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
          "--trainer-device=%s --table-device=%s: expected cpu with --peer, which supports only "
          "the CPU",
          o->trainer_device, o->table_device);
      return FALSE;
    }
  return o->table_optimizer.kind == TPS_OPTIMIZER_SGD
         || tps_flags_refuse ("optimizer", o->optimizer, "sgd with --peer", error);
}

/* Checks the options of --growth, which makes one pass for each size. */
static gboolean
check_growth (const Options *o, GError **error)
{
  if (!o->growth)
    return TRUE;
  if (o->run.peer != NULL)
    return tps_flags_refuse ("peer", o->run.peer, "no peer with --growth", error);
  return tps_flags_check_number ("repeats", o->run.repeats, 1, 1, error);
}

/* Parses `argv` and the environment. INVALID_ARGUMENT. */
static gboolean
parse (Options *o, gint argc, gchar **argv, GError **error)
{
  TpsWorld *world = &o->world;

  tps_world_init (world, "ddp_rpc", "ps");
  world->counts_servers = TRUE;
  if (!tps_command_line_parse (&command_line, o, argc, argv, &world->given, error)
      || !tps_world_read_environment (world, error))
    return FALSE;
  fill_defaults (o);
  if (!check_names (o, error) || !check_shape (o, error) || !check_peer (o, error)
      || !check_growth (o, error))
    return FALSE;
  world->n_trainers = (guint) o->number_trainers;
  world->n_servers = (guint) o->number_ps;
  return tps_world_finish_flags (world, error) && check_devices (o, error);
}

typedef struct
{
  Options options;
  TpsGrowth growth; /* with --growth */
  guint n_passes;   /* passes that have begun, with the warm-up */
} Work;

/* Returns the number of rows of each table in the current pass. */
static gint64
get_rows (const Work *work)
{
  const Options *o = &work->options;
  guint pass = work->n_passes - (o->warmup_cycles > 0 ? 1 : 0); /* 1 = the first measured pass */

  return o->growth ? g_array_index (work->growth.rows, gint64, MAX (pass, 1) - 1)
                   : o->number_embeddings;
}

/* -- servers: one table each, kept between passes as in the original, except with --growth -- */

static gboolean
fill_server (gpointer user_data, G_GNUC_UNUSED guint server, TpsPluginOptions *options,
             GError **error)
{
  const Options *o = &((Work *) user_data)->options;
  TpsTablePlace place;
  g_autofree gchar *name = NULL;

  if (!choose_table_place (o, &place, error))
    return FALSE;
  name = tps_table_place_to_string (&place);
  options->table_device = g_intern_string (name);
  return TRUE;
}

/* Creates the table of a server. Servers have different seeds, and therefore different rows. */
static gboolean
create_table (const Work *work, TpsClient *client, guint server, GError **error)
{
  const Options *o = &work->options;
  g_autofree gchar *name = g_strdup_printf ("emb%u", server);
  g_auto (TpsTableSpec) spec = { 0 };

  if (o->growth && work->n_passes > 1
      && !tps_remote_drop_table (client, name, tps_clock_now_ns () + CALL_NS, error))
    return FALSE;
  tps_table_spec_init (&spec, name, get_rows (work), (gint32) o->embedding_dim);
  spec.initializer.seed = o->seed * (G_GINT64_CONSTANT (1) << 20) + server;
  spec.optimizer = o->table_optimizer;
  return tps_table_spec_resolve (&spec, error)
         && tps_remote_create_table (client, &spec, tps_clock_now_ns () + FILL_NS, error);
}

static gboolean
prepare_server (gpointer user_data, TpsClient *client, guint server, GError **error)
{
  Work *work = user_data;

  if (server == 0)
    work->n_passes++;
  return tps_remote_clear_metrics (client, tps_clock_now_ns () + CALL_NS, error)
         && create_table (work, client, server, error);
}

/* -- trainers -- */

static GVariant *
make_trainer_config (const Work *work, gboolean is_warm_up)
{
  const Options *o = &work->options;
  GVariantDict dict;
  g_autoptr (GString) tables = g_string_new (NULL);

  for (gint server = 0; server < o->number_ps; server++)
    g_string_append_printf (tables, "%semb%d", server > 0 ? "," : "", server);
  g_variant_dict_init (&dict, NULL);
  g_variant_dict_insert (&dict, "tables", "s", tables->str);
  g_variant_dict_insert (&dict, "num_embeddings", "x", get_rows (work));
  g_variant_dict_insert (&dict, "embedding_dim", "x", o->embedding_dim);
  g_variant_dict_insert (&dict, "task", "s", o->task);
  g_variant_dict_insert (&dict, "sequential_lookups", "b", o->sequential_lookups);
  g_variant_dict_insert (&dict, "host_lookups", "b", o->host_lookups);
  g_variant_dict_insert (&dict, "first_epoch", "x",
                         is_warm_up ? G_GINT64_CONSTANT (0) : (gint64) o->warmup_cycles);
  return g_variant_ref_sink (g_variant_dict_end (&dict));
}

static TpsTrainPlan *
make_plan (gpointer user_data, G_GNUC_UNUSED guint trainer, gboolean is_warm_up,
           G_GNUC_UNUSED GError **error)
{
  const Work *work = user_data;
  const Options *o = &work->options;
  TpsTrainPlan *plan = tps_train_plan_new ();

  tps_plan_set (&plan->model_class, "HybridModel");
  tps_plan_set (&plan->trainer, "DdpRpcTrainer");
  tps_plan_set (&plan->device, work->options.trainer_device);
  g_clear_pointer (&plan->trainer_config, g_variant_unref);
  plan->trainer_config = make_trainer_config (work, is_warm_up);
  plan->steps_per_epoch = (guint) o->batches;
  plan->epochs = (guint) (is_warm_up ? o->warmup_cycles : o->epochs);
  plan->seed = o->seed;
  plan->learning_rate = o->lr;
  return plan;
}

/* -- the program -- */

static gboolean
load (gpointer user_data, G_GNUC_UNUSED GError **error)
{
  Work *work = user_data;
  Options *o = &work->options;

  if (!o->growth)
    return TRUE;
  tps_growth_init (&work->growth, (gsize) o->number_ps * (gsize) o->embedding_dim * sizeof (gfloat),
                   tps_bench_get_available_bytes ());
  o->run.repeats = (gint) work->growth.rows->len;
  return TRUE;
}

static void
print_head (G_GNUC_UNUSED gpointer user_data)
{
  printf ("-------------------------------------------\n"
          "                  Info                     \n"
          "-------------------------------------------\n\n"
          "* ThriftPS version: %s\n\n"
          "-------------------------------------------\n"
          "ThriftPS Distributed Benchmark (DDP and RPC)\n"
          "-------------------------------------------\n",
          TPS_VERSION);
}

#define PEER_FLAGS                                                                               \
  "number-trainers number-ps number-embeddings embedding-dim warmup-cycles epochs batches seed " \
  "rpc-timeout lr"

static const TpsPeerKind peer_kinds[] = {
  { "pytorch", "PyTorch", "bench/peers/pytorch_ddp_rpc.py", PEER_FLAGS },
  { "pytorch-sparse", "PyTorch sparse", "bench/peers/pytorch_ddp_rpc.py", PEER_FLAGS, "--sparse" },
  { NULL },
};

static void
print_report (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers)
{
  const Work *work = user_data;
  g_autofree gchar *rates = tps_epoch_report_format_rates (ours);
  g_autofree gchar *outcome = tps_bench_report_format_outcome (ours);
  g_autofree gchar *ratios = NULL;

  printf ("\n%s\n%s", rates, outcome);
  if (work->options.growth)
    {
      g_autofree gchar *growth = tps_growth_format (&work->growth, ours);

      printf ("\n%s", growth);
    }
  if (peers->len == 0)
    return;
  ratios = tps_epoch_report_format_ratios (ours, peers);
  printf ("\nmedians of %d passes in turn\n%s%s", work->options.run.repeats, ratios,
          tps_bench_describe_python ());
}

static void
add_output (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output)
{
  const Work *work = user_data;

  tps_epoch_report_add_output (ours, peers, output);
  if (work->options.growth)
    tps_growth_add_output (&work->growth, ours, output);
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  Work work = { 0 };
  Options *o = &work.options;
  TpsProgram program = {
    .fill_server = fill_server,
    .work = { .make_plan = make_plan, .prepare_server = prepare_server, .parameters_agree = TRUE },
    .load = load,
    .command_line = &command_line,
    .print_head = print_head,
    .peers = peer_kinds,
    .print_report = print_report,
    .add_output = add_output,
  };
  gint status;

  tps_benchmark_init ();
  if (parse (o, argc, argv, &error))
    {
      program.no_warm_up = o->warmup_cycles == 0;
      status = tps_program_run (&program, &o->world, &o->run, &work);
    }
  else
    status = tps_benchmark_refuse (NAME, error);
  tps_growth_clear (&work.growth);
  tps_command_line_clear (&command_line, o);
  g_clear_pointer (&o->world.given, g_strfreev);
  return status;
}

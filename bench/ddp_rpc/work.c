/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/ddp_rpc/work.h"

#include <stdio.h>

#include "bench/ddp_rpc/epoch_report.h"
#include "bench/process/python.h"
#include "bench/report/report.h"
#include "plugin/client/stubs.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/base/sync.h"
#include "runtime/base/error.h"

#define SECOND_NS G_GINT64_CONSTANT (1000000000)
#define CALL_NS (30 * SECOND_NS)
/* the timeout of creating a table: a large table is filled row by row */
#define FILL_NS (600 * SECOND_NS)

void
tps_ddp_rpc_work_clear (TpsDdpRpcWork *work)
{
  tps_growth_clear (&work->growth);
  tps_ddp_rpc_options_clear (&work->options);
}

/* Returns the number of rows of each table in the current pass. */
static gint64
get_rows (const TpsDdpRpcWork *work)
{
  const TpsDdpRpcOptions *o = &work->options;
  guint pass = work->n_passes - (o->warmup_cycles > 0 ? 1 : 0); /* 1 = the first measured pass */

  return o->growth ? g_array_index (work->growth.rows, gint64, MAX (pass, 1) - 1)
                   : o->number_embeddings;
}

/* -- servers: one table each, kept between passes as in the original, except with --growth -- */

static gboolean
fill_server (gpointer user_data, G_GNUC_UNUSED guint server, TpsPluginOptions *options,
             GError **error)
{
  const TpsDdpRpcOptions *o = &((TpsDdpRpcWork *) user_data)->options;

  return tps_ddp_rpc_options_choose_table_place (o, &options->table_place, error);
}

/* Creates the table of a server. Each server has its own seed, so its table is another function of
 * the ids. */
static gboolean
create_table (const TpsDdpRpcWork *work, TpsClient *client, guint server, GError **error)
{
  const TpsDdpRpcOptions *o = &work->options;
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
  TpsDdpRpcWork *work = user_data;

  if (server == 0)
    work->n_passes++;
  return tps_remote_clear_metrics (client, tps_clock_now_ns () + CALL_NS, error)
         && create_table (work, client, server, error);
}

/* -- trainers -- */

static void
set (gchar **field, const gchar *value)
{
  g_free (*field);
  *field = g_strdup (value);
}

static GVariant *
make_trainer_config (const TpsDdpRpcWork *work, gboolean is_warm_up)
{
  const TpsDdpRpcOptions *o = &work->options;
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
  const TpsDdpRpcWork *work = user_data;
  const TpsDdpRpcOptions *o = &work->options;
  TpsTrainPlan *plan = tps_train_plan_new ();

  set (&plan->model_class, "HybridModel");
  set (&plan->trainer, "DdpRpcTrainer");
  set (&plan->device, work->options.trainer_device);
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
  TpsDdpRpcWork *work = user_data;
  TpsDdpRpcOptions *o = &work->options;

  if (!o->growth)
    return TRUE;
  tps_growth_init (&work->growth, (gsize) o->number_ps * (gsize) o->embedding_dim * sizeof (gfloat),
                   tps_growth_get_available_bytes ());
  o->run.repeats = (gint) work->growth.rows->len;
  return TRUE;
}

static GPtrArray *
describe (gpointer user_data)
{
  return tps_ddp_rpc_options_describe (&((TpsDdpRpcWork *) user_data)->options);
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

static gchar **
make_peer_arguments (const TpsDdpRpcOptions *o, gboolean is_sparse)
{
  g_autoptr (GStrvBuilder) argv = g_strv_builder_new ();
  g_autofree gchar *lr = g_strdup_printf ("%.17g", o->lr);
  const struct
  {
    const gchar *flag;
    gint64 value;
  } numbers[] = {
    { "--number-trainers", o->number_trainers },
    { "--number-ps", o->number_ps },
    { "--number-embeddings", o->number_embeddings },
    { "--embedding-dim", o->embedding_dim },
    { "--warmup-cycles", o->warmup_cycles },
    { "--epochs", o->epochs },
    { "--batches", o->batches },
    { "--seed", o->seed },
    { "--rpc-timeout", o->world.rpc_timeout },
  };

  for (guint i = 0; i < G_N_ELEMENTS (numbers); i++)
    {
      g_autofree gchar *value = g_strdup_printf ("%" G_GINT64_FORMAT, numbers[i].value);

      g_strv_builder_add_many (argv, numbers[i].flag, value, NULL);
    }
  g_strv_builder_add_many (argv, "--lr", lr, is_sparse ? "--sparse" : NULL, NULL);
  return g_strv_builder_end (argv);
}

static gboolean
start_peer (const TpsDdpRpcOptions *o, TpsSupervisor *supervisor, gboolean is_sparse,
            GPtrArray *peers, GError **error)
{
  g_auto (GStrv) arguments = make_peer_arguments (o, is_sparse);
  TpsPeer *peer = tps_peer_start (supervisor, is_sparse ? "pytorch-sparse" : "pytorch",
                                  is_sparse ? "PyTorch sparse" : "PyTorch",
                                  "bench/peers/pytorch_ddp_rpc.py", arguments, error);

  if (peer == NULL)
    return FALSE;
  g_ptr_array_add (peers, peer);
  return TRUE;
}

static gboolean
start_peers (gpointer user_data, TpsSupervisor *supervisor, GPtrArray *peers, GError **error)
{
  const TpsDdpRpcOptions *o = &((TpsDdpRpcWork *) user_data)->options;
  const gchar *peer = o->run.peer;

  if (peer == NULL)
    return TRUE;
  if (!g_str_equal (peer, "pytorch-sparse") && !start_peer (o, supervisor, FALSE, peers, error))
    return FALSE;
  return g_str_equal (peer, "pytorch") || start_peer (o, supervisor, TRUE, peers, error);
}

static void
print_report (gpointer user_data, TpsBenchResults *ours, GPtrArray *peers)
{
  const TpsDdpRpcWork *work = user_data;
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
  const TpsDdpRpcWork *work = user_data;

  tps_epoch_report_add_output (ours, peers, output);
  if (work->options.growth)
    tps_growth_add_output (&work->growth, ours, output);
}

TpsProgram
tps_ddp_rpc_get_program (const TpsDdpRpcWork *work)
{
  return (TpsProgram) {
    .fill_server = fill_server,
    .work = { .make_plan = make_plan, .prepare_server = prepare_server, .parameters_agree = TRUE },
    .no_warm_up = work->options.warmup_cycles == 0,
    .load = load,
    .describe = describe,
    .print_head = print_head,
    .start_peers = start_peers,
    .print_report = print_report,
    .add_output = add_output,
  };
}

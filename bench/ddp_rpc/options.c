/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/ddp_rpc/options.h"

#include <stdio.h>
#include <string.h>

#include "runtime/trainer/pass/device_choice.h"
#include "runtime/trainer/ddp_rpc/bag_batches.h"
#include "runtime/trainer/ddp_rpc/ddp_rpc_trainer.h"
#include "runtime/base/error.h"

/* Makes the tables of flags, which belong to one set of options: GOption writes through their
 * pointers. */
static GOptionContext *
make_context (TpsDdpRpcOptions *o)
{
  const GOptionEntry of_the_original[] = {
    { "number-trainers", 0, 0, G_OPTION_ARG_INT, &o->number_trainers, "trainers (8)", "N" },
    { "number-ps", 0, 0, G_OPTION_ARG_INT, &o->number_ps,
      "parameter servers, each with one embedding table (8)", "N" },
    { "number-embeddings", 0, 0, G_OPTION_ARG_INT64, &o->number_embeddings,
      "rows of each table (300)", "N" },
    { "embedding-dim", 0, 0, G_OPTION_ARG_INT64, &o->embedding_dim,
      "columns of each table (64); times the number of servers: a multiple of 512", "N" },
    { "warmup-cycles", 0, 0, G_OPTION_ARG_INT, &o->warmup_cycles,
      "warm-up epochs before the measured ones (5)", "N" },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  const GOptionEntry work[] = {
    { "epochs", 0, 0, G_OPTION_ARG_INT, &o->epochs, "measured epochs of a pass (100)", "N" },
    { "batches", 0, 0, G_OPTION_ARG_INT, &o->batches, "batches of an epoch and trainer (10)", "N" },
    { "seed", 0, 0, G_OPTION_ARG_INT64, &o->seed, "of data, tables and parameters (0)", "N" },
    { "task", 0, 0, G_OPTION_ARG_STRING, &o->task,
      "random, as the original; or learnable: the class of a bag follows from its ids, loss falls to 0 (random)",
      "NAME" },
    { "optimizer", 0, 0, G_OPTION_ARG_STRING, &o->optimizer,
      "of the tables: sgd, adagrad, rowwise-adagrad, adam or ftrl (sgd); the dense layers' is SGD",
      "NAME" },
    { "lr", 0, 0, G_OPTION_ARG_DOUBLE, &o->lr, "learning rate of tables and layers (0.05)", "X" },
    { "sequential-lookups", 0, 0, G_OPTION_ARG_NONE, &o->sequential_lookups,
      "look up one table after another, as the original does, to show the effect of concurrency",
      NULL },
    { "trainer-device", 0, 0, G_OPTION_ARG_STRING, &o->trainer_device,
      "device of the dense layers: cpu, cuda (in turn, if there are several) or cuda:N (cpu)",
      "DEVICE" },
    { "table-device", 0, 0, G_OPTION_ARG_STRING, &o->table_device,
      "device of lookups and updates: cpu, cuda or cuda:N; with the suffix /host the rows are in "
      "host memory (cpu)",
      "DEVICE" },
    { "host-lookups", 0, 0, G_OPTION_ARG_NONE, &o->host_lookups,
      "results of lookups pass through host memory even if a trainer uses the same GPU as a table, "
      "to show the effect of results that stay on the GPU (64 KiB and more do)",
      NULL },
    { "growth", 0, 0, G_OPTION_ARG_NONE, &o->growth,
      "one pass for each table size of 10,000, 100,000, 1,000,000 and 4,000,000 rows that fits "
      "into memory",
      NULL },
    { NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL },
  };
  GOptionContext *context = g_option_context_new (NULL);

  g_option_context_set_summary (
      context,
      "Trains a model with T trainers whose dense layers are averaged by all-reduce, and whose embeddings lie in tables\n"
      "on P parameter servers, each a process of its own; reports how long epochs took, and samples per second.\n"
      "Without flags: 8 trainers, 8 servers. Names of flags may have underscores instead of "
      "dashes.");
  g_option_context_set_description (context, TPS_FLAGS_EXIT_STATUS);
  g_option_context_add_main_entries (context, of_the_original, NULL);
  tps_world_add_flags (context, &o->world);
  g_option_context_add_main_entries (context, work, NULL);
  tps_run_flags_add (
      context, &o->run,
      "run the same work on this peer, pass by pass in turn, and print the ratios: pytorch, whose "
      "table gradients are dense; pytorch-sparse; both");
  return context;
}

static void
default_to (gint *value, gint number)
{
  if (*value == TPS_FLAGS_NOT_GIVEN)
    *value = number;
}

static void
fill_defaults (TpsDdpRpcOptions *o)
{
  gboolean smoke = o->run.smoke;

  default_to (&o->number_trainers, smoke ? 2 : 8);
  default_to (&o->number_ps, smoke ? 2 : 8);
  default_to (&o->warmup_cycles, smoke ? 1 : 5);
  default_to (&o->epochs, smoke ? 5 : 100);
  if (o->embedding_dim == TPS_FLAGS_NOT_GIVEN)
    o->embedding_dim = smoke ? 256 : 64;
  tps_flags_default_to (&o->task, "random");
  tps_flags_default_to (&o->optimizer, "sgd");
  tps_flags_default_to (&o->trainer_device, "cpu");
  tps_flags_default_to (&o->table_device, "cpu");
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
check_names (TpsDdpRpcOptions *o, GError **error)
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

gboolean
tps_ddp_rpc_options_choose_table_place (const TpsDdpRpcOptions *o, TpsTablePlace *place,
                                        GError **error)
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

/* Returns TRUE if this process runs a role of this kind. All roles of a launcher run on its
 * host. */
static gboolean
is_here (const TpsDdpRpcOptions *o, TpsWorldKind kind)
{
  return o->world.rank < 0 || tps_world_get_kind (&o->world, (guint) o->world.rank) == kind;
}

/* Checks the devices. Loads a driver only if a role of this process needs it. */
static gboolean
check_devices (const TpsDdpRpcOptions *o, GError **error)
{
  TpsTablePlace place;

  if (is_here (o, TPS_WORLD_TRAINER) && tps_device_choose (o->trainer_device, 0, error) == NULL)
    {
      g_prefix_error (error, "--trainer-device=%s: ", o->trainer_device);
      return FALSE;
    }
  if (is_here (o, TPS_WORLD_SERVER) && !tps_ddp_rpc_options_choose_table_place (o, &place, error))
    {
      g_prefix_error (error, "--table-device=%s: ", o->table_device);
      return FALSE;
    }
  return TRUE;
}

static gboolean
check_shape (const TpsDdpRpcOptions *o, GError **error)
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

static gboolean
check (TpsDdpRpcOptions *o, GError **error)
{
  return tps_flags_check_number ("number-trainers", o->number_trainers, 1, 1024, error)
         && tps_flags_check_number ("number-ps", o->number_ps, 1, 1024, error)
         && tps_flags_check_number ("number-embeddings", o->number_embeddings, 1,
                                    G_GINT64_CONSTANT (1) << 40, error)
         && tps_flags_check_number ("embedding-dim", o->embedding_dim, 1, 1 << 20, error)
         && tps_flags_check_number ("warmup-cycles", o->warmup_cycles, 0, 1000000, error)
         && tps_flags_check_number ("epochs", o->epochs, 1, 1000000, error)
         && tps_flags_check_number ("batches", o->batches, 1, 1000000, error)
         && tps_flags_check_factor ("lr", o->lr, TRUE, error) && check_names (o, error)
         && check_shape (o, error);
}

/* Checks that a peer supports the options: peers support only those of the original. */
static gboolean
check_peer (const TpsDdpRpcOptions *o, GError **error)
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
check_growth (const TpsDdpRpcOptions *o, GError **error)
{
  if (!o->growth)
    return TRUE;
  if (o->run.peer != NULL)
    return tps_flags_refuse ("peer", o->run.peer, "no peer with --growth", error);
  return tps_flags_check_number ("repeats", o->run.repeats, 1, 1, error);
}

static gboolean
finish (TpsDdpRpcOptions *o, GError **error)
{
  static const gchar *const peers[] = { "pytorch", "pytorch-sparse", "both", NULL };

  if (!tps_world_read_environment (&o->world, error))
    return FALSE;
  fill_defaults (o);
  if (!check (o, error) || !tps_run_flags_finish (&o->run, peers, error) || !check_peer (o, error)
      || !check_growth (o, error))
    return FALSE;
  o->world.n_trainers = (guint) o->number_trainers;
  o->world.n_servers = (guint) o->number_ps;
  return tps_world_finish_flags (&o->world, error) && check_devices (o, error);
}

TpsBenchVerdict
tps_ddp_rpc_options_parse (TpsDdpRpcOptions *options, gint argc, gchar **argv, GError **error)
{
  g_autoptr (GOptionContext) context = NULL;

  *options = (TpsDdpRpcOptions) {
    .number_trainers = TPS_FLAGS_NOT_GIVEN,
    .number_ps = TPS_FLAGS_NOT_GIVEN,
    .number_embeddings = 300,
    .embedding_dim = TPS_FLAGS_NOT_GIVEN,
    .warmup_cycles = TPS_FLAGS_NOT_GIVEN,
    .epochs = TPS_FLAGS_NOT_GIVEN,
    .batches = 10,
    .lr = 0.05,
  };
  tps_world_init (&options->world, "ddp_rpc", "ps");
  options->world.counts_servers = TRUE;
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
tps_ddp_rpc_options_clear (TpsDdpRpcOptions *o)
{
  g_clear_pointer (&o->optimizer, g_free);
  g_clear_pointer (&o->task, g_free);
  g_clear_pointer (&o->trainer_device, g_free);
  g_clear_pointer (&o->table_device, g_free);
  tps_world_clear (&o->world);
  tps_run_flags_clear (&o->run);
}

GPtrArray *
tps_ddp_rpc_options_describe (const TpsDdpRpcOptions *o)
{
  GPtrArray *lines = g_ptr_array_new_with_free_func (g_free);

  tps_flags_add_number (lines, "number-trainers", o->number_trainers);
  tps_flags_add_number (lines, "number-ps", o->number_ps);
  tps_flags_add_number (lines, "number-embeddings", (gdouble) o->number_embeddings);
  tps_flags_add_number (lines, "embedding-dim", (gdouble) o->embedding_dim);
  tps_flags_add_number (lines, "warmup-cycles", o->warmup_cycles);
  tps_world_describe (&o->world, lines);
  tps_flags_add_number (lines, "epochs", o->epochs);
  tps_flags_add_number (lines, "batches", o->batches);
  tps_flags_add_number (lines, "seed", (gdouble) o->seed);
  tps_flags_add_text (lines, "task", o->task);
  tps_flags_add_text (lines, "optimizer", o->optimizer);
  tps_flags_add_number (lines, "lr", o->lr);
  tps_flags_add_text (lines, "sequential-lookups", o->sequential_lookups ? "true" : "false");
  tps_flags_add_text (lines, "trainer-device", o->trainer_device);
  tps_flags_add_text (lines, "table-device", o->table_device);
  tps_flags_add_text (lines, "host-lookups", o->host_lookups ? "true" : "false");
  tps_flags_add_text (lines, "growth", o->growth ? "true" : "false");
  tps_flags_add_number (lines, "repeats", o->run.repeats);
  return lines;
}

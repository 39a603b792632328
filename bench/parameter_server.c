/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parameter-server benchmark: launches a world of trainers, servers and a master, or is one of
 * them. */

#include <errno.h>
#include <glib/gstdio.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/configuration.h"
#include "bench/interrupt.h"
#include "bench/json_output.h"
#include "bench/list.h"
#include "bench/master.h"
#include "bench/options.h"
#include "bench/peer.h"
#include "bench/report.h"
#include "bench/role.h"
#include "bench/runfiles.h"
#include "bench/supervisor.h"
#include "bench/world.h"
#include "runtime/error.h"

#define EXIT_BAD_FLAG 2
#define EXIT_INTERRUPTED 130
#define STOP_PATIENCE_MS 3000
#define SOCKET_PATH_BYTES 108 /* sun_path, with its end */

typedef struct
{
  TpsBenchOptions options;
  TpsBenchConfiguration data;
  TpsBenchConfiguration model;
  GVariant *trainer_arguments;
  TpsSupervisor *supervisor;
  TpsBenchResults *ours;
  TpsBenchResults *theirs; /* NULL without a peer */
  gchar *socket_dir;
} Bench;

/* A role that was killed leaves its socket behind. */
static void
remove_socket_dir (const gchar *path)
{
  g_autoptr (GDir) dir = g_dir_open (path, 0, NULL);
  const gchar *name;

  while (dir != NULL && (name = g_dir_read_name (dir)) != NULL)
    {
      g_autofree gchar *file = g_build_filename (path, name, NULL);

      g_unlink (file);
    }
  g_rmdir (path);
}

static void
bench_clear (Bench *bench)
{
  g_clear_pointer (&bench->supervisor, tps_supervisor_free);
  if (bench->socket_dir != NULL)
    remove_socket_dir (bench->socket_dir);
  g_free (bench->socket_dir);
  g_clear_pointer (&bench->ours, tps_bench_results_free);
  g_clear_pointer (&bench->theirs, tps_bench_results_free);
  g_clear_pointer (&bench->trainer_arguments, g_variant_unref);
  tps_bench_configuration_clear (&bench->data);
  tps_bench_configuration_clear (&bench->model);
  tps_bench_options_clear (&bench->options);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Bench, bench_clear)

static gboolean
load_configurations (Bench *bench, GError **error)
{
  TpsBenchOptions *o = &bench->options;

  if (!tps_bench_configuration_load (o->data_config_path, tps_bench_data_configurations, o->data,
                                     "data_class", &bench->data, error)
      || !tps_bench_configuration_load (o->model_config_path, tps_bench_model_configurations,
                                        o->model, "model_class", &bench->model, error))
    return FALSE;
  bench->trainer_arguments = tps_bench_arguments_load (o->trainer_config_path, o->trainer, error);
  return bench->trainer_arguments != NULL
         && tps_bench_check_names (o, bench->data.class_name, bench->model.class_name, error)
         && tps_role_check_server_arguments (o, error);
}

/* A run may take long: it is too late at its end to find that nothing can be written. */
static gboolean
check_outputs (const TpsBenchOptions *o, GError **error)
{
  g_autofree gchar *folder = o->json != NULL ? g_path_get_dirname (o->json) : NULL;

  if (folder != NULL && access (folder, W_OK) != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--json: cannot write into %s: %s",
                   folder, g_strerror (errno));
      return FALSE;
    }
  if (o->csv != NULL && (g_mkdir_with_parents (o->csv, 0777) != 0 || access (o->csv, W_OK) != 0))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--csv: cannot write into %s: %s",
                   o->csv, g_strerror (errno));
      return FALSE;
    }
  return TRUE;
}

/* What is about to run, before anything does. */
static void
print_head (const Bench *bench)
{
  g_autoptr (GPtrArray) flags = tps_bench_options_describe (&bench->options);
  g_autofree gchar *host = tps_bench_describe_host ();

  printf ("parameter_server:");
  for (guint i = 0; i < flags->len; i++)
    printf (" %s", (gchar *) flags->pdata[i]);
  printf ("\nhost: %s; one BLAS thread a role\n\n", host);
  fflush (stdout);
}

static gboolean
start_role (Bench *bench, guint rank, guint port, GError **error)
{
  const TpsBenchOptions *o = &bench->options;
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *rank_flag = g_strdup_printf ("--rank=%u", rank);
  g_autofree gchar *port_flag = g_strdup_printf ("--master-port=%u", port);
  g_autofree gchar *transport_flag = g_strdup_printf ("--transport=%s", o->transport);
  g_autofree gchar *dir_flag = g_strdup_printf ("--socket-dir=%s", bench->socket_dir);
  g_autofree gchar *name = tps_world_get_name (o, rank);
  g_auto (GStrv) argv = NULL;

  g_strv_builder_add (builder, program);
  for (gchar **flag = o->given + 1; *flag != NULL; flag++)
    g_strv_builder_add (builder, *flag);
  g_strv_builder_add_many (builder, rank_flag, port_flag, transport_flag, dir_flag, NULL);
  argv = g_strv_builder_end (builder);
  return tps_supervisor_start (bench->supervisor, name, argv, NULL, NULL, error);
}

/* Checked here once, so that not every role says so. */
static gboolean
make_socket_dir (Bench *bench, GError **error)
{
  g_autofree gchar *longest = NULL;

  bench->socket_dir = g_dir_make_tmp ("thriftps-XXXXXX", error);
  if (bench->socket_dir == NULL)
    return FALSE;
  longest = g_build_filename (bench->socket_dir, "trainer1023.sock", NULL);
  if (g_str_equal (bench->options.transport, "tcp") || strlen (longest) < SOCKET_PATH_BYTES)
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "TMPDIR=%s is too long for Unix sockets; use a shorter one, or --transport=tcp",
               g_get_tmp_dir ());
  return FALSE;
}

static gboolean
start_roles (Bench *bench, guint port, GError **error)
{
  guint world_size = tps_bench_options_get_world_size (&bench->options);

  if (!make_socket_dir (bench, error))
    return FALSE;
  for (guint rank = 0; rank + 1 < world_size; rank++)
    if (!start_role (bench, rank, port, error))
      return FALSE;
  return TRUE;
}

/* Warm-up, then measured passes; with a peer, its passes in turn with ours. */
static gboolean
run_passes (Bench *bench, TpsMaster *master, TpsPeer *peer, GError **error)
{
  gint repeats = bench->options.repeats;

  if (!tps_master_run_pass (master, "warm-up", NULL, error)
      || (peer != NULL && !tps_peer_run_pass (peer, NULL, error)))
    return FALSE;
  printf ("benchmark warmup done\n\n");
  fflush (stdout);
  for (gint i = 0; i < repeats; i++)
    {
      g_autofree gchar *title = g_strdup_printf ("pass %d of %d", i + 1, repeats);

      if (!tps_master_run_pass (master, title, bench->ours, error)
          || (peer != NULL && !tps_peer_run_pass (peer, bench->theirs, error)))
        return FALSE;
    }
  return TRUE;
}

static void
print_report (Bench *bench, const TpsPeer *peer)
{
  g_autofree gchar *trainers = tps_bench_report_format (bench->ours, "trainer");
  g_autofree gchar *servers = tps_bench_report_format (bench->ours, "server");
  g_autofree gchar *outcome = tps_bench_report_format_outcome (bench->ours);

  printf ("%s%s\n%s", trainers, servers, outcome);
  if (peer != NULL)
    {
      g_autofree gchar *ratios = tps_bench_report_format_ratios (bench->ours, bench->theirs,
                                                                 "PyTorch");

      printf (
          "\nThriftPS and PyTorch %s, %d passes in turn (a ratio below 1: ThriftPS is faster)\n%s",
          tps_peer_get_version (peer), bench->options.repeats, ratios);
    }
}

static gboolean
write_json (Bench *bench, const TpsPeer *peer, GError **error)
{
  g_autoptr (GPtrArray) flags = tps_bench_options_describe (&bench->options);
  g_auto (TpsBenchOutput) output;

  tps_bench_output_init (&output, "parameter_server", flags);
  tps_bench_report_add_figures (bench->ours, &output.ours);
  tps_bench_report_add_outcome (bench->ours, &output);
  if (peer != NULL)
    {
      tps_bench_report_add_figures (
          bench->theirs,
          tps_bench_output_add_peer (&output, "pytorch", tps_peer_get_version (peer)));
      tps_bench_report_add_ratios (bench->ours, bench->theirs, &output);
    }
  return tps_bench_output_write_json (&output, bench->options.json, error);
}

static gboolean
write_files (Bench *bench, const TpsPeer *peer, GError **error)
{
  if (bench->options.json != NULL && !write_json (bench, peer, error))
    return FALSE;
  return bench->options.csv == NULL
         || tps_bench_report_write_csv (bench->ours, bench->options.csv, error);
}

/* The launcher and a master alone differ in who starts the roles. */
static gboolean
run_world (Bench *bench, GError **error)
{
  g_autoptr (TpsMaster) master = NULL;
  g_autoptr (TpsPeer) peer = NULL;

  master = tps_master_new (&bench->options, bench->supervisor, &bench->data, &bench->model,
                           bench->trainer_arguments, error);
  if (master == NULL)
    return FALSE;
  if (bench->options.rank < 0 && !start_roles (bench, tps_master_get_port (master), error))
    return FALSE;
  if (!tps_master_meet_roles (master, error))
    return FALSE;
  if (bench->options.peer != NULL)
    {
      bench->theirs = tps_bench_results_new ();
      peer = tps_peer_start (bench->supervisor, &bench->options, &bench->data, &bench->model,
                             error);
      if (peer == NULL)
        return FALSE;
    }
  if (!run_passes (bench, master, peer, error))
    return FALSE;
  print_report (bench, peer);
  return write_files (bench, peer, error);
}

/* A report that did not get out is a failed run. */
static gboolean
finish_output (GError **error)
{
  if (fflush (stdout) == 0 && !ferror (stdout))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE,
               "the report cannot be written to standard output");
  return FALSE;
}

static gint
run (Bench *bench)
{
  g_autoptr (GError) error = NULL;

  if (!load_configurations (bench, &error) || !check_outputs (&bench->options, &error))
    {
      fprintf (stderr, "parameter_server: %s\n", error->message);
      return EXIT_BAD_FLAG;
    }
  print_head (bench);
  bench->supervisor = tps_supervisor_new ();
  bench->ours = tps_bench_results_new ();
  if (run_world (bench, &error) && finish_output (&error))
    {
      tps_supervisor_stop (bench->supervisor, STOP_PATIENCE_MS);
      return 0;
    }
  fflush (stdout);
  fprintf (stderr, "parameter_server: %s\n", error->message);
  tps_supervisor_stop (bench->supervisor,
                       tps_interrupt_is_set () ? STOP_PATIENCE_MS / 3 : STOP_PATIENCE_MS);
  return tps_interrupt_is_set () ? EXIT_INTERRUPTED : 1;
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (Bench) bench = { 0 };

  setlocale (LC_CTYPE, ""); /* for the text of --help; numbers stay as they are everywhere */
  switch (tps_bench_options_parse (&bench.options, argc, argv, &error))
    {
    case TPS_BENCH_DONE:
      return 0;
    case TPS_BENCH_BAD:
      fprintf (stderr, "parameter_server: %s\n", error->message);
      return EXIT_BAD_FLAG;
    case TPS_BENCH_RUN:
      break;
    }
  tps_interrupt_install ();
  if (bench.options.rank >= 0
      && tps_world_get_kind (&bench.options, (guint) bench.options.rank) != TPS_WORLD_MASTER)
    return tps_role_run (&bench.options);
  return run (&bench);
}

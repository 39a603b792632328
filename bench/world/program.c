/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/program.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/report/report.h"
#include "bench/world/launch.h"
#include "runtime/base/error.h"

#define EXIT_BAD_FLAG 2
#define EXIT_INTERRUPTED 130
#define STOP_PATIENCE_MS 3000

typedef struct
{
  const TpsProgram *program;
  const TpsWorld *world;
  const TpsRunFlags *flags;
  gpointer user_data;
  TpsSupervisor *supervisor;
  gchar *socket_dir;
  TpsBenchResults *ours;
  GPtrArray *peers; /* of TpsPeer */
} Run;

static void
run_clear (Run *run)
{
  g_clear_pointer (&run->peers, g_ptr_array_unref);
  g_clear_pointer (&run->supervisor, tps_supervisor_free);
  g_clear_pointer (&run->socket_dir, tps_bench_remove_folder);
  g_clear_pointer (&run->ours, tps_bench_results_free);
}

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (Run, run_clear)

static void
free_peer (gpointer peer)
{
  tps_peer_free (peer);
}

/* A run may take long: it is too late at its end to find that nothing can be written. */
static gboolean
check_outputs (const TpsRunFlags *flags, GError **error)
{
  g_autofree gchar *folder = flags->json != NULL ? g_path_get_dirname (flags->json) : NULL;

  if (folder != NULL && access (folder, W_OK) != 0)
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--json: cannot write into %s: %s",
                   folder, g_strerror (errno));
      return FALSE;
    }
  if (flags->csv != NULL
      && (g_mkdir_with_parents (flags->csv, 0777) != 0 || access (flags->csv, W_OK) != 0))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT, "--csv: cannot write into %s: %s",
                   flags->csv, g_strerror (errno));
      return FALSE;
    }
  return TRUE;
}

/* What is about to run, before anything does. */
static void
print_head (const Run *run)
{
  g_autoptr (GPtrArray) flags = run->program->describe (run->user_data);
  g_autofree gchar *host = tps_bench_describe_host ();

  printf ("%s:", run->world->program);
  for (guint i = 0; i < flags->len; i++)
    printf (" %s", (gchar *) flags->pdata[i]);
  printf ("\nhost: %s; one BLAS thread a role; tensors through %s\n\n", host,
          tps_world_get_transport_title (run->world));
  if (run->program->print_head != NULL)
    run->program->print_head (run->user_data);
  fflush (stdout);
}

static gboolean
run_peers (Run *run, gboolean is_warm_up, GError **error)
{
  for (guint i = 0; i < run->peers->len; i++)
    if (!tps_peer_run_pass (run->peers->pdata[i], is_warm_up, error))
      return FALSE;
  return TRUE;
}

/* Warm-up, then measured passes; with peers, theirs in turn with ours. */
static gboolean
run_passes (Run *run, TpsMaster *master, GError **error)
{
  gint repeats = run->flags->repeats;

  if (!run->program->no_warm_up)
    {
      if (!tps_master_run_pass (master, "warm-up", NULL, error) || !run_peers (run, TRUE, error))
        return FALSE;
      printf ("benchmark warmup done\n\n");
      fflush (stdout);
    }
  for (gint i = 0; i < repeats; i++)
    {
      g_autofree gchar *title = g_strdup_printf ("pass %d of %d", i + 1, repeats);

      if (!tps_master_run_pass (master, title, run->ours, error) || !run_peers (run, FALSE, error))
        return FALSE;
    }
  return TRUE;
}

static gboolean
write_json (Run *run, GError **error)
{
  g_autoptr (GPtrArray) flags = run->program->describe (run->user_data);
  g_auto (TpsBenchOutput) output;

  tps_bench_output_init (&output, run->world->program, flags);
  run->program->add_output (run->user_data, run->ours, run->peers, &output);
  return tps_bench_output_write_json (&output, run->flags->json, error);
}

static gboolean
report (Run *run, GError **error)
{
  run->program->print_report (run->user_data, run->ours, run->peers);
  if (run->flags->json != NULL && !write_json (run, error))
    return FALSE;
  return run->flags->csv == NULL || tps_bench_report_write_csv (run->ours, run->flags->csv, error);
}

/* The launcher and a master alone differ in who starts the roles. */
static gboolean
run_world (Run *run, GError **error)
{
  g_autoptr (TpsMaster) master = tps_master_new (run->world, run->supervisor, &run->program->work,
                                                 run->user_data, error);

  if (master == NULL)
    return FALSE;
  if (run->world->rank < 0)
    {
      run->socket_dir = tps_launch_make_socket_dir (run->world, error);
      if (run->socket_dir == NULL
          || !tps_launch_roles (run->world, run->supervisor, run->socket_dir,
                                tps_master_get_port (master), error))
        return FALSE;
    }
  return tps_master_meet_roles (master, error)
         && run->program->start_peers (run->user_data, run->supervisor, run->peers, error)
         && run_passes (run, master, error) && report (run, error);
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
launch (Run *run)
{
  g_autoptr (GError) error = NULL;

  if (!run->program->load (run->user_data, &error) || !check_outputs (run->flags, &error))
    {
      fprintf (stderr, "%s: %s\n", run->world->program, error->message);
      return EXIT_BAD_FLAG;
    }
  print_head (run);
  run->supervisor = tps_supervisor_new ();
  run->ours = tps_bench_results_new ();
  run->peers = g_ptr_array_new_with_free_func (free_peer);
  if (run_world (run, &error) && finish_output (&error))
    {
      g_ptr_array_set_size (run->peers, 0);
      tps_supervisor_stop (run->supervisor, STOP_PATIENCE_MS);
      return 0;
    }
  fflush (stdout);
  fprintf (stderr, "%s: %s\n", run->world->program, error->message);
  g_ptr_array_set_size (run->peers, 0);
  tps_supervisor_stop (run->supervisor,
                       tps_interrupt_is_set () ? STOP_PATIENCE_MS / 3 : STOP_PATIENCE_MS);
  return tps_interrupt_is_set () ? EXIT_INTERRUPTED : 1;
}

gint
tps_program_run (const TpsProgram *program, const TpsWorld *world, const TpsRunFlags *flags,
                 gpointer user_data)
{
  g_auto (Run) run = { .program = program, .world = world, .flags = flags, .user_data = user_data };

  tps_interrupt_install ();
  if (tps_world_is_role (world))
    return tps_role_run (world, program->fill_server, user_data);
  return launch (&run);
}

gboolean
tps_program_check_verdict (const gchar *name, TpsBenchVerdict verdict, const GError *error,
                           gint *status)
{
  *status = verdict == TPS_BENCH_BAD ? EXIT_BAD_FLAG : 0;
  if (verdict == TPS_BENCH_BAD)
    fprintf (stderr, "%s: %s\n", name, error->message);
  return verdict == TPS_BENCH_RUN;
}

void
tps_program_print_tables (const TpsRunFlags *flags, TpsBenchResults *ours, GPtrArray *peers)
{
  g_autofree gchar *trainers = tps_bench_report_format (ours, "trainer");
  g_autofree gchar *servers = tps_bench_report_format (ours, "server");
  g_autofree gchar *outcome = tps_bench_report_format_outcome (ours);

  printf ("%s%s\n%s", trainers, servers, outcome);
  for (guint i = 0; i < peers->len; i++)
    {
      TpsPeer *peer = peers->pdata[i];
      const gchar *title = tps_peer_get_title (peer);
      g_autofree gchar *ratios = tps_bench_report_format_ratios (ours, tps_peer_get_results (peer),
                                                                 title);

      printf ("\nThriftPS and %s %s, %d passes in turn (a ratio below 1: ThriftPS is faster)\n%s",
              title, tps_peer_get_version (peer), flags->repeats, ratios);
    }
}

void
tps_program_add_figures (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output)
{
  tps_bench_report_add_figures (ours, &output->ours);
  tps_bench_report_add_outcome (ours, output);
  for (guint i = 0; i < peers->len; i++)
    {
      TpsPeer *peer = peers->pdata[i];
      TpsBenchResults *theirs = tps_peer_get_results (peer);

      tps_bench_report_add_figures (theirs,
                                    tps_bench_output_add_peer (output, tps_peer_get_name (peer),
                                                               tps_peer_get_version (peer)));
      tps_bench_report_add_ratios (ours, theirs, output);
    }
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/program.h"

#include <stdio.h>
#include <string.h>

#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/report/report.h"
#include "runtime/base/error.h"

typedef struct
{
  const TpsProgram *program;
  TpsWorld *world;
  const TpsRunFlags *flags;
  gpointer user_data;
  gchar *socket_dir;
  TpsMaster *master;
  TpsBenchResults *ours;
  GPtrArray *peers; /* of TpsPeer */
} Run;

static void
free_peer (gpointer peer)
{
  tps_peer_free (peer);
}

static gboolean
load (gpointer user_data, GError **error)
{
  Run *run = user_data;

  return run->program->load == NULL || run->program->load (run->user_data, error);
}

static gchar *
note (gpointer user_data)
{
  const Run *run = user_data;

  return g_strdup_printf ("one BLAS thread a role; tensors through %s",
                          tps_world_get_transport_title (run->world));
}

static void
print_head (gpointer user_data)
{
  const Run *run = user_data;

  if (run->program->print_head != NULL)
    run->program->print_head (run->user_data);
}

/* -- passes: our pass and those of the peers form a row -- */

static gboolean
run_ours (gpointer bench, G_GNUC_UNUSED gpointer system, G_GNUC_UNUSED gpointer row,
          gboolean is_warm_up, GError **error)
{
  Run *run = bench;

  return tps_master_run_pass (run->master, is_warm_up ? NULL : run->ours, error);
}

static gboolean
run_peer (G_GNUC_UNUSED gpointer bench, gpointer peer, G_GNUC_UNUSED gpointer row,
          gboolean is_warm_up, GError **error)
{
  return tps_peer_run_pass (peer, is_warm_up, error);
}

static void
say_warm (G_GNUC_UNUSED gpointer user_data)
{
  printf ("benchmark warmup done\n\n");
  fflush (stdout);
}

static void
add_passes (Run *run, TpsEngine *engine)
{
  TpsTask ours = { .run = run_ours, .bench = run, .no_warm_up = run->program->no_warm_up };

  tps_engine_begin_row (engine);
  tps_engine_add (engine, &ours, "ThriftPS");
  for (guint i = 0; i < run->peers->len; i++)
    {
      TpsPeer *peer = run->peers->pdata[i];
      TpsTask theirs = { .run = run_peer, .system = peer, .no_warm_up = ours.no_warm_up };

      tps_engine_add (engine, &theirs, "%s", peer->kind->title);
    }
  if (!run->program->no_warm_up)
    tps_engine_on_warm (engine, say_warm, NULL);
}

/* Prints the address for roles on other hosts. */
static void
print_world (const Run *run)
{
  const TpsWorld *world = run->world;
  g_autofree gchar *address = tps_world_get_master (world);

  if (world->rank < 0)
    return;
  printf ("world: job %s, master at %s (rank %u, the %s)\n\n", world->job, address,
          tps_world_get_given_rank (world), world->master_rank);
  fflush (stdout);
}

/* -- start -- */

#define SOCKET_PATH_BYTES 108 /* size of sun_path, with the terminating NUL */

/* Creates a folder for the Unix sockets of the world. Checks the length of the path once; otherwise
 * every role would report it. The caller must remove the folder. */
static gchar *
make_socket_dir (const TpsWorld *world, GError **error)
{
  gchar *path = g_dir_make_tmp ("thriftps-XXXXXX", error);
  g_autofree gchar *longest = NULL;

  if (path == NULL)
    return NULL;
  longest = g_build_filename (path, "trainer1023.sock", NULL);
  if (g_str_equal (world->transport, "tcp") || strlen (longest) < SOCKET_PATH_BYTES)
    return path;
  tps_bench_remove_folder (path);
  g_set_error (error, TPS_ERROR, TPS_ERROR_INVALID_ARGUMENT,
               "TMPDIR=%s is too long for Unix sockets; use a shorter one, or --transport=tcp",
               g_get_tmp_dir ());
  return NULL;
}

static gboolean
start_role (const TpsWorld *world, TpsSupervisor *supervisor, guint rank, const gchar *socket_dir,
            GError **error)
{
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *given = g_strjoinv ("\n", world->given + 1);
  g_autofree gchar *name = tps_world_get_name (world, rank);
  g_auto (GStrv) argv = tps_argv_format (
      "%s\n%s\n--rank=%u\n--master-rank=last\n--master-port=%d\n--job=%s\n--transport=%s\n"
      "--socket-dir=%s",
      program, given, rank, world->master_port, world->job, world->transport, socket_dir);

  return tps_supervisor_start (supervisor, name, argv, NULL, NULL, error);
}

/* Starts this program for each role if this process is a launcher; not a master with --rank. */
static gboolean
launch_roles (Run *run, TpsBenchRun *bench, GError **error)
{
  if (run->world->rank >= 0)
    return TRUE;
  run->socket_dir = make_socket_dir (run->world, error);
  for (guint rank = 0; run->socket_dir != NULL && rank + 1 < tps_world_get_size (run->world);
       rank++)
    if (!start_role (run->world, bench->supervisor, rank, run->socket_dir, error))
      return FALSE;
  return run->socket_dir != NULL;
}

static gboolean
start_peers (Run *run, TpsSupervisor *supervisor, const GPtrArray *described, GError **error)
{
  const gchar *wanted = run->flags->peer;
  g_auto (GStrv) arguments = NULL;

  if (wanted != NULL && run->program->make_peer_arguments != NULL)
    arguments = run->program->make_peer_arguments (run->user_data);
  for (const TpsPeerKind *kind = run->program->peers; wanted != NULL && kind->name != NULL; kind++)
    {
      TpsPeer *peer;

      if (!g_str_equal (wanted, kind->name) && !g_str_equal (wanted, "both"))
        continue;
      peer = tps_peer_start (supervisor, kind, described, arguments, error);
      if (peer == NULL)
        return FALSE;
      g_ptr_array_add (run->peers, peer);
    }
  return TRUE;
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *bench, GError **error)
{
  Run *run = user_data;
  g_autoptr (GPtrArray) flags = tps_command_line_describe (run->program->command_line, run->flags);

  run->ours = tps_bench_results_new ();
  run->peers = g_ptr_array_new_with_free_func (free_peer);
  run->master = tps_master_new (run->world, bench, flags, &run->program->work, run->user_data,
                                error);
  if (run->master == NULL)
    return FALSE;
  run->world->master_port = (gint) tps_master_get_port (run->master);
  print_world (run);
  if (!launch_roles (run, bench, error))
    return FALSE;
  tps_engine_set_phase (bench->engine, "the roles start");
  if (!tps_master_meet_roles (run->master, error))
    return FALSE;
  tps_engine_set_phase (bench->engine, "the peers start");
  if (!start_peers (run, bench->supervisor, flags, error))
    return FALSE;
  add_passes (run, bench->engine);
  return TRUE;
}

static void
fail (gpointer user_data, const GError *error)
{
  Run *run = user_data;

  if (run->master != NULL)
    tps_master_fail (run->master, error->message);
}

static void
stop (gpointer user_data)
{
  Run *run = user_data;

  g_clear_pointer (&run->master, tps_master_free);
  g_clear_pointer (&run->peers, g_ptr_array_unref);
}

/* -- the report -- */

static void
print_report (gpointer user_data)
{
  Run *run = user_data;

  run->program->print_report (run->user_data, run->ours, run->peers);
}

static void
add_output (gpointer user_data, TpsBenchOutput *output)
{
  Run *run = user_data;

  run->program->add_output (run->user_data, run->ours, run->peers, output);
}

static gint
run_role (const Run *run)
{
  g_autoptr (GPtrArray) flags = tps_command_line_describe (run->program->command_line, run->flags);

  tps_interrupt_install ();
  return tps_role_run (run->world, flags, run->program->fill_server, run->user_data);
}

gint
tps_program_run (const TpsProgram *program, TpsWorld *world, const TpsRunFlags *flags,
                 gpointer user_data)
{
  const TpsBenchmark benchmark = {
    .command_line = program->command_line,
    .load = load,
    .note = note,
    .print_head = print_head,
    .prepare = prepare,
    .fail = fail,
    .stop = stop,
    .print_report = print_report,
    .add_output = add_output,
  };
  Run run = { .program = program, .world = world, .flags = flags, .user_data = user_data };
  gint status;

  if (tps_world_is_role (world))
    return run_role (&run);
  status = tps_benchmark_run (&benchmark, flags, &run);
  g_clear_pointer (&run.socket_dir, tps_bench_remove_folder);
  g_clear_pointer (&run.ours, tps_bench_results_free);
  return status;
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
      const gchar *title = peer->kind->title;
      g_autofree gchar *ratios = tps_bench_report_format_ratios (ours, peer->results, title);

      printf ("\nThriftPS and %s %s, %d passes in turn (a ratio below 1: ThriftPS is faster)\n%s",
              title, peer->version, flags->repeats, ratios);
    }
  if (peers->len > 0)
    printf ("%s", tps_bench_describe_python ());
}

void
tps_program_add_figures (TpsBenchResults *ours, GPtrArray *peers, TpsBenchOutput *output)
{
  tps_bench_report_add_figures (ours, &output->ours);
  tps_bench_report_add_outcome (ours, output);
  for (guint i = 0; i < peers->len; i++)
    {
      TpsPeer *peer = peers->pdata[i];

      tps_bench_report_add_figures (
          peer->results, tps_bench_output_add_peer (output, peer->kind->name, peer->version));
      tps_bench_report_add_ratios (ours, peer->results, output);
    }
}

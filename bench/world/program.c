/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/world/program.h"

#include <stdio.h>

#include "bench/process/interrupt.h"
#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "bench/report/report.h"
#include "bench/world/launch.h"

typedef struct
{
  const TpsProgram *program;
  const TpsWorld *world;
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

  return run->program->load (run->user_data, error);
}

/* Sets the actual port of the master: the flag 0 selects any free port. */
static void
set_port (GPtrArray *flags, guint port)
{
  for (guint i = 0; i < flags->len; i++)
    if (g_str_has_prefix (flags->pdata[i], "master-port="))
      {
        g_free (flags->pdata[i]);
        flags->pdata[i] = g_strdup_printf ("master-port=%u", port);
      }
}

static GPtrArray *
describe (gpointer user_data)
{
  Run *run = user_data;
  GPtrArray *flags = run->program->describe (run->user_data);

  if (run->master != NULL)
    set_port (flags, tps_master_get_port (run->master));
  return flags;
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
  TpsTask ours = {
    .title = "ThriftPS", .run = run_ours, .bench = run, .no_warm_up = run->program->no_warm_up
  };

  tps_engine_begin_row (engine);
  tps_engine_add (engine, &ours);
  for (guint i = 0; i < run->peers->len; i++)
    {
      TpsTask theirs = { .title = tps_peer_get_title (run->peers->pdata[i]),
                         .run = run_peer,
                         .system = run->peers->pdata[i],
                         .no_warm_up = run->program->no_warm_up };

      tps_engine_add (engine, &theirs);
    }
  if (!run->program->no_warm_up)
    tps_engine_on_warm (engine, say_warm, NULL);
}

/* Prints the address for roles on other hosts. */
static void
print_world (const Run *run)
{
  const TpsWorld *world = run->world;
  g_autofree gchar *address = tps_world_join_address (world->master_addr,
                                                      tps_master_get_port (run->master));

  if (world->rank < 0)
    return;
  printf ("world: job %s, master at %s (rank %u, the %s)\n\n", world->job, address,
          tps_world_get_given_rank (world), world->master_rank);
  fflush (stdout);
}

/* Starts the roles if this process is a launcher. A master with --rank starts none. */
static gboolean
launch_roles (Run *run, TpsBenchRun *bench, GError **error)
{
  if (run->world->rank >= 0)
    return TRUE;
  run->socket_dir = tps_launch_make_socket_dir (run->world, error);
  return run->socket_dir != NULL
         && tps_launch_roles (run->world, bench->supervisor, run->socket_dir,
                              tps_master_get_port (run->master), error);
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *bench, GError **error)
{
  Run *run = user_data;
  g_autoptr (GPtrArray) flags = run->program->describe (run->user_data);

  run->ours = tps_bench_results_new ();
  run->peers = g_ptr_array_new_with_free_func (free_peer);
  run->master = tps_master_new (run->world, bench, flags, &run->program->work, run->user_data,
                                error);
  if (run->master == NULL)
    return FALSE;
  print_world (run);
  if (!launch_roles (run, bench, error))
    return FALSE;
  tps_engine_set_phase (bench->engine, "the roles start");
  if (!tps_master_meet_roles (run->master, error))
    return FALSE;
  tps_engine_set_phase (bench->engine, "the peers start");
  if (!run->program->start_peers (run->user_data, bench->supervisor, run->peers, error))
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
  g_autoptr (GPtrArray) flags = run->program->describe (run->user_data);

  tps_interrupt_install ();
  return tps_role_run (run->world, flags, run->program->fill_server, run->user_data);
}

gint
tps_program_run (const TpsProgram *program, const TpsWorld *world, const TpsRunFlags *flags,
                 gpointer user_data)
{
  const TpsBenchmark benchmark = {
    .name = world->program,
    .describe = describe,
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

gboolean
tps_program_check_verdict (const gchar *name, TpsBenchVerdict verdict, const GError *error,
                           gint *status)
{
  *status = verdict == TPS_BENCH_BAD ? tps_benchmark_refuse (name, error) : 0;
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
      TpsBenchResults *theirs = tps_peer_get_results (peer);

      tps_bench_report_add_figures (theirs,
                                    tps_bench_output_add_peer (output, tps_peer_get_name (peer),
                                                               tps_peer_get_version (peer)));
      tps_bench_report_add_ratios (ours, theirs, output);
    }
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Trains a recommender on a click log. The systems are trainers with tables on servers, and a
 * single process that has its own tables and trains on the same steps. Their predictions must
 * agree.
 *
 * A task of the engine is a number of further steps of one system. The main figure is the number of
 * samples per second, a median over the rounds. */

#include <math.h>
#include <stdio.h>

#include "bench/dlrm/cluster.h"
#include "bench/dlrm/criteo_log.h"
#include "bench/dlrm/peer.h"
#include "bench/dlrm/phase_report.h"
#include "bench/dlrm/role.h"
#include "bench/dlrm/system.h"
#include "bench/engine/benchmark.h"
#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "bench/report/percentile.h"
#include "runtime/base/error.h"

#define NAME "dlrm"
#define ROW "dlrm"
#define SERVERS "servers"
#define LOCAL "local"

/* The largest difference between the predictions of two systems, in log loss and in AUC. Sums of
 * floats in another order differ by rounding, and training enlarges such differences slowly. With
 * optimizers other than SGD, the result also depends on the order in which the pushes of several
 * trainers arrive. */
#define TOLERANCE 1e-3
#define TOLERANCE_OF_ORDER 2e-2

#define USUAL_SAMPLES_PER_S 10000.0 /* for the estimate of the time */

typedef struct
{
  const TpsDlrmOptions *options;
  TpsFigures *figures; /* owned by the run */
  TpsDlrmCluster *cluster;
  TpsDlrmSystem *servers;
  TpsDlrmSystem *local; /* NULL = left out */
  GPtrArray *peers;     /* of TpsDlrmPeer */
} Dlrm;

/* Reads the first sample: a bad file must be reported before any process starts. */
static gboolean
load (gpointer user_data, GError **error)
{
  const TpsDlrmOptions *options = ((Dlrm *) user_data)->options;
  g_autoptr (TpsCriteoLog) log = NULL;
  g_auto (TpsClickBatch) batch = { 0 };

  if (options->data == NULL)
    return TRUE;
  log = tps_criteo_log_open (options->data, &options->shape, error);
  tps_click_batch_init (&batch, &options->shape, 1);
  return log != NULL && tps_criteo_log_read (log, &batch, error);
}

static gchar *
note (gpointer user_data)
{
  const TpsDlrmOptions *options = ((Dlrm *) user_data)->options;

  return g_strdup_printf ("BLAS threads of a process: %d; rows: %" G_GINT64_FORMAT,
                          options->n_threads, tps_click_shape_count_rows (&options->shape));
}

/* -- systems -- */

static gboolean
start_role (Dlrm *bench, TpsSupervisor *supervisor, TpsDlrmSystem *system, const gchar *role,
            guint rank, GError **error)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *role_flag = g_strdup_printf ("--role=%s", role);
  g_autofree gchar *rank_flag = g_strdup_printf ("--rank=%u", rank);
  g_autofree gchar *addresses = g_strdup_printf ("--addresses=%s",
                                                 tps_dlrm_cluster_get_addresses (bench->cluster));
  g_auto (GStrv) argv = NULL;

  g_strv_builder_add (builder, program);
  for (gchar **flag = bench->options->given + 1; *flag != NULL; flag++)
    g_strv_builder_add (builder, *flag);
  g_strv_builder_add_many (builder, role_flag, rank_flag, addresses, NULL);
  argv = g_strv_builder_end (builder);
  return tps_dlrm_system_start (system, supervisor, argv, error);
}

static gboolean
start_systems (Dlrm *bench, TpsBenchRun *run, GError **error)
{
  bench->servers = tps_dlrm_system_new (SERVERS, run->folder);
  for (guint rank = 0; rank < (guint) bench->options->n_trainers; rank++)
    if (!start_role (bench, run->supervisor, bench->servers, "trainer", rank, error))
      return FALSE;
  if (!tps_dlrm_system_wait (bench->servers, error))
    return FALSE;
  if (bench->options->no_reference)
    return TRUE;
  bench->local = tps_dlrm_system_new (LOCAL, run->folder);
  return start_role (bench, run->supervisor, bench->local, LOCAL, 0, error)
         && tps_dlrm_system_wait (bench->local, error);
}

static gboolean
start_peers (Dlrm *bench, TpsBenchRun *run, GError **error)
{
  bench->peers = tps_dlrm_peers_new ();
  if (!tps_dlrm_peers_start (bench->options, run->supervisor, run->folder, bench->peers, error))
    return FALSE;
  for (guint i = 0; i < bench->peers->len; i++)
    {
      const TpsDlrmPeer *peer = bench->peers->pdata[i];
      TpsFigureLimit limit = { .name = peer->name, .title = peer->title, .version = peer->version };

      if (peer->system == NULL)
        continue;
      tps_figures_add_limit (bench->figures, &limit);
      printf ("%s: %s\n", peer->name, peer->version);
    }
  if (bench->peers->len > 0)
    printf ("%s", tps_bench_describe_python ());
  return TRUE;
}

/* -- tasks -- */

static const TpsQuantity rate = { "", "samples/s" }, log_loss_quantity = { " log loss", "nats" },
                         auc_quantity = { " AUC", "" };

static gdouble
get_tolerance (const TpsDlrmOptions *options)
{
  return options->n_trainers == 1 || options->table_optimizer.kind == TPS_OPTIMIZER_SGD
             ? TOLERANCE
             : TOLERANCE_OF_ORDER;
}

static gboolean
check_close (gdouble tolerance, const gchar *quality, const GArray *ours, const GArray *reference,
             GError **error)
{
  guint i = ours->len - 1;
  gdouble a, b;

  if (ours->len != reference->len)
    return TRUE;
  a = g_array_index (ours, gdouble, i);
  b = g_array_index (reference, gdouble, i);
  if (fabs (a - b) <= tolerance || (isnan (a) && isnan (b)))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
               "round %u: the %s of the trainers is %.6f, that of the single process %.6f; "
               "expected a difference of at most %g",
               i + 1, quality, a, b, tolerance);
  return FALSE;
}

/* Compares the systems after both have finished the round. Stale rows may cause larger differences,
 * which are not checked. */
static gboolean
check_quality (const Dlrm *bench, GError **error)
{
  gdouble tolerance = get_tolerance (bench->options);

  return bench->local == NULL || bench->options->staleness > 0
         || (check_close (tolerance, "log loss", bench->servers->log_loss, bench->local->log_loss,
                          error)
             && check_close (tolerance, "AUC", bench->servers->auc, bench->local->auc, error));
}

static void
add_quality (Dlrm *bench, TpsDlrmSystem *system, TpsDlrmPass *pass)
{
  gdouble log_loss = tps_quality_get_log_loss (pass->predictions);
  gdouble auc = tps_quality_get_auc (pass->predictions);

  g_array_append_val (system->log_loss, log_loss);
  g_array_append_val (system->auc, auc);
  tps_figures_add (bench->figures, system->name, ROW, &log_loss_quantity, log_loss);
  if (!isnan (auc))
    tps_figures_add (bench->figures, system->name, ROW, &auc_quantity, auc);
}

static guint
choose_n_steps (const Dlrm *bench, gboolean is_warm_up)
{
  return is_warm_up ? tps_dlrm_options_get_warm_up (bench->options) : (guint) bench->options->steps;
}

static gdouble
count_samples (const Dlrm *bench, gboolean is_warm_up)
{
  return (gdouble) choose_n_steps (bench, is_warm_up) * (gdouble) bench->options->batch
         * bench->options->n_trainers;
}

static gboolean
run_task (gpointer user_data, gpointer which, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
          GError **error)
{
  Dlrm *bench = user_data;
  TpsDlrmSystem *system = which;
  g_auto (TpsDlrmPass) pass = { 0 };
  gdouble seconds;

  tps_dlrm_pass_init (&pass);
  seconds = tps_dlrm_system_run (system, choose_n_steps (bench, is_warm_up), &pass, error);
  if (seconds < 0)
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add (bench->figures, system->name, ROW, &rate,
                   count_samples (bench, FALSE) / seconds);
  tps_dlrm_phases_add (bench->figures, system->name, ROW, &pass);
  add_quality (bench, system, &pass);
  return check_quality (bench, error);
}

static void
add_task (Dlrm *bench, TpsEngine *engine, TpsDlrmSystem *system)
{
  TpsTask task = { .title = system->name, .run = run_task, .bench = bench, .system = system };

  task.warm_up_s = count_samples (bench, TRUE) / USUAL_SAMPLES_PER_S;
  task.measured_s = count_samples (bench, FALSE) / USUAL_SAMPLES_PER_S;
  tps_engine_add (engine, &task);
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Dlrm *bench = user_data;
  const gchar *folder = tps_benchmark_get_folder (run, error);
  TpsFigureLimit local = { .name = LOCAL, .title = "/ local" };

  bench->figures = run->figures;
  tps_engine_set_phase (run->engine, "the servers and trainers start");
  if (folder == NULL)
    return FALSE;
  bench->cluster = tps_dlrm_cluster_start (bench->options, run->supervisor, folder, error);
  if (bench->cluster == NULL || !start_systems (bench, run, error)
      || !start_peers (bench, run, error))
    return FALSE;
  tps_engine_begin_row (run->engine);
  add_task (bench, run->engine, bench->servers);
  if (bench->local != NULL)
    {
      tps_figures_add_limit (bench->figures, &local);
      add_task (bench, run->engine, bench->local);
    }
  for (guint i = 0; i < bench->peers->len; i++)
    {
      const TpsDlrmPeer *peer = bench->peers->pdata[i];

      if (peer->system != NULL)
        add_task (bench, run->engine, peer->system);
    }
  return TRUE;
}

static void
stop (gpointer user_data)
{
  Dlrm *bench = user_data;

  g_clear_pointer (&bench->servers, tps_dlrm_system_free);
  g_clear_pointer (&bench->local, tps_dlrm_system_free);
  g_clear_pointer (&bench->peers, g_ptr_array_unref);
  g_clear_pointer (&bench->cluster, tps_dlrm_cluster_free);
}

/* -- the report -- */

static gchar *
name_ours (const gchar *system, G_GNUC_UNUSED const gchar *row)
{
  return g_strdup (system);
}

static const TpsFigureColumn columns[] = {
  { "samples/s", "", NULL, 50 },
  { "step p50", " step", "ms", 50 },
  { "p95", " step", "ms", 95 },
  { "p99, ms", " step", "ms", 99 },
  { "log loss", " log loss", NULL, 50 },
  { "AUC", " AUC", NULL, 50 },
  { NULL, NULL, NULL, 0 },
};

static const TpsFigureStyle style = { .name = name_ours, .label = name_ours, .columns = columns };

/* Prints the median of the ratios of the rounds. It is more exact than the ratio of the medians,
 * because all systems of a round run at about the same time. */
static void
print_paired_ratio (const Dlrm *bench, const gchar *other)
{
  const GArray *ours = tps_figures_get_samples (bench->figures, SERVERS, ROW, &rate);
  const GArray *theirs = tps_figures_get_samples (bench->figures, other, ROW, &rate);
  g_autoptr (GArray) ratios = g_array_new (FALSE, FALSE, sizeof (gdouble));

  for (guint i = 0; ours != NULL && theirs != NULL && i < MIN (ours->len, theirs->len); i++)
    {
      gdouble ratio = g_array_index (ours, gdouble, i) / g_array_index (theirs, gdouble, i);

      g_array_append_val (ratios, ratio);
    }
  if (ratios->len > 0)
    printf ("samples/s of servers / %s: %.3f, the median; %.3f to %.3f, all rounds (%u)\n", other,
            tps_percentile (ratios, 50), tps_percentile (ratios, 0), tps_percentile (ratios, 100),
            ratios->len);
}

static void
print_peers (const Dlrm *bench)
{
  printf ("\n");
  if (bench->local != NULL)
    print_paired_ratio (bench, LOCAL);
  for (guint i = 0; i < bench->peers->len; i++)
    {
      const TpsDlrmPeer *peer = bench->peers->pdata[i];

      if (peer->system != NULL)
        print_paired_ratio (bench, peer->name);
      else
        printf ("%s is left out: %s\n", peer->name, peer->reason);
    }
}

static void
print_report (gpointer user_data)
{
  const Dlrm *bench = user_data;
  g_autofree gchar *phases = tps_dlrm_phases_format (bench->figures, SERVERS, ROW);

  printf ("\n%s", phases);
  if (bench->local != NULL && bench->options->staleness == 0)
    printf ("\nlog loss and AUC of the servers' trainers and of the single process differ by at "
            "most %g\n",
            get_tolerance (bench->options));
  print_peers (bench);
}

static void
add_output (gpointer user_data, TpsBenchOutput *output)
{
  const Dlrm *bench = user_data;
  g_autofree gchar *rows = g_strdup_printf ("%" G_GINT64_FORMAT,
                                            tps_click_shape_count_rows (&bench->options->shape));

  tps_bench_output_add_fact (output, "rows", rows);
  for (guint i = 0; i < bench->peers->len; i++)
    {
      const TpsDlrmPeer *peer = bench->peers->pdata[i];
      g_autofree gchar *name = g_strconcat (peer->name, " is left out", NULL);

      if (peer->reason != NULL)
        tps_bench_output_add_fact (output, name, peer->reason);
    }
}

static gint
run_benchmark (const TpsDlrmOptions *options)
{
  static const TpsBenchmark benchmark = {
    .command_line = &tps_dlrm_command_line,
    .load = load,
    .note = note,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
    .print_report = print_report,
    .add_output = add_output,
  };
  Dlrm bench = { .options = options };

  return tps_benchmark_run (&benchmark, &options->run, &bench);
}

gint
main (gint argc, gchar **argv)
{
  g_autoptr (GError) error = NULL;
  g_auto (TpsDlrmOptions) options = { 0 };

  tps_benchmark_init ();
  if (!tps_dlrm_options_parse (&options, argc, argv, &error))
    return tps_benchmark_refuse (NAME, error);
  return options.role != NULL ? tps_dlrm_run_role (&options) : run_benchmark (&options);
}

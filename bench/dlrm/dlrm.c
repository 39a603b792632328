/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Trains a recommender on a click log. The systems are trainers with tables on servers, and a
 * single process that has its own tables and trains on the same steps. Their predictions must
 * agree.
 *
 * A task of the engine is a number of further steps of one system. The main figure is the number of
 * samples per second, a median over the rounds. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/dlrm/click_log.h"
#include "bench/dlrm/options.h"
#include "bench/dlrm/quality.h"
#include "bench/dlrm/role.h"
#include "bench/engine/benchmark.h"
#include "bench/process/child.h"
#include "bench/process/interrupt.h"
#include "bench/process/runfiles.h"
#include "bench/report/figures.h"
#include "bench/report/grid.h"
#include "bench/served/served.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define NAME "dlrm"
#define ROW "dlrm"
#define SERVERS "servers"
#define LOCAL "local"

/* The largest difference between the predictions of two systems, in log loss and in AUC. Sums in
 * another order differ by rounding, and training enlarges such differences. With optimizers other
 * than SGD, the order of the pushes of several trainers matters, too. */
#define TOLERANCE 1e-3
#define TOLERANCE_OF_ORDER 2e-2

#define USUAL_SAMPLES_PER_S 10000.0 /* for the estimate of the time */

/* A system that trains, and its processes, which follow the protocol of role.h: trainers with
 * tables on servers, the single process, or a peer that trains the same samples with a process for
 * each trainer (../peers/pytorch_dlrm.py, ../peers/torchrec_dlrm.py). */
typedef struct
{
  const gchar *name, *title, *script; /* of peers also the column of ratios and the file; static */
  GPtrArray *children;                /* of TpsChild */
  guint64 n_steps;                    /* number of steps so far */
  GArray *log_loss, *auc;             /* of gdouble, of each measured pass */
  gchar *version;                     /* of a peer, such as "torch 2.14.1" */
  gchar *reason; /* why a peer is left out, which then has no processes; NULL = takes part */
} System;

typedef struct
{
  const TpsDlrmOptions *options;
  TpsBenchRun *run;
  TpsFigures *figures;  /* owned by the run */
  const gchar *folder;  /* of sockets and of the files of passes; borrowed */
  GPtrArray *servers;   /* with the tables; of TpsServed */
  gchar *addresses;     /* of the servers, separated by commas */
  GPtrArray *systems;   /* of System: trainers, the single process unless left out, peers */
  System *ours, *local; /* elements of `systems`; `local` NULL = left out */
} Dlrm;

static const System peer_kinds[] = {
  { .name = TPS_DLRM_PYTORCH, .title = "/ pytorch", .script = "bench/peers/pytorch_dlrm.py" },
  { .name = TPS_DLRM_TORCHREC, .title = "/ torchrec", .script = "bench/peers/torchrec_dlrm.py" },
};

static void
system_free (gpointer data)
{
  System *system = data;

  g_ptr_array_unref (system->children);
  g_array_unref (system->log_loss);
  g_array_unref (system->auc);
  g_free (system->version);
  g_free (system->reason);
  g_free (system);
}

/* Adds a system without processes, with the static fields of `kind`. */
static System *
add_system (Dlrm *bench, const System *kind)
{
  System *system = g_new0 (System, 1);

  *system = *kind;
  system->children = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_child_free);
  system->log_loss = g_array_new (FALSE, FALSE, sizeof (gdouble));
  system->auc = g_array_new (FALSE, FALSE, sizeof (gdouble));
  g_ptr_array_add (bench->systems, system);
  return system;
}

/* Starts the next process of a system. */
static TpsChild *
start_process (Dlrm *bench, System *system, gchar **argv, GError **error)
{
  g_autofree gchar *name = g_strdup_printf ("%s, process %u", system->name, system->children->len);
  TpsChild *child = tps_child_start (bench->run->supervisor, name, argv, error);

  if (child != NULL)
    g_ptr_array_add (system->children, child);
  return child;
}

/* Waits until all processes are ready. */
static gboolean
wait_until_ready (System *system, GError **error)
{
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *answer = tps_child_receive (system->children->pdata[i], error);

      if (answer != NULL && g_str_equal (answer, "ready"))
        continue;
      if (answer != NULL)
        g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s: %.500s", system->name, answer);
      return FALSE;
    }
  return TRUE;
}

static gchar *
get_path (const Dlrm *bench, const System *system, guint child)
{
  return g_strdup_printf ("%s/%s-%u.pass", bench->folder, system->name, child);
}

/* Orders all processes to train the next `n_steps` steps. `pass` receives the measurements of all
 * processes. Returns the seconds of the slowest process; negative with an error. */
static gdouble
run_steps (const Dlrm *bench, System *system, guint n_steps, TpsDlrmPass *pass, GError **error)
{
  gdouble slowest = 0;

  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *path = get_path (bench, system, i);
      g_autofree gchar *line = g_strdup_printf ("%" G_GUINT64_FORMAT " %u %s", system->n_steps,
                                                n_steps, path);

      if (!tps_child_send (system->children->pdata[i], line, error))
        return -1;
    }
  system->n_steps += n_steps;
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *path = get_path (bench, system, i);
      gdouble seconds = tps_child_receive_seconds (system->children->pdata[i], NULL, error);

      if (seconds < 0 || !tps_dlrm_pass_take (pass, path, n_steps, error))
        return -1;
      slowest = MAX (slowest, seconds);
    }
  return slowest;
}

/* -- the servers with the tables -- */

#define DIVIDED_ROWS 1000 /* tables with fewer rows are on one server */
#define FILL_NS (G_GINT64_CONSTANT (600) * 1000000000)

/* Creates the tables: large ones on all servers, by hash; each small one on one server. */
static gboolean
create_tables (const Dlrm *bench, GError **error)
{
  const TpsDlrmOptions *o = bench->options;
  g_auto (GStrv) addresses = g_strsplit (bench->addresses, ",", -1);
  guint n_servers = bench->servers->len;
  TpsRemoteTablesOptions remote = { .addresses = (const gchar *const *) addresses,
                                    .n_addresses = n_servers };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&remote, error);

  for (guint t = 0; tables != NULL && t < TPS_CLICK_TABLES; t++)
    {
      gboolean is_divided = n_servers > 1 && o->shape.rows[t] >= DIVIDED_ROWS;
      TpsTablePlacement placement = { .kind = is_divided ? TPS_SHARD_HASH : TPS_SHARD_WHOLE,
                                      .server = is_divided ? 0 : t % n_servers };
      g_auto (TpsTableSpec) spec = { 0 };

      tps_dlrm_table_spec_init (&spec, o, t);
      if (!tps_remote_tables_create_spec (tables, &spec, &placement, tps_clock_now_ns () + FILL_NS,
                                          error))
        return FALSE;
    }
  return tables != NULL;
}

static gboolean
start_servers (Dlrm *bench, GError **error)
{
  gboolean is_tcp = g_str_equal (bench->options->transport, "tcp");
  GString *addresses = g_string_new (NULL);
  TpsServed *server = NULL;

  for (gint i = 0; i < bench->options->n_servers; i++)
    {
      g_autofree gchar *name = g_strdup_printf ("server %d", i);
      g_autofree gchar *flags = is_tcp ? g_strdup ("--listen=127.0.0.1:0")
                                       : g_strdup_printf ("--listen=unix:%s/server%d.sock",
                                                          bench->folder, i);

      server = tps_served_start (bench->run->supervisor, name, NULL, flags, 1, error);
      if (server == NULL)
        break;
      g_ptr_array_add (bench->servers, server);
      g_string_append_printf (addresses, "%s%s", i > 0 ? "," : "", server->addresses[0]);
    }
  bench->addresses = g_string_free (addresses, FALSE);
  return server != NULL && create_tables (bench, error);
}

/* -- the phases of a step -- */

static const TpsQuantity phases[TPS_DLRM_N_PHASES] = {
  { " ids", "ms" },     { " lookup", "ms" }, { " forward", "ms" }, { " backward", "ms" },
  { " average", "ms" }, { " push", "ms" },   { " step", "ms" },
};

static gdouble
add_up (const GArray *samples)
{
  gdouble sum = 0;

  for (guint i = 0; i < samples->len; i++)
    sum += g_array_index (samples, gdouble, i);
  return sum;
}

/* Formats the percentiles of our trainers' phases, and their shares of the time of all steps. */
static gchar *
format_phases (const TpsFigures *figures)
{
  const gchar *const headers[] = { SERVERS ", ms", "p50", "p95", "p99", "share, %" };
  TpsGrid *grid = tps_grid_new (headers, G_N_ELEMENTS (headers));
  const GArray *steps = tps_figures_get_samples (figures, SERVERS, ROW, &phases[TPS_DLRM_STEP]);

  for (guint phase = 0; steps != NULL && phase < TPS_DLRM_N_PHASES; phase++)
    {
      const GArray *samples = tps_figures_get_samples (figures, SERVERS, ROW, &phases[phase]);
      gdouble numbers[] = { tps_percentile (samples, 50), tps_percentile (samples, 95),
                            tps_percentile (samples, 99), 100 * add_up (samples) / add_up (steps) };

      tps_grid_add_row (grid, phases[phase].suffix + 1, numbers);
    }
  return tps_grid_free_to_string (grid);
}

/* -- samples of peers -- */

static gboolean
write_batch (FILE *file, const TpsClickShape *shape, const TpsClickBatch *batch)
{
  gsize n = batch->n_samples;
  gboolean ok = fwrite (batch->labels, sizeof *batch->labels, n, file) == n
                && fwrite (batch->dense, TPS_CLICK_DENSE * sizeof *batch->dense, n, file) == n;

  for (guint t = 0; ok && t < TPS_CLICK_TABLES; t++)
    ok = fwrite (batch->ids[t], shape->bag_length[t] * sizeof *batch->ids[t], n, file) == n;
  return ok;
}

/* Writes the samples of all steps. */
static gboolean
write_samples (const TpsDlrmOptions *options, const gchar *path, GError **error)
{
  guint64 n_steps = tps_dlrm_options_get_warm_up (options)
                    + (guint64) options->run.repeats * (guint64) options->steps;
  guint64 n_samples = (guint64) options->n_trainers * (guint64) options->batch;
  g_auto (TpsClickBatch) batch = { 0 };
  TpsSyntheticLog log;
  FILE *file = fopen (path, "we");
  gboolean ok = file != NULL;

  tps_dlrm_options_init_log (options, &log);
  tps_click_batch_init (&batch, &options->shape, n_samples);
  for (guint64 step = 0; ok && step < n_steps; step++)
    {
      tps_synthetic_log_fill (&log, step * n_samples, &batch);
      ok = write_batch (file, &options->shape, &batch);
    }
  if (file != NULL && fclose (file) != 0)
    ok = FALSE;
  if (!ok)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: cannot be written", path);
  return ok;
}

/* -- peers -- */

static gchar *
join_numbers (const TpsClickShape *shape, gboolean is_rows)
{
  GString *text = g_string_new (NULL);

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, t > 0 ? "," : "",
                            is_rows ? shape->rows[t] : (gint64) shape->bag_length[t]);
  return g_string_free (text, FALSE);
}

/* Starts the next rank. Returns its first line, which the caller owns; NULL with an error. */
static gchar *
start_rank (Dlrm *bench, System *peer, GError **error)
{
  const TpsDlrmOptions *o = bench->options;
  g_autofree gchar *script = tps_bench_find_file (peer->script, error);
  g_autofree gchar *rows = join_numbers (&o->shape, TRUE);
  g_autofree gchar *lengths = join_numbers (&o->shape, FALSE);
  g_autofree gchar *name = g_strdup_printf ("%s, process %u", peer->name, peer->children->len);
  g_auto (GStrv) argv = NULL;
  TpsChild *child;
  gchar *line;

  if (script == NULL)
    return NULL;
  argv = tps_argv_format ("%s\n%s\n--samples=%s/samples\n--batch=%" G_GINT64_FORMAT
                          "\n--dim=%" G_GINT64_FORMAT "\n--rows=%s\n--bag-lengths=%s"
                          "\n--optimizer=%s\n--lr=%.17g\n--threads=%d\n--seed=%" G_GINT64_FORMAT
                          "\n--ranks=%d\n--rank=%u\n--store=%s/%s.store",
                          tps_bench_find_python (), script, bench->folder, o->batch, o->dim, rows,
                          lengths, tps_optimizer_kind_name (o->table_optimizer.kind), o->lr,
                          o->n_threads, o->seed, o->n_trainers, peer->children->len, bench->folder,
                          peer->name);
  child = start_process (bench, peer, argv, error);
  line = child != NULL ? tps_child_receive (child, error) : NULL;
  /* A peer that is left out must not end the run. */
  if (child != NULL && line == NULL)
    tps_supervisor_forget_dead (bench->run->supervisor, name, NULL);
  return line;
}

/* Starts a peer, or sets the reason why it cannot run here. Returns FALSE if the run must end. */
static gboolean
start_peer (Dlrm *bench, System *peer, GError **error)
{
  g_autoptr (GError) failure = NULL;
  g_autofree gchar *line = start_rank (bench, peer, &failure);

  if (line == NULL && tps_interrupt_is_set ())
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (line == NULL || !g_str_has_prefix (line, "torch "))
    {
      peer->reason = g_strdup (line == NULL                       ? failure->message
                               : g_str_has_prefix (line, "skip ") ? line + strlen ("skip ")
                                                                  : line);
      if (line != NULL)
        tps_child_kill (peer->children->pdata[0]);
      g_ptr_array_set_size (peer->children, 0);
      return TRUE;
    }
  peer->version = g_steal_pointer (&line);
  /* The other ranks find the same libraries. */
  for (gint rank = 1; rank < bench->options->n_trainers; rank++)
    {
      g_autofree gchar *version = start_rank (bench, peer, error);

      if (version == NULL)
        return FALSE;
    }
  return wait_until_ready (peer, error);
}

static gboolean
start_peers (Dlrm *bench, GError **error)
{
  const gchar *wanted = bench->options->run.peer;
  g_autofree gchar *samples = g_build_filename (bench->folder, "samples", NULL);

  if (wanted == NULL)
    return TRUE;
  if (!write_samples (bench->options, samples, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (peer_kinds); i++)
    if (g_str_equal (wanted, peer_kinds[i].name) || g_str_equal (wanted, "both"))
      {
        System *peer = add_system (bench, &peer_kinds[i]);
        TpsFigureLimit limit = { .name = peer->name, .title = peer->title };

        if (!start_peer (bench, peer, error))
          return FALSE;
        if (peer->reason != NULL)
          continue;
        limit.version = peer->version;
        tps_figures_add_limit (bench->figures, &limit);
        printf ("%s: %s\n", peer->name, peer->version);
      }
  printf ("%s", tps_bench_describe_python ());
  return TRUE;
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
start_role (Dlrm *bench, System *system, const gchar *role, guint rank, GError **error)
{
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *given = g_strjoinv ("\n", bench->options->given + 1);
  g_auto (GStrv) argv = tps_argv_format ("%s\n%s\n--role=%s\n--rank=%u\n--addresses=%s", program,
                                         given, role, rank, bench->addresses);

  return start_process (bench, system, argv, error) != NULL;
}

static gboolean
start_systems (Dlrm *bench, GError **error)
{
  bench->ours = add_system (bench, &(System) { .name = SERVERS });
  for (guint rank = 0; rank < (guint) bench->options->n_trainers; rank++)
    if (!start_role (bench, bench->ours, "trainer", rank, error))
      return FALSE;
  if (!wait_until_ready (bench->ours, error))
    return FALSE;
  if (bench->options->no_reference)
    return TRUE;
  bench->local = add_system (bench, &(System) { .name = LOCAL });
  return start_role (bench, bench->local, LOCAL, 0, error)
         && wait_until_ready (bench->local, error);
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

/* Compares the systems after a round. Stale rows may cause larger differences: no check. */
static gboolean
check_quality (const Dlrm *bench, GError **error)
{
  gdouble tolerance = get_tolerance (bench->options);

  return bench->local == NULL || bench->options->staleness > 0
         || (check_close (tolerance, "log loss", bench->ours->log_loss, bench->local->log_loss,
                          error)
             && check_close (tolerance, "AUC", bench->ours->auc, bench->local->auc, error));
}

static void
add_quality (Dlrm *bench, System *system, TpsDlrmPass *pass)
{
  gdouble log_loss = tps_quality_get_log_loss (pass->predictions);
  gdouble auc = tps_quality_get_auc (pass->predictions);

  g_array_append_val (system->log_loss, log_loss);
  g_array_append_val (system->auc, auc);
  tps_figures_add (bench->figures, system->name, ROW, &log_loss_quantity, log_loss);
  if (!isnan (auc))
    tps_figures_add (bench->figures, system->name, ROW, &auc_quantity, auc);
}

static gdouble
count_samples (const Dlrm *bench, gint64 n_steps)
{
  return (gdouble) (n_steps * bench->options->batch * bench->options->n_trainers);
}

static gboolean
run_task (gpointer user_data, gpointer which, G_GNUC_UNUSED gpointer row, gboolean is_warm_up,
          GError **error)
{
  Dlrm *bench = user_data;
  System *system = which;
  g_auto (TpsDlrmPass) pass = { 0 };
  gdouble seconds;

  tps_dlrm_pass_init (&pass);
  seconds = run_steps (bench, system,
                       is_warm_up ? tps_dlrm_options_get_warm_up (bench->options)
                                  : (guint) bench->options->steps,
                       &pass, error);
  if (seconds < 0 || is_warm_up)
    return seconds >= 0;
  tps_figures_add (bench->figures, system->name, ROW, &rate,
                   count_samples (bench, bench->options->steps) / seconds);
  for (guint i = 0; i < pass.times->len; i++)
    tps_figures_add (bench->figures, system->name, ROW, &phases[i % TPS_DLRM_N_PHASES],
                     g_array_index (pass.times, gdouble, i));
  add_quality (bench, system, &pass);
  return check_quality (bench, error);
}

static gboolean
prepare (gpointer user_data, TpsBenchRun *run, GError **error)
{
  Dlrm *bench = user_data;
  TpsFigureLimit local = { .name = LOCAL, .title = "/ local" };

  bench->run = run;
  bench->figures = run->figures;
  bench->folder = tps_benchmark_get_folder (run, error);
  tps_engine_set_phase (run->engine, "the servers and trainers start");
  if (bench->folder == NULL || !start_servers (bench, error) || !start_systems (bench, error)
      || !start_peers (bench, error))
    return FALSE;
  if (bench->local != NULL)
    tps_figures_add_limit (bench->figures, &local);
  tps_engine_begin_row (run->engine);
  for (guint i = 0; i < bench->systems->len; i++)
    {
      System *system = bench->systems->pdata[i];
      guint n_warm_up = tps_dlrm_options_get_warm_up (bench->options);
      TpsTask task = { .run = run_task, .bench = bench, .system = system };

      task.warm_up_s = count_samples (bench, n_warm_up) / USUAL_SAMPLES_PER_S;
      task.measured_s = count_samples (bench, bench->options->steps) / USUAL_SAMPLES_PER_S;
      if (system->reason == NULL)
        tps_engine_add (run->engine, &task, "%s", system->name);
    }
  return TRUE;
}

/* Ends the processes. Results stay for the report. */
static void
stop (gpointer user_data)
{
  Dlrm *bench = user_data;

  for (guint i = 0; i < bench->systems->len; i++)
    g_ptr_array_set_size (((System *) bench->systems->pdata[i])->children, 0);
  g_ptr_array_set_size (bench->servers, 0);
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
print_report (gpointer user_data)
{
  const Dlrm *bench = user_data;
  g_autofree gchar *text = format_phases (bench->figures);

  printf ("\n%s", text);
  if (bench->local != NULL && bench->options->staleness == 0)
    printf ("\nlog loss and AUC of the servers' trainers and of the single process differ by at "
            "most %g\n",
            get_tolerance (bench->options));
  printf ("\n");
  for (guint i = 1; i < bench->systems->len; i++)
    {
      const System *system = bench->systems->pdata[i];

      if (system->reason == NULL)
        print_paired_ratio (bench, system->name);
      else
        printf ("%s is left out: %s\n", system->name, system->reason);
    }
}

static void
add_output (gpointer user_data, TpsBenchOutput *output)
{
  const Dlrm *bench = user_data;
  g_autofree gchar *rows = g_strdup_printf ("%" G_GINT64_FORMAT,
                                            tps_click_shape_count_rows (&bench->options->shape));

  tps_bench_output_add_fact (output, "rows", rows);
  for (guint i = 0; i < bench->systems->len; i++)
    {
      const System *system = bench->systems->pdata[i];
      g_autofree gchar *name = g_strconcat (system->name, " is left out", NULL);

      if (system->reason != NULL)
        tps_bench_output_add_fact (output, name, system->reason);
    }
}

static gint
run_benchmark (const TpsDlrmOptions *options)
{
  static const TpsBenchmark benchmark = {
    .command_line = &tps_dlrm_command_line,
    .note = note,
    .prepare = prepare,
    .stop = stop,
    .style = &style,
    .print_report = print_report,
    .add_output = add_output,
  };
  Dlrm bench = { .options = options,
                 .servers = g_ptr_array_new_with_free_func ((GDestroyNotify) tps_served_free),
                 .systems = g_ptr_array_new_with_free_func (system_free) };
  gint status = tps_benchmark_run (&benchmark, &options->run, &bench);

  g_ptr_array_unref (bench.servers);
  g_ptr_array_unref (bench.systems);
  g_free (bench.addresses);
  return status;
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

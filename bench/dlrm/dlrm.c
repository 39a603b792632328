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
#include "bench/dlrm/pass_file.h"
#include "bench/dlrm/role.h"
#include "bench/engine/benchmark.h"
#include "bench/process/child.h"
#include "bench/process/interrupt.h"
#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "bench/process/supervisor.h"
#include "bench/report/figures.h"
#include "bench/report/grid.h"
#include "bench/report/percentile.h"
#include "bench/served/served.h"
#include "plugin/client/remote_tables.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

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

/* A system that trains, and its processes. The processes follow the protocol of role.h. */

/* A system and its results. */
typedef struct
{
  const gchar *name;   /* "servers"; static */
  GPtrArray *children; /* of TpsChild */
  const gchar *folder; /* of the files of passes; borrowed */
  guint64 n_steps;     /* number of steps so far */

  /* Results of each measured pass; of gdouble. Filled by the caller. */
  GArray *log_loss, *auc;
} System;

static void
free_child (gpointer child)
{
  tps_child_free (child);
}

/* Creates a system without processes. `name` is static; `folder` is borrowed. */
static System *
system_new (const gchar *name, const gchar *folder)
{
  System *system = g_new0 (System, 1);

  system->name = name;
  system->folder = folder;
  system->children = g_ptr_array_new_with_free_func (free_child);
  system->log_loss = g_array_new (FALSE, FALSE, sizeof (gdouble));
  system->auc = g_array_new (FALSE, FALSE, sizeof (gdouble));
  return system;
}

static void
system_free (System *system)
{
  g_ptr_array_unref (system->children);
  g_array_unref (system->log_loss);
  g_array_unref (system->auc);
  g_free (system);
}

G_DEFINE_AUTOPTR_CLEANUP_FUNC (System, system_free)

/* Starts a process `argv`, ended by NULL. */
static gboolean
system_start (System *system, TpsSupervisor *supervisor, gchar **argv, GError **error)
{
  g_autofree gchar *name = g_strdup_printf ("%s, process %u", system->name, system->children->len);
  TpsChild *child = tps_child_start (supervisor, name, argv, error);

  if (child != NULL)
    g_ptr_array_add (system->children, child);
  return child != NULL;
}

static gboolean
check_answer (const System *system, const gchar *answer, const gchar *expected, GError **error)
{
  if (answer == NULL)
    return FALSE;
  if (g_str_has_prefix (answer, expected))
    return TRUE;
  g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL, "%s: %.500s", system->name, answer);
  return FALSE;
}

/* Waits until all processes are ready. */
static gboolean
system_wait (System *system, GError **error)
{
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *answer = tps_child_receive (system->children->pdata[i], error);

      if (!check_answer (system, answer, "ready", error))
        return FALSE;
    }
  return TRUE;
}

static gchar *
get_path (const System *system, guint child)
{
  return g_strdup_printf ("%s/%s-%u.pass", system->folder, system->name, child);
}

static gboolean
order (System *system, guint n_steps, GError **error)
{
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *path = get_path (system, i);
      g_autofree gchar *line = g_strdup_printf ("%" G_GUINT64_FORMAT " %u %s", system->n_steps,
                                                n_steps, path);

      if (!tps_child_send (system->children->pdata[i], line, error))
        return FALSE;
    }
  system->n_steps += n_steps;
  return TRUE;
}

/* Orders all processes to train the next `n_steps` steps. `pass` receives the measurements of all
 * processes. Returns the seconds of the slowest process; negative with an error. */
static gdouble
system_run (System *system, guint n_steps, TpsDlrmPass *pass, GError **error)
{
  gdouble slowest = 0;

  if (!order (system, n_steps, error))
    return -1;
  for (guint i = 0; i < system->children->len; i++)
    {
      g_autofree gchar *answer = tps_child_receive (system->children->pdata[i], error);
      g_autofree gchar *path = get_path (system, i);

      if (!check_answer (system, answer, "ok ", error)
          || !tps_dlrm_pass_take (pass, path, n_steps, error))
        return -1;
      slowest = MAX (slowest, g_ascii_strtod (answer + strlen ("ok "), NULL));
    }
  return slowest;
}

/* The servers with the tables: processes of thriftps_server. */

#define DIVIDED_ROWS 1000 /* tables with fewer rows are on one server */
#define FILL_NS (G_GINT64_CONSTANT (600) * 1000000000)

typedef struct
{
  GPtrArray *servers; /* of TpsServed */
  gchar *addresses;
} Cluster;

static void
free_server (gpointer server)
{
  tps_served_free (server);
}

static gchar *
start_server (Cluster *cluster, const TpsDlrmOptions *options, TpsSupervisor *supervisor,
              const gchar *folder, guint number, GError **error)
{
  g_autofree gchar *name = g_strdup_printf ("server %u", number);
  g_autofree gchar *listen = g_str_equal (options->transport, "tcp")
                                 ? g_strdup ("--listen=127.0.0.1:0")
                                 : g_strdup_printf ("--listen=unix:%s/server%u.sock", folder,
                                                    number);
  gchar *flags[] = { listen, NULL };
  TpsServed *server = tps_served_start (supervisor, name, NULL, flags, 1, error);

  if (server == NULL)
    return NULL;
  g_ptr_array_add (cluster->servers, server);
  return g_strdup (server->addresses[0]);
}

static gboolean
start_servers (Cluster *cluster, const TpsDlrmOptions *options, TpsSupervisor *supervisor,
               const gchar *folder, GError **error)
{
  g_autoptr (GPtrArray) addresses = g_ptr_array_new_with_free_func (g_free);

  for (guint i = 0; i < (guint) options->n_servers; i++)
    {
      gchar *address = start_server (cluster, options, supervisor, folder, i, error);

      if (address == NULL)
        return FALSE;
      g_ptr_array_add (addresses, address);
    }
  g_ptr_array_add (addresses, NULL);
  cluster->addresses = g_strjoinv (",", (gchar **) addresses->pdata);
  return TRUE;
}

static gboolean
create_tables (const Cluster *cluster, const TpsDlrmOptions *options, GError **error)
{
  g_auto (GStrv) addresses = g_strsplit (cluster->addresses, ",", -1);
  guint n_servers = g_strv_length (addresses);
  TpsRemoteTablesOptions remote = { .addresses = (const gchar *const *) addresses,
                                    .n_addresses = n_servers };
  g_autoptr (TpsRemoteTables) tables = tps_remote_tables_new (&remote, error);

  for (guint t = 0; tables != NULL && t < TPS_CLICK_TABLES; t++)
    {
      gboolean is_divided = n_servers > 1 && options->shape.rows[t] >= DIVIDED_ROWS;
      TpsTablePlacement placement = { .kind = is_divided ? TPS_SHARD_HASH : TPS_SHARD_WHOLE,
                                      .server = is_divided ? 0 : t % n_servers };
      g_auto (TpsTableSpec) spec = { 0 };

      tps_dlrm_table_spec_init (&spec, options, t);
      if (!tps_remote_tables_create_spec (tables, &spec, &placement, tps_clock_now_ns () + FILL_NS,
                                          error))
        return FALSE;
    }
  return tables != NULL;
}

static void
cluster_free (Cluster *cluster)
{
  g_ptr_array_unref (cluster->servers);
  g_free (cluster->addresses);
  g_free (cluster);
}

/* Starts the servers and creates the tables. Large tables are divided over all servers by hash;
 * each small table is on one server. `folder` is for sockets. */
static Cluster *
cluster_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor, const gchar *folder,
               GError **error)
{
  Cluster *cluster = g_new0 (Cluster, 1);

  cluster->servers = g_ptr_array_new_with_free_func (free_server);
  if (start_servers (cluster, options, supervisor, folder, error)
      && create_tables (cluster, options, error))
    return cluster;
  cluster_free (cluster);
  return NULL;
}

/* Returns the addresses of the servers, separated by commas. */
static const gchar *
cluster_get_addresses (const Cluster *cluster)
{
  return cluster->addresses;
}

/* The phases of a step as a table. */

/* Returns the quantity of a phase, for figures such as "servers lookup". */
static const TpsQuantity *
phase_get_quantity (TpsDlrmPhase phase)
{
  static const TpsQuantity quantities[TPS_DLRM_N_PHASES] = {
    { " ids", "ms" },     { " lookup", "ms" }, { " forward", "ms" }, { " backward", "ms" },
    { " average", "ms" }, { " push", "ms" },   { " step", "ms" },
  };

  return &quantities[phase];
}

/* Adds the times of a pass to the figures. `system` is static; `row` is copied. */
static void
phases_add (TpsFigures *figures, const gchar *system, const gchar *row, const TpsDlrmPass *pass)
{
  for (guint i = 0; i < pass->times->len; i++)
    tps_figures_add (figures, system, row, phase_get_quantity (i % TPS_DLRM_N_PHASES),
                     g_array_index (pass->times, gdouble, i));
}

static gdouble
add_up (const GArray *samples)
{
  gdouble sum = 0;

  for (guint i = 0; i < samples->len; i++)
    sum += g_array_index (samples, gdouble, i);
  return sum;
}

/* Formats the percentiles of all phases of a system, and the share of each phase in the total time
 * of all steps. */
static gchar *
phases_format (const TpsFigures *figures, const gchar *system, const gchar *row)
{
  g_autofree gchar *title = g_strdup_printf ("%s, ms", system);
  const gchar *const headers[] = { title, "p50", "p95", "p99", "share, %" };
  TpsGrid *grid = tps_grid_new (headers, G_N_ELEMENTS (headers));
  const GArray *steps = tps_figures_get_samples (figures, system, row,
                                                 phase_get_quantity (TPS_DLRM_STEP));

  for (TpsDlrmPhase phase = 0; steps != NULL && phase < TPS_DLRM_N_PHASES; phase++)
    {
      const GArray *samples = tps_figures_get_samples (figures, system, row,
                                                       phase_get_quantity (phase));
      gdouble numbers[] = { tps_percentile (samples, 50), tps_percentile (samples, 95),
                            tps_percentile (samples, 99), 100 * add_up (samples) / add_up (steps) };

      tps_grid_add_row (grid, tps_dlrm_phase_name (phase), numbers);
    }
  return tps_grid_free_to_string (grid);
}

/* Peers that train the same samples, with a process for each trainer: PyTorch
 * (../peers/pytorch_dlrm.py) and TorchRec (../peers/torchrec_dlrm.py). */

/* A peer; the strings are owned unless stated otherwise. */
typedef struct
{
  const gchar *name;  /* "pytorch"; static */
  const gchar *title; /* of the column of ratios; static */
  System *system;     /* NULL = left out */
  gchar *version;     /* such as "torch 2.14.1"; NULL = left out */
  gchar *reason;      /* why the peer is left out; NULL = takes part */
} Peer;

typedef struct
{
  const gchar *name, *title, *script;
} PeerKind;

static const PeerKind peer_kinds[] = {
  { TPS_DLRM_PYTORCH, "/ pytorch", "bench/peers/pytorch_dlrm.py" },
  { TPS_DLRM_TORCHREC, "/ torchrec", "bench/peers/torchrec_dlrm.py" },
};

/* A peer during its start. */
typedef struct
{
  const TpsDlrmOptions *options;
  TpsSupervisor *supervisor;
  const gchar *folder, *samples;
  System *system;
} Start;

/* -- samples -- */

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

static gboolean
write_batches (const TpsDlrmOptions *options, FILE *file, const gchar *path, GError **error)
{
  guint64 n_steps = tps_dlrm_options_get_warm_up (options)
                    + (guint64) options->run.repeats * (guint64) options->steps;
  guint64 n_samples = (guint64) options->n_trainers * (guint64) options->batch;
  g_auto (TpsClickLog) log = { 0 };
  g_auto (TpsClickBatch) batch = { 0 };
  TpsSyntheticLog synthetic;

  tps_dlrm_options_init_log (options, &synthetic);
  if (!tps_click_log_init (&log, &synthetic, options->data, error))
    return FALSE;
  tps_click_batch_init (&batch, &options->shape, n_samples);
  for (guint64 step = 0; step < n_steps; step++)
    {
      if (!tps_click_log_read (&log, step * n_samples, &batch, error))
        return FALSE;
      if (write_batch (file, &options->shape, &batch))
        continue;
      g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: cannot be written", path);
      return FALSE;
    }
  return TRUE;
}

static gboolean
write_samples (const TpsDlrmOptions *options, const gchar *path, GError **error)
{
  FILE *file = fopen (path, "we");
  gboolean ok = file != NULL && write_batches (options, file, path, error);

  if (file != NULL && fclose (file) != 0 && ok)
    ok = FALSE;
  if (!ok && error != NULL && *error == NULL)
    g_set_error (error, TPS_ERROR, TPS_ERROR_UNAVAILABLE, "%s: cannot be written", path);
  return ok;
}

/* -- the processes -- */

static gchar *
join_numbers (const TpsDlrmOptions *options, gboolean is_rows)
{
  GString *text = g_string_new (NULL);

  for (guint t = 0; t < TPS_CLICK_TABLES; t++)
    g_string_append_printf (text, "%s%" G_GINT64_FORMAT, t > 0 ? "," : "",
                            is_rows ? options->shape.rows[t]
                                    : (gint64) options->shape.bag_length[t]);
  return g_string_free (text, FALSE);
}

static void
add_work (const TpsDlrmOptions *options, GPtrArray *argv)
{
  g_autofree gchar *rows = join_numbers (options, TRUE);
  g_autofree gchar *lengths = join_numbers (options, FALSE);

  g_ptr_array_add (argv, g_strdup_printf ("--batch=%" G_GINT64_FORMAT, options->batch));
  g_ptr_array_add (argv, g_strdup_printf ("--dim=%" G_GINT64_FORMAT, options->dim));
  g_ptr_array_add (argv, g_strdup_printf ("--rows=%s", rows));
  g_ptr_array_add (argv, g_strdup_printf ("--bag-lengths=%s", lengths));
  g_ptr_array_add (argv, g_strdup_printf ("--optimizer=%s",
                                          tps_optimizer_kind_name (options->table_optimizer.kind)));
  g_ptr_array_add (argv, g_strdup_printf ("--lr=%.17g", options->lr));
  g_ptr_array_add (argv, g_strdup_printf ("--threads=%d", options->n_threads));
  g_ptr_array_add (argv, g_strdup_printf ("--seed=%" G_GINT64_FORMAT, options->seed));
  g_ptr_array_add (argv, g_strdup_printf ("--ranks=%d", options->n_trainers));
}

static GPtrArray *
make_argv (const Start *start, const gchar *script)
{
  GPtrArray *argv = g_ptr_array_new_with_free_func (g_free);

  g_ptr_array_add (argv, g_strdup (tps_bench_find_python ()));
  g_ptr_array_add (argv, g_strdup (script));
  g_ptr_array_add (argv, g_strdup_printf ("--samples=%s", start->samples));
  add_work (start->options, argv);
  g_ptr_array_add (argv, g_strdup_printf ("--rank=%u", start->system->children->len));
  g_ptr_array_add (argv,
                   g_strdup_printf ("--store=%s/%s.store", start->folder, start->system->name));
  g_ptr_array_add (argv, NULL);
  return argv;
}

/* Starts the next rank. Returns its first line; NULL with an error if it exits first. The caller
 * owns the result. */
static gchar *
start_rank (const Start *start, const gchar *script, GError **error)
{
  GPtrArray *children = start->system->children;
  g_autoptr (GPtrArray) argv = make_argv (start, script);
  g_autofree gchar *name = g_strdup_printf ("%s, process %u", start->system->name, children->len);
  gchar *line;

  if (!system_start (start->system, start->supervisor, (gchar **) argv->pdata, error))
    return NULL;
  line = tps_child_receive (children->pdata[children->len - 1], error);
  /* A peer that is left out must not end the run. */
  if (line == NULL)
    tps_supervisor_forget_dead (start->supervisor, name, NULL);
  return line;
}

/* Starts the other ranks. They find the same libraries as the first rank, so no other rank is left
 * out. */
static gboolean
start_others (const Start *start, const gchar *script, GError **error)
{
  for (gint rank = 1; rank < start->options->n_trainers; rank++)
    {
      g_autofree gchar *line = start_rank (start, script, error);

      if (line == NULL)
        return FALSE;
    }
  return system_wait (start->system, error);
}

/* Returns the reason why a peer is left out: its line "skip REASON", or the failure. */
static gchar *
get_reason (const gchar *line, const GError *failure)
{
  if (line == NULL)
    return g_strdup (failure->message);
  return g_strdup (g_str_has_prefix (line, "skip ") ? line + strlen ("skip ") : line);
}

/* Starts a peer, or sets the reason why it is left out. Returns FALSE if the run cannot
 * continue. */
static gboolean
start_one (Start *start, Peer *peer, const gchar *script, GError **error)
{
  g_autoptr (System) system = system_new (peer->name, start->folder);
  g_autoptr (GError) failure = NULL;
  g_autofree gchar *line = NULL;

  start->system = system;
  line = start_rank (start, script, &failure);
  if (line == NULL && tps_interrupt_is_set ())
    {
      g_propagate_error (error, g_steal_pointer (&failure));
      return FALSE;
    }
  if (line == NULL || !g_str_has_prefix (line, "torch "))
    {
      peer->reason = get_reason (line, failure);
      if (line != NULL)
        tps_child_kill (system->children->pdata[0]);
      return TRUE;
    }
  if (!start_others (start, script, error))
    return FALSE;
  peer->version = g_steal_pointer (&line);
  peer->system = g_steal_pointer (&system);
  return TRUE;
}

/* -- peers -- */

static void
free_peer (gpointer data)
{
  Peer *peer = data;

  g_clear_pointer (&peer->system, system_free);
  g_free (peer->version);
  g_free (peer->reason);
  g_free (peer);
}

/* Creates an empty array of Peer. The array owns its elements, and the caller owns the
 * array. */
static GPtrArray *
peers_new (void)
{
  return g_ptr_array_new_with_free_func (free_peer);
}

static gboolean
is_wanted (const TpsDlrmOptions *options, const PeerKind *kind)
{
  return g_str_equal (options->run.peer, kind->name) || g_str_equal (options->run.peer, "both");
}

/* Writes the samples of all steps to a file in `folder`, starts the peers that --peer names, and
 * adds them to `peers`. A peer that cannot run on this machine is added with the reason. */
static gboolean
peers_start (const TpsDlrmOptions *options, TpsSupervisor *supervisor, const gchar *folder,
             GPtrArray *peers, GError **error)
{
  g_autofree gchar *samples = g_build_filename (folder, "samples", NULL);
  Start start = {
    .options = options, .supervisor = supervisor, .folder = folder, .samples = samples
  };

  if (options->run.peer == NULL)
    return TRUE;
  if (!write_samples (options, samples, error))
    return FALSE;
  for (gsize i = 0; i < G_N_ELEMENTS (peer_kinds); i++)
    {
      g_autofree gchar *script = NULL;
      Peer *peer;

      if (!is_wanted (options, &peer_kinds[i]))
        continue;
      script = tps_bench_find_file (peer_kinds[i].script, error);
      if (script == NULL)
        return FALSE;
      peer = g_new0 (Peer, 1);
      peer->name = peer_kinds[i].name;
      peer->title = peer_kinds[i].title;
      g_ptr_array_add (peers, peer);
      if (!start_one (&start, peer, script, error))
        return FALSE;
    }
  return TRUE;
}

typedef struct
{
  const TpsDlrmOptions *options;
  TpsFigures *figures; /* owned by the run */
  Cluster *cluster;
  System *servers;
  System *local;    /* NULL = left out */
  GPtrArray *peers; /* of Peer */
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
start_role (Dlrm *bench, TpsSupervisor *supervisor, System *system, const gchar *role, guint rank,
            GError **error)
{
  g_autoptr (GStrvBuilder) builder = g_strv_builder_new ();
  g_autofree gchar *program = tps_bench_find_program ();
  g_autofree gchar *role_flag = g_strdup_printf ("--role=%s", role);
  g_autofree gchar *rank_flag = g_strdup_printf ("--rank=%u", rank);
  g_autofree gchar *addresses = g_strdup_printf ("--addresses=%s",
                                                 cluster_get_addresses (bench->cluster));
  g_auto (GStrv) argv = NULL;

  g_strv_builder_add (builder, program);
  for (gchar **flag = bench->options->given + 1; *flag != NULL; flag++)
    g_strv_builder_add (builder, *flag);
  g_strv_builder_add_many (builder, role_flag, rank_flag, addresses, NULL);
  argv = g_strv_builder_end (builder);
  return system_start (system, supervisor, argv, error);
}

static gboolean
start_systems (Dlrm *bench, TpsBenchRun *run, GError **error)
{
  bench->servers = system_new (SERVERS, run->folder);
  for (guint rank = 0; rank < (guint) bench->options->n_trainers; rank++)
    if (!start_role (bench, run->supervisor, bench->servers, "trainer", rank, error))
      return FALSE;
  if (!system_wait (bench->servers, error))
    return FALSE;
  if (bench->options->no_reference)
    return TRUE;
  bench->local = system_new (LOCAL, run->folder);
  return start_role (bench, run->supervisor, bench->local, LOCAL, 0, error)
         && system_wait (bench->local, error);
}

static gboolean
start_peers (Dlrm *bench, TpsBenchRun *run, GError **error)
{
  bench->peers = peers_new ();
  if (!peers_start (bench->options, run->supervisor, run->folder, bench->peers, error))
    return FALSE;
  for (guint i = 0; i < bench->peers->len; i++)
    {
      const Peer *peer = bench->peers->pdata[i];
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
  System *system = which;
  g_auto (TpsDlrmPass) pass = { 0 };
  gdouble seconds;

  tps_dlrm_pass_init (&pass);
  seconds = system_run (system, choose_n_steps (bench, is_warm_up), &pass, error);
  if (seconds < 0)
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add (bench->figures, system->name, ROW, &rate,
                   count_samples (bench, FALSE) / seconds);
  phases_add (bench->figures, system->name, ROW, &pass);
  add_quality (bench, system, &pass);
  return check_quality (bench, error);
}

static void
add_task (Dlrm *bench, TpsEngine *engine, System *system)
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
  bench->cluster = cluster_start (bench->options, run->supervisor, folder, error);
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
      const Peer *peer = bench->peers->pdata[i];

      if (peer->system != NULL)
        add_task (bench, run->engine, peer->system);
    }
  return TRUE;
}

static void
stop (gpointer user_data)
{
  Dlrm *bench = user_data;

  g_clear_pointer (&bench->servers, system_free);
  g_clear_pointer (&bench->local, system_free);
  g_clear_pointer (&bench->peers, g_ptr_array_unref);
  g_clear_pointer (&bench->cluster, cluster_free);
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
      const Peer *peer = bench->peers->pdata[i];

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
  g_autofree gchar *phases = phases_format (bench->figures, SERVERS, ROW);

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
      const Peer *peer = bench->peers->pdata[i];
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

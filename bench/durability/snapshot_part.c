/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/durability/parts.h"
#include "bench/process/python.h"
#include "bench/process/runfiles.h"
#include "runtime/base/error.h"
#include "runtime/base/sync.h"

#define SNAPSHOT_ROW "snapshot"
#define RESTORE_ROW "restore"

/* The block size of fio's sequential writes and reads, and the distance of hashed rows. */
#define BLOCK_BYTES ((gsize) 2 << 20)
#define HASHED_STEP 61
/* The distance of the rows that change before a snapshot. A server whose state has not changed
 * writes no snapshot. */
#define CHANGED_STEP 1024

/* For the estimate of the time. */
#define USUAL_BYTES_PER_S 1e9

static gdouble
get_usual_s (const TpsDurabilityBench *bench)
{
  return (gdouble) bench->options->n_bytes / USUAL_BYTES_PER_S;
}

/* -- our servers -- */

static gboolean
measure_snapshot (TpsDurabilityBench *bench, gboolean is_warm_up, gdouble *n_bytes, GError **error)
{
  TpsDurabilityServer *server = bench->large_server;
  TpsChild *child = server->served->child;
  g_auto (TpsWireSnapshotInfo) info = { 0 };
  gsize before;
  gint64 start_ns;
  gdouble seconds;

  tps_child_reset_peak (child);
  before = tps_child_get_resident_bytes (child);
  start_ns = tps_clock_now_ns ();
  if (!tps_remote_snapshot (server->client, FALSE, tps_served_get_deadline (), &info, error))
    return FALSE;
  seconds = (gdouble) (tps_clock_now_ns () - start_ns) / 1e9;
  *n_bytes = (gdouble) info.n_bytes;
  if (*n_bytes < (gdouble) (bench->large.n_rows * bench->large.dim * sizeof (gfloat)))
    {
      g_set_error (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                   "snapshot %s has %.0f bytes, fewer than the table", info.name, *n_bytes);
      return FALSE;
    }
  if (is_warm_up)
    return TRUE;
  tps_figures_add (bench->run->figures, TPS_DURABILITY_OURS, SNAPSHOT_ROW, &tps_durability_gb_per_s,
                   *n_bytes / seconds / 1e9);
  tps_figures_add (bench->run->figures, TPS_DURABILITY_OURS, SNAPSHOT_ROW, &tps_durability_memory,
                   ((gdouble) tps_child_get_peak_bytes (child) - (gdouble) before) / (1 << 20));
  return TRUE;
}

/* Measures the time from the start of the process until it serves, and checks the rows. */
static gboolean
measure_restore (TpsDurabilityBench *bench, gboolean is_warm_up, gdouble n_bytes, GError **error)
{
  guint before, after;
  gdouble seconds;

  if (!tps_durability_server_read (bench->large_server, &bench->large, HASHED_STEP, NULL, &before,
                                   error)
      || !tps_durability_restart_large_server (bench, &seconds, error)
      || !tps_durability_server_read (bench->large_server, &bench->large, HASHED_STEP, NULL, &after,
                                      error))
    return FALSE;
  if (before != after)
    {
      g_set_error_literal (error, TPS_ERROR, TPS_ERROR_INTERNAL,
                           "the table has other rows after a restart");
      return FALSE;
    }
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, TPS_DURABILITY_OURS, RESTORE_ROW,
                     &tps_durability_gb_per_s, n_bytes / seconds / 1e9);
  return TRUE;
}

/* Changes some rows. Pushes twice: a snapshot contains only completed pushes, and a push may be
 * recorded as complete only after its reply. */
static gboolean
change_some (const TpsDurabilityServer *server, const TpsDurabilityBench *bench, GError **error)
{
  for (guint i = 0; i < 2; i++)
    if (!tps_durability_server_push_all (server, &bench->large, CHANGED_STEP, error))
      return FALSE;
  return TRUE;
}

static gboolean
run_ours (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsDurabilityBench *bench = data;
  TpsDurabilityServer *server = tps_durability_get_large_server (bench, error);
  gdouble n_bytes;

  return server != NULL && change_some (server, bench, error)
         && measure_snapshot (bench, is_warm_up, &n_bytes, error)
         && measure_restore (bench, is_warm_up, n_bytes, error);
}

/* -- the limits -- */

static gboolean
run_fio (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsDurabilityBench *bench = data;
  TpsSupervisor *supervisor = bench->run->supervisor;
  TpsFioJob job = { .pattern = TPS_FIO_WRITE,
                    .folder = bench->folder,
                    .n_bytes = (gsize) bench->options->n_bytes,
                    .block_bytes = BLOCK_BYTES };
  gdouble written, read;

  if (!tps_fio_run (supervisor, &job, &written, error))
    return FALSE;
  job.pattern = TPS_FIO_READ;
  if (!tps_fio_run (supervisor, &job, &read, error))
    return FALSE;
  if (is_warm_up)
    return TRUE;
  tps_figures_add (bench->run->figures, TPS_DURABILITY_FIO, SNAPSHOT_ROW, &tps_durability_gb_per_s,
                   written / 1e9);
  tps_figures_add (bench->run->figures, TPS_DURABILITY_FIO, RESTORE_ROW, &tps_durability_gb_per_s,
                   read / 1e9);
  return TRUE;
}

/* -- the peer -- */

static gboolean
run_torch (gpointer data, gpointer system, gpointer row, gboolean is_warm_up, GError **error)
{
  TpsDurabilityBench *bench = data;
  gdouble seconds = tps_child_send (bench->torch, "save", error)
                        ? tps_child_receive_seconds (bench->torch, NULL, error)
                        : -1;

  if (seconds < 0)
    return FALSE;
  if (!is_warm_up)
    tps_figures_add (bench->run->figures, TPS_DURABILITY_TORCH, SNAPSHOT_ROW,
                     &tps_durability_gb_per_s, (gdouble) bench->options->n_bytes / seconds / 1e9);
  return TRUE;
}

/* Returns TRUE if the interpreter has PyTorch; otherwise records that torch.save is skipped. */
static gboolean
has_torch (TpsDurabilityBench *bench)
{
  g_auto (GStrv) argv = tps_argv_format ("%s\n-c\nimport torch", tps_bench_find_python ());
  g_autoptr (GError) local = NULL;
  g_autoptr (TpsChild) child = tps_child_start (bench->run->supervisor, "torch", argv, &local);
  g_autofree gchar *said = child != NULL ? tps_child_receive_all (child, &local) : NULL;

  if (said == NULL)
    tps_durability_skip (bench, "torch.save",
                         "PyTorch is not installed; apt-get install python3-torch");
  return said != NULL;
}

static gboolean
start_torch (TpsDurabilityBench *bench, GError **error)
{
  g_autofree gchar *script = tps_bench_find_file ("bench/peers/pytorch_save.py", error);
  g_autofree gchar *file = g_build_filename (bench->folder, "torch.pt", NULL);
  g_autofree gchar *n_bytes = g_strdup_printf ("%" G_GINT64_FORMAT, bench->options->n_bytes);
  gchar *argv[] = { (gchar *) (gsize) tps_bench_find_python (), script, file, n_bytes, NULL };
  g_autofree gchar *version = NULL;
  TpsFigureLimit limit = { TPS_DURABILITY_TORCH, "/ torch", NULL };

  if (script == NULL)
    return FALSE;
  tps_engine_set_phase (bench->run->engine, "PyTorch starts");
  bench->torch = tps_child_start (bench->run->supervisor, "pytorch", argv, error);
  version = bench->torch != NULL ? tps_child_receive_from_script (bench->torch, error) : NULL;
  limit.version = version;
  if (version != NULL)
    tps_figures_add_limit (bench->run->figures, &limit);
  return version != NULL;
}

/* -- tasks -- */

static void
add_task (TpsDurabilityBench *bench, const gchar *title, TpsTaskRun run, gdouble seconds)
{
  TpsTask task = { .run = run, .bench = bench, .measured_s = seconds };

  tps_engine_add (bench->run->engine, &task, "%s", title);
}

gboolean
tps_durability_prepare_snapshots (TpsDurabilityBench *bench, GError **error)
{
  gdouble seconds = get_usual_s (bench);

  if (!bench->options->no_peers && has_torch (bench) && !start_torch (bench, error))
    return FALSE;
  if (tps_durability_get_large_server (bench, error) == NULL)
    return FALSE;
  tps_engine_begin_row (bench->run->engine);
  add_task (bench, "a snapshot, and a restart", run_ours, 4 * seconds + 1);
  if (bench->fio != NULL)
    add_task (bench, "fio, sequential", run_fio, 2 * seconds + 1);
  if (bench->torch != NULL)
    add_task (bench, "torch.save", run_torch, 3 * seconds);
  return TRUE;
}

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the benchmark. Each adds its tasks to the engine and its samples to the figures. */

#pragma once

#include "bench/durability/fio.h"
#include "bench/durability/load.h"
#include "bench/durability/options.h"
#include "bench/engine/benchmark.h"

G_BEGIN_DECLS

/* Systems of figures. A figure's name consists of row and system; for OURS, of the row only. */
#define TPS_DURABILITY_OURS "thriftps"
#define TPS_DURABILITY_FIO "fio"
#define TPS_DURABILITY_ROCKSDB "RocksDB synced"
#define TPS_DURABILITY_TORCH "torch.save"

/* The recorded period for the plot. */
typedef struct
{
  gint64 snapshot_ns, snapshot_end_ns, kill_ns, live_ns;
  GArray *lookups, *pushes; /* of TpsDurabilityCall; NULL: none */
} TpsDurabilityTimeline;

typedef struct
{
  TpsDurabilityOptions *options;
  TpsBenchRun *run;
  gchar *folder;    /* on the disk */
  gchar *fio;       /* its version; NULL = not measured */
  GPtrArray *skips; /* texts: the skipped parts, with the reasons */

  TpsDurabilityTable pushed, large;
  gboolean writes_snapshots;         /* our servers write snapshots automatically */
  TpsChild *rocksdb, *torch;         /* NULL = not measured */
  TpsDurabilityServerOptions server; /* of `large_server`, which is started on demand */
  TpsDurabilityServer *large_server;
  guint n_timelines;
  TpsDurabilityTimeline timeline;
} TpsDurabilityBench;

/* Quantities of figures. */
extern const TpsQuantity tps_durability_pushes_per_s, tps_durability_lookups_per_s,
    tps_durability_gb_per_s, tps_durability_ms, tps_durability_p50, tps_durability_p99,
    tps_durability_p999, tps_durability_longest, tps_durability_memory, tps_durability_log;

/* Adds rates and percentiles of a run. `quantity` is that of the rate. */
void tps_durability_add_calls (TpsFigures *figures, const gchar *system, const gchar *row,
                               const TpsQuantity *quantity, const GArray *calls);

/* Waits and shows progress. Errors: a process has ended, or the user has interrupted the run. */
gboolean tps_durability_wait (TpsDurabilityBench *bench, gdouble seconds, GError **error);

/* Records that the part `what` is skipped, and the reason. Copies both texts. */
void tps_durability_skip (TpsDurabilityBench *bench, const gchar *what, const gchar *why);

/* Returns the server with the large table, started and filled by the first call. Borrowed; NULL on
 * error. */
TpsDurabilityServer *tps_durability_get_large_server (TpsDurabilityBench *bench, GError **error);

/* Kills that server and restarts it. `seconds`, an output, may be NULL. */
gboolean tps_durability_restart_large_server (TpsDurabilityBench *bench, gdouble *seconds,
                                              GError **error);

/* Fills the options of a server with its data in `name` of the run's folder. The caller must free
 * `data_dir`. Returns FALSE on error. */
gboolean tps_durability_init_server (TpsDurabilityBench *bench, const TpsDurabilityMode *mode,
                                     const gchar *name, TpsDurabilityServerOptions *options,
                                     GError **error);

/* Add the tasks of each part. */
gboolean tps_durability_prepare_pushes (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_snapshots (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_lookups (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_restarts (TpsDurabilityBench *bench, GError **error);

/* Draws bench->timeline to options->plot. Errors: TPS_ERROR_UNAVAILABLE (gnuplot is missing or
 * fails). */
gboolean tps_durability_plot (const TpsDurabilityBench *bench, GError **error);

G_END_DECLS

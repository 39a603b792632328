/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the benchmark: each adds its tasks to the engine and its samples to the figures. */

#pragma once

#include "bench/durability/fio.h"
#include "bench/durability/load.h"
#include "bench/durability/options.h"
#include "bench/engine/benchmark.h"

G_BEGIN_DECLS

/* Systems of figures. The name of a figure is the row and the system; of OURS the row alone. */
#define TPS_DURABILITY_OURS "thriftps"
#define TPS_DURABILITY_FIO "fio"
#define TPS_DURABILITY_ROCKSDB "RocksDB synced"
#define TPS_DURABILITY_TORCH "torch.save"

/* A moment of the run for the plot. */
typedef struct
{
  gint64 snapshot_ns, snapshot_end_ns, kill_ns, live_ns;
  GArray *lookups, *pushes; /* of TpsDurabilityCall; NULL: there was none */
} TpsDurabilityTimeline;

typedef struct
{
  TpsDurabilityOptions *options;
  TpsBenchRun *run;
  gchar *folder;    /* on the disk */
  gchar *fio;       /* its version; NULL = it is not measured */
  GPtrArray *skips; /* texts: the skipped parts, with reasons */

  TpsDurabilityTable pushed, large;
  gboolean writes_snapshots;         /* servers, by themselves */
  TpsChild *rocksdb, *torch;         /* NULL = not measured */
  TpsDurabilityServerOptions server; /* of `large_server`, which is NULL until it is needed */
  TpsDurabilityServer *large_server;
  guint n_timelines;
  TpsDurabilityTimeline timeline;
} TpsDurabilityBench;

/* Quantities of figures. */
extern const TpsQuantity tps_durability_pushes_per_s, tps_durability_lookups_per_s,
    tps_durability_gb_per_s, tps_durability_ms, tps_durability_p50, tps_durability_p99,
    tps_durability_p999, tps_durability_longest, tps_durability_memory, tps_durability_log;

/* Rates and percentiles of a run. `quantity` is that of the rate. */
void tps_durability_add_calls (TpsFigures *figures, const gchar *system, const gchar *row,
                               const TpsQuantity *quantity, const GArray *calls);

/* Waits, while progress is shown. Errors: a process has ended, or interrupted. */
gboolean tps_durability_wait (TpsDurabilityBench *bench, gdouble seconds, GError **error);

/* Remembers that the part `what` is skipped, and the reason. Copies both. */
void tps_durability_skip (TpsDurabilityBench *bench, const gchar *what, const gchar *why);

/* The server with the large table, which is started and filled first if there is none. NULL on
 * error. */
TpsDurabilityServer *tps_durability_get_large_server (TpsDurabilityBench *bench, GError **error);

/* Kills that server and starts it again. `seconds` may be NULL. */
gboolean tps_durability_restart_large_server (TpsDurabilityBench *bench, gdouble *seconds,
                                              GError **error);

/* Of a server that keeps its data in `name` of the run's folder; `data_dir` is the caller's. FALSE
 * on error. */
gboolean tps_durability_init_server (TpsDurabilityBench *bench, const TpsDurabilityMode *mode,
                                     const gchar *name, TpsDurabilityServerOptions *options,
                                     GError **error);

/* Add the tasks of a part. */
gboolean tps_durability_prepare_pushes (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_snapshots (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_lookups (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_restarts (TpsDurabilityBench *bench, GError **error);

/* Draws bench->timeline into options->plot. Errors: TPS_ERROR_UNAVAILABLE (gnuplot is missing or
 * fails). */
gboolean tps_durability_plot (const TpsDurabilityBench *bench, GError **error);

G_END_DECLS

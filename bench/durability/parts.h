/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The parts of the benchmark. Each part adds its tasks to the engine and its samples to the
 * figures. */

#pragma once

#include "bench/durability/fio.h"
#include "bench/durability/load.h"
#include "bench/durability/options.h"
#include "bench/engine/benchmark.h"

G_BEGIN_DECLS

/* The systems of figures. The name of a figure consists of the row and the system; for
 * TPS_DURABILITY_OURS, of the row only. */
#define TPS_DURABILITY_OURS "thriftps"
#define TPS_DURABILITY_FIO "fio"
#define TPS_DURABILITY_ROCKSDB "RocksDB synced"
#define TPS_DURABILITY_TORCH "torch.save"

/* The state that the parts share. */
typedef struct
{
  TpsDurabilityOptions *options;
  TpsBenchRun *run;
  gchar *folder;    /* the folder of the run on the measured disk */
  gchar *fio;       /* the version of fio; NULL = not measured */
  GPtrArray *skips; /* of gchar, the skipped parts with their reasons */

  TpsDurabilityTable pushed, large;
  gboolean writes_snapshots;         /* our servers write automatic snapshots */
  TpsChild *rocksdb, *torch;         /* NULL = not measured */
  TpsDurabilityServerOptions server; /* of `large_server`, which the first use starts */
  TpsDurabilityServer *large_server;
} TpsDurabilityBench;

/* The quantities of figures. */
extern const TpsQuantity tps_durability_pushes_per_s, tps_durability_lookups_per_s,
    tps_durability_gb_per_s, tps_durability_ms, tps_durability_p50, tps_durability_p99,
    tps_durability_p999, tps_durability_longest, tps_durability_memory, tps_durability_log;

/* Adds the rate and percentiles of `calls`, an array of TpsCallTime. `quantity` is the
 * quantity of the rate. Has no effect without calls. */
void tps_durability_add_calls (TpsFigures *figures, const gchar *system, const gchar *row,
                               const TpsQuantity *quantity, const GArray *calls);

/* Waits and shows progress. Errors: ABORTED (a process has exited, or an interrupt). */
gboolean tps_durability_wait (TpsDurabilityBench *bench, gdouble seconds, GError **error);

/* Records that the part `what` is skipped, with the reason `why`, and prints both. The texts are
 * copied. */
void tps_durability_skip (TpsDurabilityBench *bench, const gchar *what, const gchar *why);

/* Returns the server of the large table. The first call starts the server and fills the table.
 * Borrowed until the next restart. Blocks. NULL on error. */
TpsDurabilityServer *tps_durability_get_large_server (TpsDurabilityBench *bench, GError **error);

/* Kills the server of the large table and starts it again. Blocks. `*seconds` receives the time of
 * the start. Errors: those of tps_durability_server_start(). */
gboolean tps_durability_restart_large_server (TpsDurabilityBench *bench, gdouble *seconds,
                                              GError **error);

/* Fills the options of a server whose data are in the subfolder `name` of the run's folder. The
 * caller must free `data_dir`. Errors: those of tps_benchmark_get_folder(). */
gboolean tps_durability_init_server (TpsDurabilityBench *bench, const TpsDurabilityMode *mode,
                                     const gchar *name, TpsDurabilityServerOptions *options,
                                     GError **error);

/* Add the tasks of a part. Errors: those of the processes that a part starts. */
gboolean tps_durability_prepare_pushes (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_snapshots (TpsDurabilityBench *bench, GError **error);
gboolean tps_durability_prepare_lookups (TpsDurabilityBench *bench, GError **error);

G_END_DECLS

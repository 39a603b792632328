/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:parameter_server. */

#pragma once

#include "bench/process/flags.h"
#include "bench/world/world.h"

G_BEGIN_DECLS

/* The value of an unset seed. */
#define TPS_BENCH_NO_SEED G_MININT64

/* Fields are named after their flags; strings are owned. */
typedef struct
{
  TpsWorld world;
  TpsRunFlags run;

  gchar *experiment; /* NULL = none */
  gchar *trainer;
  gint ntrainer;
  gint ncudatrainer;
  gchar *filestore;
  gchar *server;
  gint nserver;
  gint ncudaserver;
  gchar *backend;
  gint epochs;
  gint batch_size;
  gchar *data;
  gchar *model;
  gchar *data_config_path;
  gchar *model_config_path;
  gchar *server_config_path;
  gchar *trainer_config_path;
  gint64 torch_seed; /* TPS_BENCH_NO_SEED: not given */
  gint64 cuda_seed;
  gchar *preprocess_data;
  gchar *create_criterion;
  gchar *create_ddp_model;
  gchar *hook_state;
  gchar *ddp_hook;
  gchar *iteration_step;

  gint64 seed;
  gchar *reduce;
  gchar *compress;
  gdouble learning_rate;
  gchar *partition;
  gchar *peer_transport;
  gdouble first_bucket_mib;
  gdouble bucket_cap_mib;
  gint piece_kib; /* 0 = whole buckets */
} TpsBenchOptions;

/* Parses `argv`, with dashes or underscores in names. Unset flags are then read from the
 * environment of Slurm, MPI and torchrun-style launchers (rank, world size, master address).
 * Relative paths are resolved against the user's working directory. Errors:
 * TPS_ERROR_INVALID_ARGUMENT. */
TpsBenchVerdict tps_bench_options_parse (TpsBenchOptions *options, gint argc, gchar **argv,
                                         GError **error);
void tps_bench_options_clear (TpsBenchOptions *options);

/* Counts both kinds; the CUDA ones come last. */
guint tps_bench_options_count_trainers (const TpsBenchOptions *options);
guint tps_bench_options_count_servers (const TpsBenchOptions *options);

/* Returns the flags and their current values as "name=value", in the order of --help. Owned by the
 * caller. */
GPtrArray *tps_bench_options_describe (const TpsBenchOptions *options);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchOptions, tps_bench_options_clear)

G_END_DECLS

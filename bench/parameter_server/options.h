/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:parameter_server. */

#pragma once

#include "bench/process/flags.h"
#include "bench/world/world.h"

G_BEGIN_DECLS

/* The value of a seed that is not given. */
#define TPS_BENCH_NO_SEED G_MININT64

/* The fields have the names of their flags. Strings are owned. */
typedef struct
{
  TpsRunFlags run;
  TpsWorld world;

  gint ntrainer, ncudatrainer, nserver, ncudaserver, epochs, batch_size;
  gchar *trainer, *filestore, *server, *backend, *data, *model;
  gchar *data_config_path, *model_config_path, *server_config_path, *trainer_config_path;
  gint64 seed, torch_seed, cuda_seed; /* torch_seed: TPS_BENCH_NO_SEED = not given */
  gchar *preprocess_data, *create_criterion, *create_ddp_model;
  gchar *hook_state, *ddp_hook, *iteration_step;

  gchar *reduce, *compress, *partition, *peer_transport;
  gdouble learning_rate, first_bucket_mib, bucket_cap_mib;
  gint piece_kib; /* 0 = whole buckets */
} TpsBenchOptions;

/* Parses `argv`. Then reads flags that are not given from the environment of Slurm, MPI and
 * launchers like torchrun (rank, world size, address of the master). Errors: INVALID_ARGUMENT. */
gboolean tps_bench_options_parse (TpsBenchOptions *options, gint argc, gchar **argv,
                                  GError **error);
/* Frees the strings. */
void tps_bench_options_clear (TpsBenchOptions *options);

/* Return the number of trainers and of servers. Those on CUDA have the last numbers. */
guint tps_bench_options_count_trainers (const TpsBenchOptions *options);
guint tps_bench_options_count_servers (const TpsBenchOptions *options);

/* The flags, for tps_command_line_describe(). */
extern const TpsCommandLine tps_bench_command_line;

/* Checks that all names in `options`, and the classes of its data and model ids, are known and
 * usable on this machine. Errors: NOT_FOUND, with the flag and its possible values; UNAVAILABLE,
 * with the flag and the missing library or device. */
gboolean tps_bench_check_names (const TpsBenchOptions *options, const gchar *data_class,
                                const gchar *model_class, GError **error);

/* Returns the names of all trainer and server classes, which configuration files may contain, ended
 * by NULL. The caller owns the result. */
gchar **tps_bench_list_classes (void);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchOptions, tps_bench_options_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:ddp_rpc. */

#pragma once

#include "bench/process/flags.h"
#include "bench/world/world.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/tensor/optimizer.h"

G_BEGIN_DECLS

/* The fields have the names of their flags. Strings are owned. */
typedef struct
{
  TpsWorld world;
  TpsRunFlags run;

  gint number_trainers;
  gint number_ps;
  gint64 number_embeddings;
  gint64 embedding_dim;
  gint warmup_cycles;
  gint epochs;
  gint batches;
  gint64 seed;
  gchar *optimizer;
  gdouble lr;
  gchar *task;
  gboolean sequential_lookups;
  gboolean host_lookups;
  gboolean growth;
  gchar *trainer_device;
  gchar *table_device;

  TpsOptimizerSpec table_optimizer; /* from --optimizer and --lr */
} TpsDdpRpcOptions;

/* Parses `argv`, in which names may contain dashes or underscores, and the environment. Errors
 * (TPS_BENCH_BAD): INVALID_ARGUMENT. */
TpsBenchVerdict tps_ddp_rpc_options_parse (TpsDdpRpcOptions *options, gint argc, gchar **argv,
                                           GError **error);
/* Frees the strings. */
void tps_ddp_rpc_options_clear (TpsDdpRpcOptions *options);

/* Chooses the place of the tables of this server. Errors: those of tps_device_choose();
 * INVALID_ARGUMENT (the CPU with the suffix /host). */
gboolean tps_ddp_rpc_options_choose_table_place (const TpsDdpRpcOptions *options,
                                                 TpsTablePlace *place, GError **error);

/* Returns a line "name=value" for each flag. The caller owns the result. */
GPtrArray *tps_ddp_rpc_options_describe (const TpsDdpRpcOptions *options);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsDdpRpcOptions, tps_ddp_rpc_options_clear)

G_END_DECLS

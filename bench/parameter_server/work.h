/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the benchmark parameter_server. */

#pragma once

#include "bench/parameter_server/configuration.h"
#include "bench/parameter_server/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

/* The options of a run and the data that are made from them; owned. */
typedef struct
{
  TpsBenchOptions options;
  TpsBenchConfiguration data;
  TpsBenchConfiguration model;
  GVariant *trainer_arguments;
  GPtrArray *dealt; /* of GArray of TpsTrainBatch, the batches of each trainer */
  guint steps_per_epoch;
} TpsBenchWork;

/* Frees the contents of `work`. */
void tps_bench_work_clear (TpsBenchWork *work);

/* Returns a program whose `user_data` must be `work`. The options must have been parsed. */
TpsProgram tps_bench_work_get_program (const TpsBenchWork *work);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchWork, tps_bench_work_clear)

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the parameter-server benchmark. */

#pragma once

#include "bench/parameter_server/configuration.h"
#include "bench/parameter_server/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

typedef struct
{
  TpsBenchOptions options;
  TpsBenchConfiguration data;
  TpsBenchConfiguration model;
  GVariant *trainer_arguments;
  GPtrArray *dealt; /* batches of each trainer */
  guint steps_per_epoch;
} TpsBenchWork;

void tps_bench_work_clear (TpsBenchWork *work);

/* Returns a program whose user_data is `work`. The options must be parsed. */
TpsProgram tps_bench_work_get_program (const TpsBenchWork *work);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBenchWork, tps_bench_work_clear)

G_END_DECLS

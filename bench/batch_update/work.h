/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the benchmark batch_update. */

#pragma once

#include "bench/batch_update/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

/* The options of a run and the state of its log. */
typedef struct
{
  TpsBatchUpdateOptions options;
  gboolean is_training; /* a pass has begun, and its end is not in the log yet */
} TpsBatchUpdateWork;

/* Returns a program whose `user_data` must be `work`. The options must have been parsed. */
TpsProgram tps_batch_update_get_program (const TpsBatchUpdateWork *work);

/* Enables the log of a trainer in this process. `work` is borrowed. */
void tps_batch_update_log_trainer (TpsBatchUpdateWork *work);

G_END_DECLS

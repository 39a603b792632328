/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The roles of the batch-updating benchmark. */

#pragma once

#include "bench/batch_update/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

typedef struct
{
  TpsBatchUpdateOptions options;
  gboolean is_training; /* a pass has begun and its end has not been logged */
} TpsBatchUpdateWork;

/* Returns a program whose user_data is `work`. The options must be parsed. */
TpsProgram tps_batch_update_get_program (const TpsBatchUpdateWork *work);

/* Enables the log of a trainer. */
void tps_batch_update_log_trainer (TpsBatchUpdateWork *work);

G_END_DECLS

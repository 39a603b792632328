/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* What the roles of the batch-updating benchmark do. */

#pragma once

#include "bench/batch_update/options.h"
#include "bench/world/program.h"

G_BEGIN_DECLS

typedef struct
{
  TpsBatchUpdateOptions options;
  gboolean is_training; /* a pass was begun and has not been logged as finished */
} TpsBatchUpdateWork;

/* Its user_data is `work`, whose options are parsed. */
TpsProgram tps_batch_update_get_program (const TpsBatchUpdateWork *work);

/* In a trainer that is to log what it does. */
void tps_batch_update_log_trainer (TpsBatchUpdateWork *work);

G_END_DECLS

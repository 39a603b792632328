/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Updates per second: the updates of a pass by the time from its first batch to its last model, the
 * median of the trainers. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

/* What trainers, and peers, measure it as. */
#define TPS_BATCH_UPDATE_TRAINING "pass_level_metric,training"

/* Of each pass, gdouble; owned. */
GArray *tps_batch_update_get_rates (TpsBenchResults *results, gint batches);

/* The median over the passes; 0 where nothing was measured. */
gdouble tps_batch_update_get_seconds (TpsBenchResults *results);
gdouble tps_batch_update_get_rate (TpsBenchResults *results, gint batches);

/* The lines that a run ends with; owned. */
gchar *tps_batch_update_format_end (TpsBenchResults *results, gint batches);

/* The rates as a figure. */
void tps_batch_update_add_rates (TpsBenchResults *results, gint batches, TpsBenchSystem *system);

G_END_DECLS

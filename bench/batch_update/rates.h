/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Updates per second: the number of updates of a pass divided by the time from its first batch to
 * its last model; the median over the trainers. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

/* The metric of this time for trainers and peers. */
#define TPS_BATCH_UPDATE_TRAINING "pass_level_metric,training"

/* Returns the rate of each pass, gdouble. Owned by the caller. */
GArray *tps_batch_update_get_rates (TpsBenchResults *results, gint batches);

/* Returns the median over the passes; 0 if nothing was measured. */
gdouble tps_batch_update_get_seconds (TpsBenchResults *results);
gdouble tps_batch_update_get_rate (TpsBenchResults *results, gint batches);

/* Formats the last lines of a run. Owned by the caller. */
gchar *tps_batch_update_format_end (TpsBenchResults *results, gint batches);

/* Adds the rates as a figure. */
void tps_batch_update_add_rates (TpsBenchResults *results, gint batches, TpsBenchSystem *system);

G_END_DECLS

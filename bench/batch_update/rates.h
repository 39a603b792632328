/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Updates per second: the number of updates of a pass, divided by the time from its first batch to
 * its last model. The time is the median over the trainers. */

#pragma once

#include "bench/report/json_output.h"
#include "bench/report/results.h"

G_BEGIN_DECLS

/* The metric of this time, for our trainers and those of peers. */
#define TPS_BATCH_UPDATE_TRAINING "pass_level_metric,training"

/* Returns the updates per second of each pass, an array of gdouble. `batches` is the number of
 * updates of a pass. The caller owns the result. */
GArray *tps_batch_update_get_rates (TpsBenchResults *results, gint batches);

/* Return the seconds of the training and the updates per second, medians over the passes; 0 if
 * nothing was measured. */
gdouble tps_batch_update_get_seconds (TpsBenchResults *results);
gdouble tps_batch_update_get_rate (TpsBenchResults *results, gint batches);

/* Formats the last lines of the output of a run. The caller owns the result. */
gchar *tps_batch_update_format_end (TpsBenchResults *results, gint batches);

/* Adds the updates per second of each pass as the figure "updates". */
void tps_batch_update_add_rates (TpsBenchResults *results, gint batches, TpsBenchSystem *system);

G_END_DECLS

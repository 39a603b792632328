/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The command line of //bench:batch_update. */

#pragma once

#include "bench/process/flags.h"
#include "bench/world/world.h"

G_BEGIN_DECLS

/* The fields have the names of their flags. Strings are owned. */
typedef struct
{
  TpsWorld world;
  TpsRunFlags run;

  gint ntrainer;
  gint batches;
  gint batch_size;
  gint in_features;
  gint out_features;
  gdouble lr;
  gdouble momentum;
  gint min_trainers; /* 0 = all */
  gint max_staleness;
  gint64 seed;
  gboolean verbose;
} TpsBatchUpdateOptions;

/* Parses `argv`, in which names may contain dashes or underscores, and the environment. Errors
 * (TPS_BENCH_BAD): INVALID_ARGUMENT. */
TpsBenchVerdict tps_batch_update_options_parse (TpsBatchUpdateOptions *options, gint argc,
                                                gchar **argv, GError **error);
/* Frees the strings. */
void tps_batch_update_options_clear (TpsBatchUpdateOptions *options);

/* Returns a line "name=value" for each flag. The caller owns the result. */
GPtrArray *tps_batch_update_options_describe (const TpsBatchUpdateOptions *options);

G_DEFINE_AUTO_CLEANUP_CLEAR_FUNC (TpsBatchUpdateOptions, tps_batch_update_options_clear)

G_END_DECLS

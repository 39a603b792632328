/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

#include "bench/dlrm/table_names.h"

#include <math.h>

const gchar *
tps_dlrm_table_name (guint table)
{
  static const gchar *const names[TPS_CLICK_TABLES] = {
    "c0",  "c1",  "c2",  "c3",  "c4",  "c5",  "c6",  "c7",  "c8",  "c9",  "c10", "c11", "c12",
    "c13", "c14", "c15", "c16", "c17", "c18", "c19", "c20", "c21", "c22", "c23", "c24", "c25",
  };

  return names[table];
}

void
tps_dlrm_table_spec_init (TpsTableSpec *spec, const TpsDlrmOptions *options, guint table)
{
  gdouble bound = 1 / sqrt ((gdouble) options->shape.rows[table]);

  tps_table_spec_init (spec, tps_dlrm_table_name (table), options->shape.rows[table],
                       (gint32) options->dim);
  spec->initializer.kind = TPS_INITIALIZER_UNIFORM;
  spec->initializer.low = -bound;
  spec->initializer.high = bound;
  spec->initializer.seed = options->seed * TPS_CLICK_TABLES + table;
  spec->optimizer = options->table_optimizer;
}

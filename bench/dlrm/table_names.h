/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tables of the benchmark: their names and specifications, the same on servers and in the
 * single process. */

#pragma once

#include "bench/dlrm/options.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

/* Returns the name of a table, static. */
const gchar *tps_dlrm_table_name (guint table);

/* Initialises the specification of a table, which the caller must clear. Rows are uniform in ±1 /
 * sqrt (rows), as in DLRM. */
void tps_dlrm_table_spec_init (TpsTableSpec *spec, const TpsDlrmOptions *options, guint table);

G_END_DECLS

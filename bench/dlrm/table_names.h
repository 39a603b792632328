/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The names and specifications of the tables, which are the same on servers and in the single
 * process. */

#pragma once

#include "bench/dlrm/options.h"
#include "runtime/embedding/table_spec.h"

G_BEGIN_DECLS

/* Returns the name of a table. Static. */
const gchar *tps_dlrm_table_name (guint table);

/* Initialises the specification of a table, which the caller must clear. The values of rows are
 * uniform in ±1 / sqrt (rows), as in DLRM. */
void tps_dlrm_table_spec_init (TpsTableSpec *spec, const TpsDlrmOptions *options, guint table);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Tables in this process, for the single process. */

#pragma once

#include "bench/dlrm/options.h"
#include "runtime/ports/table_client.h"

G_BEGIN_DECLS

/* Creates the tables and fills their rows. Returns a client that computes on the calling thread,
 * and calls `done` before a call returns. The caller owns the result. Errors: those of
 * tps_table_store_create(). */
TpsTableClient *tps_dlrm_local_tables_new (const TpsDlrmOptions *options, GError **error);

G_END_DECLS

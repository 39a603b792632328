/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The row store of the host's memory, whose functions are in several files. Their contracts are
 * those of the members of TpsRowStore (row_store.h). Internal to this folder. */

#pragma once

#include "runtime/server/tables/row_store.h"

G_BEGIN_DECLS

/* -- lookup_on_host.c -- */

gboolean tps_rows_on_host_begin_lookup (TpsLookup *lookup, GError **error);
gboolean tps_rows_on_host_end_lookup (TpsLookup *lookup, GError **error);
gboolean tps_rows_on_host_read (TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots,
                                TpsTensor *rows, TpsTensor *lsns, GError **error);

/* -- apply_on_host.c -- */

void tps_rows_on_host_reserve (TpsApply *apply);
void tps_rows_on_host_begin (TpsApply *apply);
gboolean tps_rows_on_host_run (TpsApply *apply, gint64 lsn, GError **error);
gboolean tps_rows_on_host_may_follow (const TpsApplyStep *step);

G_END_DECLS

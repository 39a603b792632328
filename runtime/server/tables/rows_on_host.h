/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The functions of the row store in host memory, which are in several files. Each implements a
 * member of TpsRowStore, whose contract is in row_store.h. Internal to this folder. */

#pragma once

#include "runtime/server/tables/row_store.h"

G_BEGIN_DECLS

/* -- lookup_on_host.c -- */

/* Member begin_lookup: divides the bags of a lookup into parts and allocates temporary memory.
 * Pools nothing yet. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_rows_on_host_begin_lookup (TpsLookup *lookup, GError **error);
/* Member end_lookup: pools the bags into the outputs, which the caller has allocated, on this
 * thread and idle workers. Blocks until all are pooled. Never fails. */
gboolean tps_rows_on_host_end_lookup (TpsLookup *lookup, GError **error);
/* Member read_rows: copies the rows of `slots` to `rows` [n, dim], and their LSNs to `lsns` [n]
 * unless it is NULL. The caller owns both. Blocks. Never fails. */
gboolean tps_rows_on_host_read (TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots,
                                TpsTensor *rows, TpsTensor *lsns, GError **error);

/* -- apply_on_host.c -- */

/* Member reserve: reserves the scratch memory of a push, which the caller then provides. Does not
 * allocate. */
void tps_rows_on_host_reserve (TpsApply *apply);
/* Member begin: adds the contributions to the tables that need not wait for the turn of the push.
 * The scratch memory must have been provided. */
void tps_rows_on_host_begin (TpsApply *apply);
/* Member run: adds the remaining contributions, and runs the steps of the tables with `lsn`. Must
 * be called in the turn of the push. Never fails. */
gboolean tps_rows_on_host_run (TpsApply *apply, gint64 lsn, GError **error);
/* Member may_follow: returns TRUE if the step is short enough for its push to follow another
 * one. */
gboolean tps_rows_on_host_may_follow (const TpsApplyStep *step);

G_END_DECLS

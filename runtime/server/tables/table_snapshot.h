/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tables of a store for those that write snapshots and restore them (runtime/server/snapshot). */

#pragma once

#include "runtime/server/push_window.h"
#include "runtime/server/tables/host/table.h"
#include "runtime/server/tables/table_store.h"

G_BEGIN_DECLS

/* All tables by name: an array of TpsTable that owns references. Thread: any. */
GPtrArray *tps_table_store_ref_tables (TpsTableStore *store);

gboolean tps_table_store_keeps_row_lsns (TpsTableStore *store);

/* Borrowed. */
TpsPushWindow *tps_table_store_get_pushes (TpsTableStore *store);
TpsSequencer *tps_table_store_get_sequencer (TpsTableStore *store);

/* A table of a resolved specification in the host's memory, with rows and state of 0; no other thread has it. The caller
 * fills it, sets its incarnation, number of steps and progress, and gives it to tps_table_store_adopt(). Errors:
 * RESOURCE_EXHAUSTED. */
TpsTable *tps_table_store_make_unfilled (TpsTableStore *store, const TpsTableSpec *spec,
                                         GError **error);

/* Makes the table known without a command. Takes a reference. Errors: ALREADY_EXISTS. */
gboolean tps_table_store_adopt (TpsTableStore *store, TpsTable *table, GError **error);

/* The tables come from a snapshot that may contain traces of commands up to `lsn`. Before records are replayed. */
void tps_table_store_set_snapshot_lsn (TpsTableStore *store, gint64 lsn);
gint64 tps_table_store_get_snapshot_lsn (TpsTableStore *store);

G_END_DECLS

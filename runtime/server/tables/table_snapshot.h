/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The tables of a store, for writing and restoring snapshots (runtime/server/snapshot). */

#pragma once

#include "runtime/server/push_window.h"
#include "runtime/server/tables/host/table.h"
#include "runtime/server/tables/table_store.h"

/* Returns all tables in the order of their names, including tables of imports that have been
 * admitted, as an array of TpsTable that owns references. The caller owns the array. Thread:
 * any. */
GPtrArray *tps_table_store_ref_tables (TpsTableStore *store);

/* Makes a table of a resolved specification in the host's memory, with rows and state of 0. The
 * caller owns the only reference. It must fill the table, set its incarnation, number of steps and
 * progress, and pass it to tps_table_store_adopt(). Errors: RESOURCE_EXHAUSTED. */
TpsTable *tps_table_store_make_unfilled (TpsTableStore *store, const TpsTableSpec *spec,
                                         GError **error);

/* As tps_table_store_make_unfilled(), but makes the table in the place that its specification
 * names. A table on a device must be filled by tps_table_fill_rows(). Further errors:
 * INVALID_ARGUMENT, DEVICE_LOST, NOT_FOUND (there is no such device). */
TpsTable *tps_table_store_make_restored (TpsTableStore *store, const TpsTableSpec *spec,
                                         GError **error);

/* Copies rows [slot, slot + n), each with its state and LSN as they were between two updates. `n`
 * must not exceed tps_table_get_max_copied_rows(). On a device all rows of a copy have the LSN of
 * the table's last step. Errors, only for tables on devices: DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_table_capture_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to,
                                 GError **error);

/* Returns FALSE if only the LSN of the table's last step is known; tps_table_find_changed_rows()
 * must not be called then. */
gboolean tps_table_knows_changed_rows (const TpsTable *table);

/* An unfilled table must be filled by tps_table_fill_rows(), in ascending slot order, if
 * tps_table_is_filled_by_pieces() returns TRUE. Otherwise the caller must write to the table's
 * memory. Errors: as tps_table_capture_rows(). */
gboolean tps_table_is_filled_by_pieces (const TpsTable *table);
gboolean tps_table_fill_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *from,
                              GError **error);

/* Declares that the rows of an unfilled table contain all steps up to `progress`. */
void tps_table_begin_at (TpsTable *table, TpsTableProgress progress);

/* Adds the table to the store, without a command. Takes a reference. Errors: ALREADY_EXISTS. */
gboolean tps_table_store_adopt (TpsTableStore *store, TpsTable *table, GError **error);

/* The import of a table whose rows come from files, into a server that serves requests. The log
 * does not contain the rows, so a snapshot must be complete before the first push:
 *
 *   begin_import()   reserves the name; creations of a table of this name are refused
 *     -> the rows are read into a table of tps_table_store_make_unfilled()
 *     -> admit_import()   gives the table its LSN; snapshots that begin now contain the table, but
 *                         requests do not find it yet
 *     -> a snapshot is written
 *     -> end_import()     adds the table to the store; after a failure (`table` is NULL) the name
 *                         is free again
 *
 * A crash before the snapshot is complete leaves a hole in the log, and no table. Errors:
 * ALREADY_EXISTS (begin); those of tps_sequencer_may_admit() and of the observer (admit). The table
 * is borrowed from admit_import() to end_import(). */
gboolean tps_table_store_begin_import (TpsTableStore *store, const gchar *name, GError **error);
gboolean tps_table_store_admit_import (TpsTableStore *store, TpsTable *table, GError **error);
void tps_table_store_end_import (TpsTableStore *store, const gchar *name, TpsTable *table);

/* Sets the LSN up to which the restored snapshot may contain effects of commands; 0 = no
 * snapshot was restored. It must be set before records are replayed. */
void tps_table_store_set_snapshot_lsn (TpsTableStore *store, gint64 lsn);

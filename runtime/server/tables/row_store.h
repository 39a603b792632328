/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The functions that depend on the place of a table's rows: the host's memory, or a device.
 * Internal to this folder. Each row store gets all of its part of a call at once, and divides it
 * among threads, or into one batch for each device; not called without such a table. */

#pragma once

#include "runtime/server/tables/apply.h"
#include "runtime/server/tables/lookup.h"

struct TpsRowStore
{
  guint number;                /* in tps_row_stores */
  gboolean may_assign;         /* pushes may assign rows (TpsTablePush.is_assignment) */
  gboolean knows_changed_rows; /* see table_snapshot.h */

  /* Returns the bytes that a call moves if it reads `n_rows` rows and writes `n_outputs` vectors,
   * or TPS_TABLE_STORE_WAITS if the call waits for a device. */
  gsize (*estimate) (const TpsTable *table, gsize n_rows, gsize n_outputs);
  /* Returns the pool for outputs, borrowed. */
  TpsBufferPool *(*get_answers) (TpsTableStore *store, const TpsTable *table);
  /* Returns TRUE if the caller may provide memory of `device` (NULL = of the host) for outputs. */
  gboolean (*has_output_on) (const TpsTable *table, const TpsDevice *device);

  /* Copies rows to `rows` [n, dim], and their LSNs to `lsns` [n] unless it is NULL. The caller must
   * have allocated both; `rows` may be in memory of a device if has_output_on() allows this.
   * Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. */
  gboolean (*read_rows) (TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots,
                         TpsTensor *rows, TpsTensor *lsns, GError **error);

  /* Lookups, whose outputs must have been allocated. begin() may leave work running until end(),
   * which must follow unless begin() fails. Errors: as above. */
  gboolean (*begin_lookup) (TpsLookup *lookup, GError **error);
  gboolean (*end_lookup) (TpsLookup *lookup, GError **error);

  /* Pushes, in this order. Errors of run(): as above; tables that did not take their step are
   * marked in `apply->tables`. */
  void (*reserve) (TpsApply *apply); /* reserves scratch */
  void (*begin) (TpsApply *apply);   /* uses the provided scratch; before the push's turn */
  gboolean (*run) (TpsApply *apply, gint64 lsn, GError **error);
  /* Returns TRUE if the step allows its push to follow; see TpsOrdered.may_follow. */
  gboolean (*may_follow) (const TpsApplyStep *step);

  /* Snapshots: see table_snapshot.h. `fill` is NULL if the reader of a snapshot writes directly to
   * the memory of tables. */
  gboolean (*capture) (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to,
                       GError **error);
  gboolean (*fill) (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *from, GError **error);
  void (*begin_at) (TpsTable *table, gint64 n_steps);
};

extern const TpsRowStore tps_rows_on_host;
extern const TpsRowStore tps_rows_on_device;

/* The row stores, the host's first. A lookup calls begin_lookup() and end_lookup() in this order,
 * so devices work while the host pools, and work on devices begins only when nothing else can fail.
 * Steps run in the opposite order, since only steps on devices can fail. */
extern const TpsRowStore *const tps_row_stores[TPS_N_ROW_STORES];

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The functions that depend on the place of a table's rows: the host's memory, or a device.
 * Internal to this folder; the tables of a store refer to one of the two row stores below.
 *
 * A lookup or a push may name tables of both. Each row store gets all of its part of the call at
 * once, since it decides how to divide it: among threads, or into one batch for each device.
 * Functions that take a whole call are called only if one of its tables is in this row store.
 */

#pragma once

#include "runtime/server/tables/apply.h"
#include "runtime/server/tables/lookup.h"

G_BEGIN_DECLS

struct TpsRowStore
{
  guint number;                /* in tps_row_stores */
  gboolean may_assign;         /* pushes may assign rows */
  gboolean knows_changed_rows; /* see table_snapshot.h */

  /* The bytes that a call moves if it reads `n_rows` rows and writes `n_outputs` vectors, or
   * TPS_TABLE_STORE_WAITS. */
  gsize (*estimate) (const TpsTable *table, gsize n_rows, gsize n_outputs);
  /* The memory of outputs. */
  TpsBufferPool *(*get_answers) (TpsTableStore *store, const TpsTable *table);
  /* Whether outputs may also lie in memory that the caller provides, of `device` (NULL: of the
   * host). */
  gboolean (*has_output_on) (const TpsTable *table, const TpsDevice *device);

  /* Copies rows to `rows` [n, dim], which is allocated, in memory of a device if
   * has_output_on(), and their LSNs to `lsns` [n] unless it is NULL. Errors: DEVICE_LOST,
   * RESOURCE_EXHAUSTED. */
  gboolean (*read_rows) (TpsTableStore *store, TpsTable *table, const TpsTableSlots *slots,
                         TpsTensor *rows, TpsTensor *lsns, GError **error);

  /* Lookups. All outputs are allocated. begin() may leave work running until end(), which must
   * follow unless begin() fails. Errors: as above. */
  gboolean (*begin_lookup) (TpsLookup *lookup, GError **error);
  gboolean (*end_lookup) (TpsLookup *lookup, GError **error);

  /* Pushes, in this order. Errors of run(): as above; it marks the tables without their step in
   * `apply->tables`. */
  void (*reserve) (TpsApply *apply); /* scratch */
  void (*begin) (TpsApply *apply);   /* the scratch is provided; before the push's turn */
  gboolean (*run) (TpsApply *apply, gint64 lsn, GError **error);
  /* See tps_apply_may_follow(). */
  gboolean (*may_follow) (const TpsApplyStep *step);

  /* Snapshots: see table_snapshot.h. `fill` is NULL for tables whose memory the reader fills. */
  gboolean (*capture) (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to,
                       GError **error);
  gboolean (*fill) (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *from, GError **error);
  void (*begin_at) (TpsTable *table, gint64 n_steps);
};

extern const TpsRowStore tps_rows_on_host;
extern const TpsRowStore tps_rows_on_device;

/* A lookup calls begin_lookup() and end_lookup() in this order, so that devices work while the host
 * pools, and so that work on devices begins only when nothing else can fail any more. Steps run in
 * the opposite order, since only steps on devices can fail. */
extern const TpsRowStore *const tps_row_stores[TPS_N_ROW_STORES];

G_END_DECLS

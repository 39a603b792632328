/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The embedding tables of one process, by name. Each table is in the host's memory or on a device;
 * results have the same bits in both places (runtime/device/backend.h).
 *
 * Creations of tables, drops of tables and pushes are commands (runtime/server/command.h). Pushes
 * to one table take effect in the order of their LSNs: a short push follows the previous one row by
 * row, longer pushes run one after another with the help of all idle threads. Lookups run at the
 * same time. An update of one row is atomic: a lookup sees each row as it was before or after the
 * update, and waits for a writer no longer than the update of one row takes. A refused call changes
 * nothing: all of its values are checked before the call gets an LSN. A dropped table lives until
 * the calls that use it have ended.
 *
 * All functions compute on the calling thread, except for pushes that wait for their turn. Work on
 * more than about 256 KiB is shared with the worker pool, if there is one. Errors, unless stated
 * otherwise: NOT_FOUND (no such table: the message names it), INVALID_ARGUMENT (naming the value
 * and its place, e.g. "queries[1].indices[17]: 300 is not in [0, 300) of table emb"; also for rows
 * of a different shard), RESOURCE_EXHAUSTED (no memory for the answer), DEVICE_LOST (of tables on a
 * device; other tables are not affected). Calls that change state also have the errors of
 * tps_sequencer_may_admit(), before any effect, and of the sequencer's observer, after the effect.
 * Thread: any.
 */

#pragma once

#include "runtime/base/budget.h"
#include "runtime/base/counters.h"
#include "runtime/base/phases.h"
#include "runtime/base/sync.h"
#include "runtime/base/worker_pool.h"
#include "runtime/device/backend.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/server/budgets.h"
#include "runtime/server/command.h"
#include "runtime/server/push_window.h"
#include "runtime/server/quota/quotas.h"
#include "runtime/server/sequencer.h"

G_BEGIN_DECLS

/* Fields that `new` sets may be read by users; the others are private to this folder. */
typedef struct TpsTableStore
{
  TpsBudget *budget;         /* of tables in the host's memory */
  TpsBudget *device_budget;  /* of tables on devices; has no limit and only counts */
  TpsBudget *scratch_budget; /* of lookups and pushes */
  TpsBudget *answer_budget;
  TpsBudget *kept_budget; /* of memory kept for reuse; NULL = it is not charged */
  TpsQuotas *quotas;      /* NULL = tables have no tenants */
  TpsCounters *counters;  /* NULL = nothing is counted */
  TpsSequencer *sequencer;
  gboolean owns_sequencer;
  TpsPushWindow *pushes;
  TpsBufferPool *answers; /* of tables in the host's memory */
  TpsBufferPool *scratch;
  TpsWorkerPool *workers;
  TpsTablePlace place; /* of tables whose specification has none */
  TpsDurability durability;
  gboolean keeps_row_lsns;
  gsize max_row_bytes_of_call;
  /* The restored snapshot may contain effects of commands up to this LSN; 0 = none was restored. */
  gint64 snapshot_lsn;
  TpsDevice *(*find_device) (const gchar *name, GError **error);

  TpsMutex making_lock; /* guards `making` and `lanes` */
  TpsCond made;
  GHashTable *making; /* a set of names, borrowed from the creating threads */
  GHashTable *lanes;  /* TpsDevice -> TpsDeviceLanes */

  TpsRwLock tables_lock;
  GHashTable *tables; /* name, owned by the table -> TpsTable */
  /* Name -> the TpsTable that is being imported, or NULL before it has an LSN. Changed with both
   * locks, read with one of them. */
  GHashTable *importing;
} TpsTableStore;

typedef struct
{
  /* Limit of the rows that the bags of one lookup or push name, each counted as often as it is
   * named; 0 = TPS_TABLE_STORE_ROW_BYTES_OF_CALL. Without this limit, a small message could name
   * the same wide row a hundred thousand times. */
  gsize max_row_bytes_of_call;
  /* `tables` is charged for tables in the host's memory, `replies` for answers until their last
   * reference is released, and for temporary space. References are taken. NULL = tables may take
   * 0.8 of tps_host_memory_get_total(). Tables on a device are limited only by its memory. */
  const TpsBudgets *budgets;
  /* Borrowed; NULL = tables have no tenants. A table with a tenant is charged to the tenant's
   * budget, which must be below `budgets->tables`. A table on a device is charged only for its host
   * memory. */
  TpsQuotas *quotas;
  TpsCounters *counters;       /* of each table; a reference is taken; NULL = nothing is counted */
  TpsSequencer *sequencer;     /* borrowed; NULL = its own */
  TpsPushWindowOptions pushes; /* of the window of push ids */
  TpsWorkerPool *workers;      /* borrowed; NULL = the calling thread alone */
  TpsTablePlace place;         /* of tables without one of their own; all zero = the CPU */
  /* Of tables without one of their own; 0 = there is no log, and tables that need one are
   * refused. */
  TpsDurability durability;
  /* Tables in the host's memory keep the LSN of each row's last change, for snapshots: 8 bytes a
   * row. */
  gboolean keeps_row_lsns;
  /* Returns a device by its name, borrowed; NULL = tps_device_find(). */
  TpsDevice *(*find_device) (const gchar *name, GError **error);
} TpsTableStoreOptions;

#define TPS_TABLE_STORE_ROW_BYTES_OF_CALL ((gsize) 4 << 30)

/* Creates a store without tables, which the caller owns. `options` are copied. No call may be in
 * progress when the store is freed. */
TpsTableStore *tps_table_store_new (const TpsTableStoreOptions *options);
void tps_table_store_free (TpsTableStore *store);

/* Makes a table, fills its rows and waits for the command to end; not on an I/O thread. Requests
 * find the table only when it is filled. Succeeds if a table of the same specification exists.
 * Errors: INVALID_ARGUMENT, NOT_FOUND (the device), ALREADY_EXISTS naming the difference,
 * RESOURCE_EXHAUSTED naming limit, use and need, DEVICE_LOST. */
gboolean tps_table_store_create (TpsTableStore *store, const TpsTableSpec *spec, GError **error);
/* Drops a table, and waits for the command to end. */
gboolean tps_table_store_drop (TpsTableStore *store, const gchar *table, GError **error);

/* Fills an empty list with the specifications of all tables, including `bytes` and `place`, in the
 * order of their names. Errors: RESOURCE_EXHAUSTED. */
gboolean tps_table_store_list (TpsTableStore *store, TpsTableSpecs *specs, GError **error);

/* Returns the largest size of such a list in bytes, to be charged before the list is made. */
gsize tps_table_store_get_list_bytes (TpsTableStore *store);

/* Estimate the bytes that a call reads and writes, to choose a thread for the call. Unknown tables
 * count as 0. The result is at least TPS_TABLE_STORE_WAITS if the call waits for a device. */
#define TPS_TABLE_STORE_WAITS (G_MAXSIZE / 4)
gsize tps_table_store_estimate_bags (TpsTableStore *store, const TpsBagQuery *queries,
                                     guint n_queries);
gsize tps_table_store_estimate_rows (TpsTableStore *store, const gchar *table, gint64 n_rows);

/* A place: the caller's memory for the results of one lookup, which saves a copy. If the lookup has
 * results on `device`, which has room, it lies there and takes these results; otherwise it takes
 * those of tables in host memory. All other results, and those of fewer than `min_bytes`, are in
 * the store's memory. */
typedef struct
{
  TpsDevice *device; /* borrowed; NULL = host memory only */
  gsize min_bytes;   /* of one result */
  /* Returns `n_bytes` in memory of `device` (NULL = of the host), at TPS_BUFFER_ALIGNMENT, owned by
   * the caller; NULL if there is no room. Other processes may change the bytes, so the lookup reads
   * back only sums to which it adds. Called at most once for each kind of memory, on the lookup's
   * thread. */
  TpsBuffer *(*reserve) (gpointer user_data, TpsDevice *device, gsize n_bytes);
  gpointer user_data;
} TpsLookupPlace;

/* The options of a lookup (NULL = none). Fields may be zero. */
typedef struct
{
  /* The arrival of the request (tps_clock_now_ns()): the time from then to the end of the lookup is
   * recorded. 0 = no time is recorded. */
  gint64 began_ns;
  const TpsLookupPlace *place; /* NULL = all results are in memory of the store */
} TpsTableLookup;

/* Pools the bags of each query into one element of `outputs` [n_queries], all of which must be zero
 * on entry: FLOAT32 [bags, dim], owned by the caller. After an error there are no outputs. Results
 * in the place are complete on return, and hold references to its buffer. */
gboolean tps_table_store_lookup_bags (TpsTableStore *store, const TpsTableLookup *request,
                                      const TpsBagQuery *queries, guint n_queries,
                                      TpsTensor *outputs, GError **error);

/* Copies the rows with the ids `indices` INT64 [n] to `rows`, which must be zero on entry: [n, dim]
 * of the table's dtype, owned by the caller. `lsns` (may be NULL) receives the LSN of each row's
 * last change, or of the table's creation, INT64 [n], as of the same moment as the row.
 * INVALID_ARGUMENT also: LSNs are not kept, or the table is on a device. */
gboolean tps_table_store_lookup_rows (TpsTableStore *store, const TpsTableLookup *request,
                                      const gchar *table, TpsTensorView indices, TpsTensor *rows,
                                      TpsTensor *lsns, GError **error);

/* A push: gradients of rows or of bags, or the values of rows. All members are borrowed until the
 * push has ended. Members that do not apply may be zero. */
typedef struct
{
  const gchar *client; /* of the push id; NULL = none */
  gint64 sequence;
  /* The tenant of the caller, whose share of push ids has the client; NULL = none. Tenants take
   * turns in the queue of a table: they are compared by the address of the name. */
  const gchar *tenant;
  gboolean may_wait; /* the push may wait for an earlier push of the same id */
  gboolean is_small; /* an I/O thread may apply the push: see tps_table_store_estimate_*() */

  /* Rows: one step for `indices` INT64 [n] with `values` FLOAT32 or of the table's dtype [n, dim].
   * Duplicates are added up first. */
  const gchar *table;
  TpsTensorView indices, values;
  gint64 n_rows; /* of the table for which the gradient was computed */
  gboolean has_n_rows;

  /* Rows: an assignment sets the rows to `values`, duplicates to their last value; rows keep their
   * optimizer state. A row that changed after `as_of_lsn` is left out. INVALID_ARGUMENT: a table on
   * a device, or `as_of_lsn` without LSNs. */
  gboolean is_assignment;
  gint64 as_of_lsn; /* 0 = every row is assigned */

  /* Bags, if `table` is NULL: one step for each table that is named. Contributions to a row are
   * added in the order of the list. */
  const TpsBagGradient *gradients;
  guint n_gradients;

  /* Receives the time that the push waits for other pushes and for the log. May be NULL. */
  TpsPhases *phases;
  gint64 began_ns; /* the arrival of the request (tps_clock_now_ns()); 0 = it is not timed */

  /* The record of this push, with left-out tables, if it is replayed; NULL = the push is new. */
  const TpsCommand *record;
} TpsTablePush;

/* Reports the end of a push. `error` is borrowed; NULL = the push has taken effect. */
typedef void (*TpsTablePushDone) (gpointer user_data, const GError *error);

/* Applies the push once, even if it is sent several times with the same id. `done` is called once,
 * without a lock, before this function returns or by a different thread. Does not block if
 * `is_small` is correct. Further errors: UNAVAILABLE (`may_wait` is FALSE), STALE and DUPLICATE
 * (the push id), RESOURCE_EXHAUSTED (temporary space). After an error of a device, all tables are
 * unchanged but for those that a device has lost and those that had taken their step. DEVICE_LOST
 * then names the latter, the push id counts as used, and repeats get the same error. */
void tps_table_store_push (TpsTableStore *store, const TpsTablePush *request, TpsTablePushDone done,
                           gpointer user_data);

/* As tps_table_store_push(), but block until the push has ended. apply_rows() and apply_bags() push
 * gradients of rows or bags without a push id. */
gboolean tps_table_store_push_and_wait (TpsTableStore *store, const TpsTablePush *push,
                                        GError **error);
gboolean tps_table_store_apply_rows (TpsTableStore *store, const gchar *table,
                                     TpsTensorView indices, TpsTensorView values, GError **error);
gboolean tps_table_store_apply_bags (TpsTableStore *store, const TpsBagGradient *gradients,
                                     guint n_gradients, GError **error);

/* Applies the record of a command that changed tables; blocks. Records must come in the order of
 * their LSNs, without other calls: the sequencer's LSN becomes that of the record. Changes that a
 * restored snapshot already contains are left out, by row and by table, and changes of tables
 * dropped while it was written. Errors: those of the command; NOT_FOUND for a table that the
 * snapshot should contain. */
gboolean tps_table_store_replay (TpsTableStore *store, const TpsCommand *command, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTableStore, tps_table_store_free)

G_END_DECLS

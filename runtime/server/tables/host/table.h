/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* One table in memory: its rows, by slot (runtime/embedding/sharding.h), their optimizer state, and
 * concurrent reads and changes of rows, which are atomic (table.c). Thread: any. */

#pragma once

#include "runtime/base/budget.h"
#include "runtime/base/counters.h"
#include "runtime/base/sync.h"
#include "runtime/base/worker_pool.h"
#include "runtime/device/cpu/optimizer/optimizer.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/server/sequencer.h"
#include "runtime/server/tables/device/device_rows.h"

/* -- table numbers -- */

/* The metrics of one table. REFERENCE.md describes them. */

typedef struct TpsTableNumbers TpsTableNumbers;

/* Creates the metrics of a table. The caller owns the result and must free it with the table; its
 * series end then. `spec` must be resolved, with `bytes` filled in. A reference to `counters` is
 * taken; if they are NULL, the result is NULL, which counts nothing. */
TpsTableNumbers *tps_table_numbers_new (TpsCounters *counters, const TpsTableSpec *spec);

/* The work of one lookup or push. */
typedef struct
{
  gsize n_rows;       /* each row counts as often as it was named */
  gsize n_bytes;      /* of vectors and rows: the answer of a lookup, the gradients of a push */
  gint64 duration_ns; /* from the arrival of the request; negative = it was not timed */
} TpsTableWork;

/* Count a lookup, or a push that has taken effect. `numbers` may be NULL. Takes no lock and reads
 * no clock: about 10 ns. Thread: any. */
void tps_table_numbers_add_lookup (TpsTableNumbers *numbers, const TpsTableWork *work);
void tps_table_numbers_add_push (TpsTableNumbers *numbers, const TpsTableWork *work);

/* -- table pace -- */

/* The progress of short pushes to one table, so that a push can follow the previous push row by
 * row: both process rows in ascending slot order, and the sequencer runs at most two pushes of a
 * table at a time (TpsOrdered.may_follow). Each stays on the thread that has its gradients in the
 * cache. */

/* The progress of one push. A table has two entries: one for pushes whose turn has an even number,
 * and one for all others. */
typedef struct
{
  atomic_ullong number; /* of the turn */
  atomic_llong slot;    /* rows of lower slots are done */
  guint8 padding[48];   /* a different thread writes the other entry, in a different cache line */
} TpsTablePace;

/* Publishes that the command of `turn`, which may follow, begins to change rows. `pace` [2] belongs
 * to the table, and must be all zero at first. A command calls these functions in this order:
 *
 *   wait(-1) -> work that must be in order as a whole -> begin()
 *            -> wait(), publish() for the rows in order -> publish(G_MAXINT64)
 *
 * After its wait(), the next command sees all writes that this command made before begin(). */
void tps_table_pace_begin (TpsTablePace *pace, const TpsTurn *turn);

/* Publishes that all rows below `slot` are complete. */
void tps_table_pace_publish (TpsTablePace *pace, const TpsTurn *turn, gint64 slot);

/* Waits until row `slot` may be changed, and returns a larger slot: all rows below the result may
 * be changed. If `slot` is -1, waits until the previous command has called begin(). The wait has no
 * deadline: the previous command is always running, and the waiting thread yields the processor. */
gint64 tps_table_pace_wait (TpsTablePace *pace, const TpsTurn *turn, gint64 slot);

/* The number of bytes that may be read without a break while writers wait; about 20 us. */
#define TPS_TABLE_QUIET_BYTES (256 << 10)

/* How a table is made. */
typedef struct
{
  TpsBudget *budget;      /* is charged with host memory; borrowed, must outlive the table */
  TpsBudget *quota;       /* is charged with all memory of the table; borrowed; NULL = none */
  TpsWorkerPool *workers; /* borrowed; may be NULL */
  gboolean keeps_lsns;    /* of rows, for snapshots */
  /* rows are 0 in the host's memory, undefined on a device; the caller must write them before other
   * threads use the table */
  gboolean is_unfilled;
} TpsTableOptions;

/* The last command whose step is complete in all rows, and the number of steps up to it. */
typedef struct
{
  gint64 lsn; /* 0 = none */
  gint64 n_steps;
} TpsTableProgress;

/* A counter of the threads that read without versions. A table has several counters, each in a
 * cache line of its own, so that few threads share one. */
typedef struct
{
  _Alignas(64) atomic_uint n_readers;
} TpsTablePresence;

/* The functions that depend on the place of the rows: see runtime/server/tables/row_store.h. */
typedef struct TpsRowStore TpsRowStore;

/* Fields are read-only, except those that the rows' locks and turns guard. */
typedef struct TpsTable
{
  TpsRefcount refcount;
  TpsTableSpec spec;        /* resolved, `bytes` filled in */
  gint64 incarnation;       /* the LSN of its creation */
  TpsTableNumbers *numbers; /* owned; NULL = nothing is counted */
  TpsTurnQueue turns;       /* of the commands that change it */
  TpsCharge payload;        /* of rows and state */
  TpsCharge overhead;       /* of everything else */
  TpsCharge quota;          /* to options->quota: both charges above together */
  TpsUpdateRow *update_row; /* of the optimizer */
  gsize dim;
  gsize row_bytes;
  gsize state_per_row;
  TpsRowRounding rounding;      /* of updated rows that are not FLOAT32 */
  const TpsRowStore *row_store; /* of a table in a store */
  /* the rows on a device; the fields below, except the progress, are unused then. NULL = rows in
   * the host's memory */
  TpsDeviceRows *on_device;
  guint8 *rows;  /* [n_rows, dim] of spec.dtype */
  gfloat *state; /* [n_rows, state_per_row] */
  /* [lock_mask + 1]; slot s has versions[s & lock_mask], odd while it is written. */
  atomic_uint *versions;
  gsize lock_mask;
  gint64 n_steps;       /* changed by the command in its turn */
  TpsTablePace pace[2]; /* of the two pushes that may run at a time */
  /* [n_rows]: of the last change of each row, guarded like the rows; NULL = not kept */
  gint64 *lsns;
  TpsMutex progress_lock;
  /* Guarded by `progress_lock`; only for tables on devices, or with `lsns`. */
  TpsTableProgress progress;
  atomic_uint n_writers;
  TpsTablePresence *presences; /* [presence_mask + 1] */
  gsize presence_mask;
} TpsTable;

/* Makes a table, to which the caller owns a reference: charges and allocates its memory, and fills
 * the rows unless `options->is_unfilled`. `spec` must be resolved. Errors: RESOURCE_EXHAUSTED. */
TpsTable *tps_table_new (const TpsTableSpec *spec, const TpsTableOptions *options, GError **error);
/* As tps_table_new(), for a table on the device that the specification names. Rows and state are
 * charged to `device_budget`, the object to `options->budget`, both to `options->quota`. `lanes`
 * must outlive the table. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. */
TpsTable *tps_table_new_on_device (const TpsTableSpec *spec, TpsDeviceLanes *lanes,
                                   TpsBudget *device_budget, const TpsTableOptions *options,
                                   GError **error);
TpsTable *tps_table_ref (TpsTable *table);
void tps_table_unref (TpsTable *table);

/* The functions below are for tables in the host's memory that no device works on. */

/* Begins a quiet read if there is no writer: writers then wait until tps_table_end_quiet_read(), so
 * that at most TPS_TABLE_QUIET_BYTES may be read as plain memory. FALSE: use tps_table_read_rows().
 * Does not wait. */
gboolean tps_table_begin_quiet_read (TpsTable *table);
void tps_table_end_quiet_read (TpsTable *table);

/* Copies rows slots[i] - base, i < n, to `to` [n, dim] of the table's dtype, each as it was between
 * two updates. Rows [n, n + n_ahead) will be read next. */
void tps_table_read_rows (TpsTable *table, const gint64 *slots, gint64 base, gsize n, gsize n_ahead,
                          gpointer to);

/* As tps_table_read_rows(), but also copies the LSN of each row's last change to `lsns` [n]; a row
 * and its LSN are as of the same moment. The table must keep LSNs. */
void tps_table_read_rows_with_lsns (TpsTable *table, const gint64 *slots, gint64 base, gsize n,
                                    gpointer to, gint64 *lsns);

/* The destination of a copy of whole rows. */
typedef struct
{
  guint8 *rows;  /* [n, dim] of the table's dtype */
  gfloat *state; /* [n, state_per_row]; not used if there is no state */
  gint64 *lsns;  /* [n]; not used if the table keeps none */
} TpsTableCopy;

/* Returns the maximum number of rows for tps_table_copy_rows(). With this limit, writers wait no
 * longer than for a quiet read. */
gsize tps_table_get_max_copied_rows (const TpsTable *table);

/* Copies rows [slot, slot + n), each with its state and LSN as they were between two updates. */
void tps_table_copy_rows (TpsTable *table, gsize slot, gsize n, const TpsTableCopy *to);

/* The maximum number of rows for tps_table_find_changed_rows(), with the same effect on writers; a
 * multiple of 8. */
#define TPS_TABLE_MAX_SCANNED_ROWS (TPS_TABLE_QUIET_BYTES / sizeof (gint64))

/* Sets bit s % 8 of bits[s / 8] for each slot s of [slot, slot + n) whose row changed after `lsn`,
 * and returns the number of these rows; other bits do not change. A row that is being changed may
 * count as changed or not. The table must keep LSNs. */
gsize tps_table_find_changed_rows (TpsTable *table, gsize slot, gsize n, gint64 lsn, guint8 *bits);

/* Publishes and returns the progress. A step must be complete when it is published, so that every
 * later copy of a row contains the step. */
void tps_table_set_progress (TpsTable *table, TpsTableProgress progress);
TpsTableProgress tps_table_get_progress (TpsTable *table);

/* Begin and end updates of rows, which must be enclosed in these calls. Any number of threads may
 * update rows at a time. begin() waits for quiet reads. */
void tps_table_begin_updates (TpsTable *table);
void tps_table_end_updates (TpsTable *table);

/* Updates one row as part of `step`, of command `lsn`, unless the row already contains the step;
 * `gradient` [dim], `scratch` [2 * dim]. */
void tps_table_update_row (TpsTable *table, const TpsOptimizerStep *step, gint64 lsn, gint64 slot,
                           const gfloat *gradient, gfloat *scratch);

/* Sets one row to `values` [dim] of `dtype`, FLOAT32 or the table's, as command `lsn`. Does nothing
 * if the row already contains this command, or changed after `as_of_lsn` (0 = no such limit). The
 * optimizer state of the row does not change. `scratch` [dim]. */
void tps_table_assign_row (TpsTable *table, gint64 lsn, gint64 slot, TpsDType dtype,
                           gconstpointer values, gint64 as_of_lsn, gfloat *scratch);

void tps_table_prefetch_update (const TpsTable *table, gint64 slot);

G_DEFINE_AUTOPTR_CLEANUP_FUNC (TpsTable, tps_table_unref)

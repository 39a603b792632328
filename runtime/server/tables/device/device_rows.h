/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rows of one table on a device, with their optimizer state: in the device's memory, or in
 * page-locked memory of the host.
 *
 * All work on rows is queued on the table's one stream: a lookup sees each row as it is between two
 * updates. All other work of a call (copies, sums of gradients) is queued on the stream of its own
 * lane. After a failure, queued work has no effect, and waiting for it returns DEVICE_LOST. If the
 * device still works, the next call finds a new stream and the rows unchanged; otherwise the table
 * is lost. Thread: any. */

#pragma once

#include "runtime/base/worker_pool.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/server/tables/device/device_lane.h"

typedef struct
{
  gchar *name; /* of the table */
  TpsDeviceLanes *lanes;
  gint64 n_rows;
  gsize dim;
  TpsDType dtype; /* of the rows */
  gsize row_bytes;
  TpsRowRounding rounding; /* of updated rows that are not FLOAT32 */
  TpsOptimizerSpec optimizer;
  TpsBuffer *rows;  /* [n_rows, dim] of `dtype` */
  TpsBuffer *state; /* FLOAT32 [n_rows, tps_optimizer_state_per_row()] */

  TpsMutex lock; /* guards the fields below */
  TpsStream *stream;
  gint64 n_steps;  /* the number of steps taken */
  gint64 last_lsn; /* of the newest step that was queued or restored */

  /* Accessed by the thread that fills the table, and then by the thread of its step, without the
   * lock; see device_rows.c. */
  GArray *filled;    /* NULL = no row can already contain a future step */
  gint64 filled_lsn; /* the largest LSN of a restored row */
} TpsDeviceRows;

/* Bags of rows by slot; all arrays are borrowed and in the host's memory. The slot of index i is
 * slots[i] - base. */
typedef struct
{
  TpsDeviceRows *rows;
  const gint64 *slots; /* [n_indices] */
  gint64 base;
  gsize n_indices;
  const gint64 *offsets; /* [n_bags]; NULL = each index is a bag, and n_bags is n_indices */
  gsize n_bags;
  const gfloat *weights; /* [n_indices], or NULL */
  TpsPooling pooling;
} TpsDeviceBags;

/* Returns the first index of a bag; for `bag` n_bags, the number of indices. */
static inline gsize
tps_device_bag_start (const TpsDeviceBags *bags, gsize bag)
{
  if (bag == bags->n_bags)
    return bags->n_indices;
  return bags->offsets != NULL ? (gsize) bags->offsets[bag] : bag;
}

/* Writes the initial values of rows [first, first + n) of a table in any place, by slot, to `to`
 * [n, dim], which is in the host's memory. `workers` may be NULL. */
void tps_table_fill_initial_rows (const TpsTableSpec *spec, gsize first, gsize n, guint8 *to,
                                  TpsWorkerPool *workers);

/* Allocates the rows of a table, owned by the caller, with the bits of tps_initializer_fill_row(),
 * or undefined if `is_unfilled`. `spec` must be resolved and name the place. `lanes` are borrowed.
 * Errors: RESOURCE_EXHAUSTED, DEVICE_LOST. */
TpsDeviceRows *tps_device_rows_new (const TpsTableSpec *spec, TpsDeviceLanes *lanes,
                                    TpsWorkerPool *workers, gboolean is_unfilled, GError **error);
/* Waits for the work on the table's stream, and frees the rows. */
void tps_device_rows_free (TpsDeviceRows *rows);

/* Enqueues the pooling of `bags` after event `before`, and then event `after`. The arrays of
 * `bags` and `output` must be in the device's memory. */
void tps_device_rows_pool (TpsDeviceRows *rows, const TpsBags *bags, gfloat *output,
                           TpsEvent *before, TpsEvent *after);

/* The rows of a step and their gradients. All arrays lie in the device's memory. */
typedef struct
{
  const gint64 *indices;   /* [capacity], unique */
  const gfloat *gradients; /* [capacity, dim] */
  const gint64 *n_rows;    /* [1], at most the capacity */
  gsize capacity;          /* 0 = the step has no rows, and the pointers are NULL */
} TpsDeviceStepRows;

/* Enqueues the next step, of command `lsn`, after event `before`, and then event `after`. When
 * `after` has been reached without a failure, the caller must call tps_device_rows_count_step(). If
 * a step is not counted, the next step uses its number again. */
void tps_device_rows_step (TpsDeviceRows *rows, const TpsDeviceStepRows *step, gint64 lsn,
                           TpsEvent *before, TpsEvent *after);
void tps_device_rows_count_step (TpsDeviceRows *rows);

/* Records `event` behind the work queued so far. Returns FALSE if this work is already known to
 * have failed. Does not block. Errors: DEVICE_LOST. */
gboolean tps_device_rows_check (TpsDeviceRows *rows, TpsEvent *event, GError **error);

/* Must be called after a failure of queued work. Waits for the remaining work, and makes a new
 * stream if the stream has failed but the device still works. */
void tps_device_rows_recover (TpsDeviceRows *rows);

/* Writes the slots of indices [first, first + n), without the base, to `to` [n]. */
void tps_device_bags_stage_slots (const TpsDeviceBags *bags, gsize first, gsize n, gint64 *to);

/* -- copies for snapshots -- */

/* Copies of rows for snapshots. A device keeps no LSNs of rows: a copy contains exactly the steps
 * that were queued before it, and each row gets the LSN of the last of them. A table that was
 * filled from a snapshot keeps the LSNs of its rows until replay has passed the largest, so that no
 * row takes a step twice. */

/* Copies rows [slot, slot + n) to `to`, in the table's dtype, and their optimizer state to `state`,
 * which is not written if the optimizer has none. Sets `lsn` to the LSN of all of these rows. Steps
 * of the table wait for the copy. Blocks. Errors: DEVICE_LOST, RESOURCE_EXHAUSTED. Thread: any. */
gboolean tps_device_rows_capture (TpsDeviceRows *rows, gsize slot, gsize n, gpointer to,
                                  gfloat *state, gint64 *lsn, GError **error);

/* Writes rows, their state and their LSNs to the device. No other thread may have the table. Calls
 * must be made in ascending slot order. `state` is not read if there is none. Blocks. Errors:
 * DEVICE_LOST, RESOURCE_EXHAUSTED. */
gboolean tps_device_rows_fill (TpsDeviceRows *rows, gsize slot, gsize n, gconstpointer from,
                               const gfloat *state, const gint64 *lsns, GError **error);

/* Returns TRUE if a row may already contain the step of command `lsn`. If `lsn` is greater than all
 * LSNs of fill(), these are discarded, since later commands have larger LSNs. Thread: the thread
 * of the table's step. */
gboolean tps_device_rows_may_have (TpsDeviceRows *rows, gint64 lsn);

/* Returns TRUE if the row in `slot` contains the step of command `lsn`. Must not be called unless
 * tps_device_rows_may_have() has returned TRUE. Thread: the thread of the table's step. */
gboolean tps_device_rows_has (const TpsDeviceRows *rows, gint64 slot, gint64 lsn);

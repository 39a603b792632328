/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rows of one table on a device, with their optimizer state: in the device's memory, or in
 * page-locked memory of the host that the device reads and writes over the bus.
 *
 * The table has one stream, on which all work on its rows is queued. A lookup therefore sees each
 * row as it is between two updates, and updates come one after the other. All other work of a call
 * (copies, sums of gradients) is queued on the stream of the call's own lane, in parallel with
 * other calls.
 *
 * Failures: work that is queued after a failure has no effect, and waiting for it returns
 * DEVICE_LOST. If the device still works, the next call finds a new stream and the rows unchanged.
 * Otherwise the table is lost and every call fails. Thread: any.
 */

#pragma once

#include "runtime/server/tables/device/device_lane.h"
#include "runtime/embedding/table_spec.h"
#include "runtime/base/worker_pool.h"

G_BEGIN_DECLS

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

  /* Accessed by the thread that fills the table, and then by that of its step; see
   * device_image.c. */
  GArray *filled;    /* NULL = no row can already contain a future step */
  gint64 filled_lsn; /* the greatest LSN of a restored row */
} TpsDeviceRows;

/* Bags of rows by slot; everything is borrowed and in the host's memory. The row of index i is
 * slots[i] - base. */
typedef struct
{
  TpsDeviceRows *rows;
  const gint64 *slots; /* [n_indices] */
  gint64 base;
  gsize n_indices;
  const gint64 *offsets; /* [n_bags]; NULL: n_bags is n_indices, and each index is a bag */
  gsize n_bags;
  const gfloat *weights; /* [n_indices], or NULL */
  TpsPooling pooling;
} TpsDeviceBags;

/* `spec` is resolved and names the place. Takes the memory and fills it, with the bits of
 * tps_initializer_fill_row(), or leaves its contents undefined (`is_unfilled`). `lanes` are
 * borrowed. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; all memory has been released then. */
TpsDeviceRows *tps_device_rows_new (const TpsTableSpec *spec, TpsDeviceLanes *lanes,
                                    TpsWorkerPool *workers, gboolean is_unfilled, GError **error);
/* Waits for the work on its stream, and frees. */
void tps_device_rows_free (TpsDeviceRows *rows);

/* Enqueues, after event `before`: pools `bags`, whose arrays, like `output` and `argmax`, are in
 * the device's memory; then event `after`. */
void tps_device_rows_pool (TpsDeviceRows *rows, const TpsBags *bags, gfloat *output, gint64 *argmax,
                           TpsEvent *before, TpsEvent *after);

/* The rows of a step and their gradients. All arrays lie in the device's memory. */
typedef struct
{
  const gint64 *indices;   /* [capacity], unique */
  const gfloat *gradients; /* [capacity, dim] */
  const gint64 *n_rows;    /* [1], at most the capacity */
  gsize capacity;          /* 0: the step has no rows, and the pointers are NULL */
} TpsDeviceStepRows;

/* Enqueues, after event `before`, the next step, that of command `lsn`; then event `after`. When
 * `after` has been reached without a failure, the caller must call tps_device_rows_count_step(). A
 * step that was not counted did not happen, and the next step uses its number again. */
void tps_device_rows_step (TpsDeviceRows *rows, const TpsDeviceStepRows *step, gint64 lsn,
                           TpsEvent *before, TpsEvent *after);
void tps_device_rows_count_step (TpsDeviceRows *rows);

/* Records `event` behind the work queued so far. Returns FALSE if that work is known to have
 * failed. Does not block. Errors: DEVICE_LOST. */
gboolean tps_device_rows_check (TpsDeviceRows *rows, TpsEvent *event, GError **error);

/* Waits until all work queued so far is complete, by means of `event`. Errors: DEVICE_LOST. */
gboolean tps_device_rows_wait (TpsDeviceRows *rows, TpsEvent *event, GError **error);

/* After a failure of queued work: waits for the rest, and makes a new stream if the old one has
 * failed and the device has not. */
void tps_device_rows_recover (TpsDeviceRows *rows);

/* Writes the rows of indices [first, first + n), as numbers from 0 on. */
void tps_device_bags_stage_slots (const TpsDeviceBags *bags, gsize first, gsize n, gint64 *to);

G_END_DECLS

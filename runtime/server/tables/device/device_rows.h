/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* The rows of one table and their optimizer state where a device works on them: in its own memory,
 * or in page-locked memory of the host that it reads and writes over the bus.
 *
 * The table has one stream, on which everything is queued that touches rows: so a lookup sees each
 * row as it is between two updates, and updates come one after the other. Everything else of a call
 * (copies, sums of gradients) is queued on the stream of the call's own lane, beside other calls.
 *
 * Failures: what is queued after a failure does nothing, and who waits for it gets DEVICE_LOST.
 * Where the device lives on, the next call finds a new stream and the rows as they were; where it
 * does not, the table is lost and every call fails. Thread: any.
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
  TpsOptimizerSpec optimizer;
  TpsBuffer *rows;  /* FLOAT32 [n_rows, dim] */
  TpsBuffer *state; /* FLOAT32 [n_rows, tps_optimizer_state_per_row()] */

  TpsMutex lock; /* guards the fields below */
  TpsStream *stream;
  gint64 n_steps;  /* that were taken */
  gint64 last_lsn; /* of the newest step that was queued, or that came with a snapshot */

  /* Of the thread that fills the table, and then of that of its step; see device_image.c. */
  GArray *filled;    /* NULL = no row can have a step that is to come */
  gint64 filled_lsn; /* the greatest LSN that a row came with */
} TpsDeviceRows;

/* Bags of rows by slot; everything is borrowed and in the host's memory. The row of index i is
 * slots[i] - base. */
typedef struct
{
  TpsDeviceRows *rows;
  const gint64 *slots; /* [n_indices] */
  gint64 base;
  gsize n_indices;
  const gint64 *offsets; /* [n_bags]; or NULL: n_bags is n_indices, each a bag of its own */
  gsize n_bags;
  const gfloat *weights; /* [n_indices], or NULL */
  TpsPooling pooling;
} TpsDeviceBags;

/* `spec` is resolved, FLOAT32, and says where. Takes the memory and fills it, with the bits of
 * tps_initializer_fill_row(), or leaves its contents undefined (`is_unfilled`). `lanes` are
 * borrowed. Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; nothing is left then. */
TpsDeviceRows *tps_device_rows_new (const TpsTableSpec *spec, TpsDeviceLanes *lanes,
                                    TpsWorkerPool *workers, gboolean is_unfilled, GError **error);
/* Waits for what is under way. */
void tps_device_rows_free (TpsDeviceRows *rows);

/* Enqueues, after event `before`: pools `bags`, whose arrays lie in the device's memory as do
 * `output` and `argmax`; then event `after`. */
void tps_device_rows_pool (TpsDeviceRows *rows, const TpsBags *bags, gfloat *output, gint64 *argmax,
                           TpsEvent *before, TpsEvent *after);

/* Enqueues the next step, that of command `lsn`, for rows `indices` [n_rows], unique, with
 * `gradients` [n_rows, dim], both in the device's memory and ready; then event `after`. No rows are
 * a step too. A step that was not counted did not happen: its number is used again. */
void tps_device_rows_step (TpsDeviceRows *rows, const gint64 *indices, const gfloat *gradients,
                           gsize n_rows, gint64 lsn, TpsEvent *after);
void tps_device_rows_count_step (TpsDeviceRows *rows);

/* Waits until everything queued so far is done, by way of `event`. Errors: DEVICE_LOST. */
gboolean tps_device_rows_check (TpsDeviceRows *rows, TpsEvent *event, GError **error);

/* After a failure of what was queued: waits for the rest, and makes a new stream where the old one
 * is bad and the device is not. */
void tps_device_rows_recover (TpsDeviceRows *rows);

/* Rows of indices [first, first + n), as numbers from 0 on. */
void tps_device_bags_stage_slots (const TpsDeviceBags *bags, gsize first, gsize n, gint64 *to);

G_END_DECLS

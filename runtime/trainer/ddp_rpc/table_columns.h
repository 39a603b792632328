/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Data exchange between the tables and the model, which computes on a device. The rows of each
 * table become columns of the model's input, and columns of the input's gradient become rows again.
 * The rows of each table lie in host memory or in memory of the device. Rows in device memory are
 * copied within this memory; rows in host memory pass through one page-locked matrix. Data are
 * copied only where necessary. Thread: one at a time. */

#pragma once

#include "runtime/trainer/nn/staged_tensor.h"

G_BEGIN_DECLS

typedef struct
{
  TpsStream *stream; /* the model's stream; borrowed */
  guint n_tables;
  gsize dim;
  gsize max_bags;
  TpsStagedTensor input; /* [max_bags, n_tables * dim] */
  TpsEvent *joined;      /* reached when the rows have been read; NULL on the CPU */
  TpsBuffer *gradient;   /* the gradient on the host; NULL on the CPU */
  TpsTensor slices;      /* [n_tables, max_bags, dim]: the gradient as rows */
} TpsTableColumns;

/* Allocates the memory. `columns` must be cleared even after an error. Errors: RESOURCE_EXHAUSTED,
 * DEVICE_LOST. */
gboolean tps_table_columns_init (TpsTableColumns *columns, TpsStream *stream, guint n_tables,
                                 gint64 dim, gint64 max_bags, GError **error);
/* Waits for the stream and releases the memory. An all-zero value is allowed. */
void tps_table_columns_clear (TpsTableColumns *columns);

/* Builds `input` [n_bags, n_tables * dim], in the device's memory, from the rows [n_bags, dim] of
 * each table. Only enqueues. `input` must be empty. `rows` [n_tables] must not change until the
 * stream has passed; with a single table they may be moved to `input`. */
void tps_table_columns_join (TpsTableColumns *columns, TpsTensor *rows, gsize n_bags,
                             TpsTensor *input);

/* Releases `rows` [n_tables] after the stream has passed the last join; does not wait for later
 * work of the stream. A failure of the device is reported by the next operation that returns
 * errors. */
void tps_table_columns_release (TpsTableColumns *columns, TpsTensor *rows);

/* Converts the input's gradient, in the device's memory, to the rows of each table, rows[n_tables].
 * These rows are valid until the next call, and only as long as `gradient` is valid. Waits for the
 * stream. Errors: DEVICE_LOST. */
gboolean tps_table_columns_split (TpsTableColumns *columns, const gfloat *gradient, gsize n_bags,
                                  const gfloat **rows, GError **error);

G_END_DECLS

/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* Between tables, whose rows lie in host memory, and the model, which computes on a device: the
 * rows that each table gave for the bags lie side by side in the columns of the model's input; of
 * the input's gradient the columns are rows again. What need not be copied is not. One thread at a
 * time. */

#pragma once

#include "runtime/nn/staged_tensor.h"

G_BEGIN_DECLS

typedef struct
{
  TpsStream *stream; /* the model's; borrowed */
  guint n_tables;
  gsize dim;
  gsize max_bags;
  TpsStagedTensor input; /* [max_bags, n_tables * dim] */
  TpsBuffer *gradient;   /* as much, on the host; NULL on the CPU */
  TpsTensor slices;      /* [n_tables, max_bags, dim]: the same as rows */
} TpsTableColumns;

/* Errors: RESOURCE_EXHAUSTED, DEVICE_LOST; is to be cleared then too. */
gboolean tps_table_columns_init (TpsTableColumns *columns, TpsStream *stream, guint n_tables,
                                 gint64 dim, gint64 max_bags, GError **error);
/* Waits for the stream. All zero is allowed. */
void tps_table_columns_clear (TpsTableColumns *columns);

/* From rows [n_bags, dim] of each table the input [n_bags, n_tables * dim], in the device's memory;
 * enqueues. `rows`
 * [n_tables] stay until the stream has passed; the only one of a single table may be moved out.
 *            `input` is empty. */
void tps_table_columns_join (TpsTableColumns *columns, TpsTensor *rows, gsize n_bags,
                             TpsTensor *input);

/* From the input's gradient, in the device's memory, the rows of each table, rows[n_tables]: valid
 * until the next call, as long as `gradient` is. Waits for the stream. Errors: DEVICE_LOST. */
gboolean tps_table_columns_split (TpsTableColumns *columns, const gfloat *gradient, gsize n_bags,
                                  const gfloat **rows, GError **error);

G_END_DECLS

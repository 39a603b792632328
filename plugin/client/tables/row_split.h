/* Copyright The ThriftPS Authors. SPDX-License-Identifier: Apache-2.0 */

/* A list of rows over the shards of their table. Rows stay in the order given within each shard. No
 * sockets here. */

#pragma once

#include "plugin/client/tables/placed_table.h"

G_BEGIN_DECLS

/* The rows of one shard. */
typedef struct
{
  guint shard;
  TpsTensorView indices; /* INT64 [n] */
  gsize *positions; /* [n], where each stands in the whole list; NULL = all of them, in order */
  TpsTensor answer;
} TpsRowPart;

typedef struct
{
  TpsPlacedTable *table; /* a reference */
  gsize n_rows;
  guint n_parts;
  TpsRowPart *parts; /* ascending shards */
  gint64 *indices;   /* what the parts' lie in */
  gsize *positions;
} TpsRowSplit;

/* `indices` INT64 [n] is checked, its rows too, and borrowed. Parts are shards with rows; with
 * `all_shards` the others too. */
void tps_row_split_init (TpsRowSplit *split, TpsPlacedTable *table, TpsTensorView indices,
                         gboolean all_shards);
void tps_row_split_clear (TpsRowSplit *split);

/* Takes the rows of a part over. Errors: INVALID_ARGUMENT where they do not fit what was asked.
 * Thread: several parts at a time. */
gboolean tps_row_split_take_answer (TpsRowSplit *split, guint number, TpsTensor *answer,
                                    GError **error);

/* All answers are there: [n, dim] of the table's dtype, zero before. */
void tps_row_split_merge (TpsRowSplit *split, TpsTensor *rows);

/* The part's rows of `values` [n, dim], any dtype. `gathered`, zero before, may borrow from
 * `values`. */
void tps_row_split_gather (const TpsRowSplit *split, guint number, TpsTensorView values,
                           TpsTensor *gathered);

/* A tensor that borrows what `view` shows. */
void tps_tensor_init_borrowed (TpsTensor *tensor, TpsTensorView view);

G_END_DECLS
